from collections.abc import Mapping
from typing import Any

from settle.orders.limbo import FIELDS
from settle.output.console import or_json, print_line, print_record, print_table


@or_json
def cases(open_cases: list[dict[str, Any]]) -> None:
    if open_cases:
        print_table(open_cases, FIELDS, right=("amount_at_risk",))
    else:
        print_line("no settlement is in LIMBO")


@or_json
def case(stuck: Mapping[str, Any]) -> None:
    print_record({name: value for name, value in stuck.items() if name not in ("decisions", "proposal")})
    if proposal := stuck.get("proposal"):
        by, until = proposal["proposed_by"], proposal["valid_until"]
        print_line()
        print_line(f"proposed by {by}: {proposal['decision']}: {proposal['reason']}")
        print_line(f"  approvals: {proposal['approvals']}, until {until}")
        print_line(f"  {proposal['command']}")
    for one in stuck["decisions"]:
        print_line()
        print_line(f"{one['decision']}: {one['effect']}")
        if one["command"]:
            print_line(f"  {one['command']}")
