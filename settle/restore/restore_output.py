from collections.abc import Mapping
from typing import Any

from settle.output.console import or_json, print_line


@or_json
def plan(told: Mapping[str, Any]) -> None:
    print_line(f"table {told['table']}, as of {told['restored_to']}")
    print_line(f"sealed journal: until {told['journal_until'] or 'then, nothing since'}")
    for name in ("settings", "books", "changed"):
        for fault in told[name]:
            print_line(f"{name.upper()} {fault}")
    for one in told["since"]:
        steps = ", ".join(" ".join(filter(None, (step["step"], step["amount"]))) for step in one["steps"])
        kind = "NEW SINCE" if one["claimed_since"] else "SINCE"
        print_line(f"{kind} {one['key']}: {steps or 'no step'}; {one['proven']} of {one['rows']} rows whole")
    for one in told["in_flight"]:
        since = ", ".join(one["steps_since"]) or "nothing"
        print_line(f"{one['status']} {one['key']} {one['amount']}; since then: {since}")
    print_line(f"circuit {told['circuit']}")
    print_line(
        "READY: the table lacks nothing that the journal has"
        if told["ready"]
        else "NOT READY: do not let the stage settle on it; see docs/operating/restore.md"
    )
