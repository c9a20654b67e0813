from collections.abc import Mapping, Sequence
from typing import Any

from settle.exit_codes import Exit
from settle.output.console import note, or_json, print_json, print_line, print_record, print_table
from settle.payruns.checking import Checked
from settle.payruns.on_record import FIELDS, sums_of
from settle.payruns.results import FIELDS as OF_RESULTS
from settle.payruns.results import counted
from settle.payruns.sheet import PROBLEMS_MAX
from settle.stack import Stack
from settlement.payruns.file import DamagedFile

SHOWN_MAX = 20

_RECORD = (
    *("name", "run", "status", "kind", "payer", "lines", "sums", "reason", "parent"),
    *("proposed_by", "proposed_at", "approved_by", "needed", "begun", "started", "ended"),
    *("cancelled_after", "repeats", "digest"),
)


def code_of(told: Mapping[str, Any]) -> Exit:
    return Exit.FINE if told["status"] in ("FINISHED", "CANCELLED") else Exit.IN_FLIGHT


def checked(stack: Stack, found: Checked, as_json: bool, *, more: int, is_answer: bool) -> None:
    """Print the file's sums, and its faults on standard error.

    `is_answer`: the command prints no other JSON.
    """
    more += len(found.problems[PROBLEMS_MAX:])
    for problem in found.problems[:PROBLEMS_MAX]:
        note(str(problem))
    if more:
        note(f"and {more} more faults")
    try:
        sums = sums_of(stack, f"PAYRUN#{found.run}", found.file.sums(stack.config))
    except DamagedFile:
        sums = {}
    if as_json:
        if is_answer or found.problems:
            told = {"lines": len(found.file.lines), "sums": sums, "left": found.left, "notes": found.notes}
            print_json({**told, "problems": [one._asdict() for one in found.problems]})
        return
    print_line(f"{len(found.file.lines)} lines: {_amounts(sums)}")
    if found.left is not None:
        print_line(f"left on {found.file.header.payer}: {found.left}")
    for text in found.notes:
        print_line(text)
    for what, lines in zip(("new", "gone"), found.differs or (), strict=False):
        for line in lines[:SHOWN_MAX]:
            print_line(f"  {what}: line {line.number}: {line.payee} {line.amount} {line.currency}")


@or_json
def run(told: Mapping[str, Any]) -> None:
    shown = {name: told[name] for name in _RECORD if told.get(name) not in (None, [])}
    shown["sums"] = _amounts(told["sums"])
    print_record(shown)
    if told["outcomes"]:
        print_line()
        lines = [{**one, "sums": _amounts(one["sums"])} for one in told["outcomes"]]
        print_table(lines, ("outcome", "lines", "sums"), right=("lines",))
    for command in told["next"]:
        print_line(f"  {command}")


@or_json
def listed(lines: Sequence[Mapping[str, Any]]) -> None:
    if lines:
        print_table(lines, FIELDS, right=("lines", "started", "ended"))
    else:
        print_line("there is no pay run")


def results(lines: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(lines)
        return
    print_table(lines, OF_RESULTS, right=("line", "amount"))
    print_line(", ".join(f"{count} {outcome}" for outcome, count in counted(lines).items()))


def _amounts(sums: Mapping[str, str]) -> str:
    return ", ".join(f"{amount} {code}" for code, amount in sums.items())
