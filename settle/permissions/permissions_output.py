import json
from collections.abc import Mapping
from typing import Any

from settle.output.console import or_json, print_line, print_record, print_table


@or_json
def permissions(kinds: list[dict[str, Any]]) -> None:
    names = [one["kind"] for one in kinds]
    orders = sorted({order for one in kinds for order in one["orders"]})
    lines = [{"order": "(look)"} | {one["kind"]: "yes" if one["reads"] else "" for one in kinds}]
    lines += [
        {"order": order} | {one["kind"]: "yes" if order in one["orders"] else "" for one in kinds}
        for order in orders
    ]
    print_table(lines, ("order", *names))
    print_line()
    print_record({one["kind"]: one["policy"] for one in kinds})


@or_json
def policy(found: Mapping[str, Any]) -> None:
    print_line(found["policy"])
    for line in json.dumps(found["document"], indent=2).splitlines():
        print_line(line)
