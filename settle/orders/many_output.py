from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from settle.output.console import or_json, print_json, print_line, print_table

_SHOWN = ("key", "case", "since", "account", "amount_at_risk", "currency", "error")
_PROPOSED = ("proposed", "proposed_by", "reason")


@or_json
def dry_run(shown: Mapping[str, Any]) -> None:
    proposed = _PROPOSED if any(line["proposed"] for line in (*shown["cases"], *shown["left_out"])) else ()
    for lines, more in ((shown["cases"], ()), (shown["left_out"], ("why",))):
        if lines:
            print_table(lines, (*_SHOWN, *proposed, *more), right=("amount_at_risk",))
            print_line()
    for why, count in Counter(line["why"] for line in shown["left_out"]).items():
        print_line(f"left out: {count}: {why}")
    if shown["propose"]:
        print_line("to propose it:")
        print_line(f"  {shown['propose']}")
    if not shown["cases"]:
        print_line(f"nothing to decide: no open case fits {shown['decision']}")
        return
    at_risk = ", ".join(f"{amount} {currency}" for currency, amount in shown["at_risk"].items())
    errors = ", ".join(f"{count} {error}" for error, count in shown["errors"].items())
    print_line(f"{shown['decision']}: cases: {shown['count']}; at risk: {at_risk}; errors: {errors}")
    proposals = Counter(
        tuple(line[name] for name in _PROPOSED) for line in shown["cases"] if line["proposed"]
    )
    for (decision, person, reason), count in proposals.items():
        print_line(f"proposed: {count}: {decision} by {person}: {reason}")
    if shown["persons"] > 1:
        print_line(f"it needs {shown['persons']} persons")
    print_line("nothing is ordered yet; for these cases and no others:")
    print_line(f"  {shown['command']}")


def results(lines: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    if as_json:
        for line in lines:
            print_json(line)
    elif lines:
        print_table(lines, ("key", "case", "result"))
