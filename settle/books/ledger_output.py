from collections.abc import Mapping
from typing import Any

from settle.output.console import or_json, print_line, print_record, print_table


@or_json
def projected(found: Mapping[str, Any]) -> None:
    for fault in found["unreadable"]:
        print_line(fault)
    counted = {name: value for name, value in found.items() if name != "unreadable"}
    print_record({name.replace("_", " "): str(value) for name, value in counted.items()})


@or_json
def followed(found: Mapping[str, Any]) -> None:
    behind = "unknown" if found["behind_seconds"] is None else f"{found['behind_seconds']} s"
    names = ("objects", "entries", "put_aside", "late")
    counted = (f"{found[name]} {name.replace('_', ' ')}" for name in names)
    faults = (
        [f"{len(found['unreadable'])} unreadable: {found['unreadable'][0]}"] if found["unreadable"] else []
    )
    faults += [found["fault"]] if found["fault"] else []
    print_line(f"{found['at']}  behind: {behind}  " + ", ".join((*counted, *faults)))


@or_json
def verified(found: Mapping[str, Any]) -> None:
    for told in found["differences"]:
        print_line(told)
    if found["more"]:
        print_line(f"and {found['more']} more")
    if found["put_aside"]:
        print_line(f"{found['put_aside']} lines were put aside: settle ledger put-aside")
    if found["suspense"]:
        print_line(f"{found['suspense']} entries came after their month was closed: see ledger.suspense")
    verdict = "agree" if found["agrees"] else "differ"
    print_line(
        f"books and table {verdict}: {found['entries']} entries up to {found['until']},"
        f" {found['on_their_way']} later ones, {found['behind_seconds']} s behind, digest {found['digest']}"
    )


@or_json
def put_aside(found: list[dict[str, Any]]) -> None:
    print_table(found, ("put_at", "object", "reason"))
