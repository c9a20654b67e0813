from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.text import Text

from settle.instants import distance, seconds_since
from settle.output.console import or_json, out, print_json, print_line, print_table
from settle.output.printable import printable

_PROGRESS = ("last_step", "amount", "owner", "owner_epoch")
_IN_FLIGHT = ("key", "status", "since", *_PROGRESS, "recover_at", "deadline_at")
_CLAIMED = ("key", "status", "claimed_at", "finished_at", *_PROGRESS)
_INSTANTS = frozenset({"since", "recover_at", "deadline_at", "claimed_at", "finished_at"})
_TROUBLE = "bold red"
_BEHIND_SECONDS = 120
"""Delay after which recovery is late: it runs each minute."""

_CLOSED = "CLOSED"


def in_flight(lines: list[dict[str, Any]], at: datetime, as_json: bool) -> None:
    _lines(lines, _IN_FLIGHT, "no settlement is in flight", at, as_json)


def claimed(lines: list[dict[str, Any]], at: datetime, as_json: bool) -> None:
    _lines(lines, _CLAIMED, "no settlement was claimed since", at, as_json)


@or_json
def event(told: dict[str, Any]) -> None:
    data = told["data"]
    name = told["type"].removeprefix("settlement.")
    what = (
        f"{data['amount']} {data['currency']}"
        if "amount" in data
        else f"{data['ended']} of {data['lines']} lines ended"  # a pay run's
    )
    print_line(
        f"{told['time']}  {told['subject']}  {told['sequence']}  {name:<16}  {data['status']:<12}  {what}"
    )


def snapshots(taken: Iterable[dict[str, Any]], as_json: bool) -> None:
    """Print snapshots: in place on a terminal, otherwise one after the other.

    After a failed read, a terminal shows the last good snapshot with the error.
    """
    if as_json:
        for snapshot in taken:
            print_json(snapshot)
    elif not out.is_terminal:
        for snapshot in taken:
            out.print(render(snapshot), soft_wrap=True)
    else:
        seen: dict[str, Any] | None = None
        with Live(console=out, auto_refresh=False) as live:
            for snapshot in taken:
                seen = seen if snapshot["error"] else snapshot
                live.update(render(snapshot, seen), refresh=True)


def render(snapshot: dict[str, Any], seen: dict[str, Any] | None = None) -> Group:
    """Lay out `snapshot`. If it has an error, lay out `seen`, the last good one, with the error below."""
    if not snapshot["error"]:
        return Group(*_rows(snapshot))
    error = Text(printable(f"{snapshot['at']}  the look failed: {snapshot['error']}"), style=_TROUBLE)
    return Group(*(_rows(seen) if seen else ()), error)


def _rows(snapshot: dict[str, Any]) -> list[Text]:
    at = datetime.fromisoformat(snapshot["at"])
    flying, limbo, circuit = snapshot["in_flight"], snapshot["limbo"], snapshot["circuit"]
    by_status = ", ".join(f"{count} {status}" for status, count in flying["by_status"].items())
    at_risk = ", ".join(f"{amount} {currency}" for currency, amount in limbo["at_risk"].items())
    of_these = f" (of the {flying['count']} due first)" if flying["more"] else ""
    since = f" since {circuit['since']}" if circuit["since"] else ""
    behind = flying["behind_seconds"]
    rows = (
        ("stack", snapshot["stack"], False),
        ("at", snapshot["at"], False),
        ("in flight", f"{_count(flying)}: {by_status}; {flying['in_review']} in review", False),
        ("oldest in flight", f"{_oldest(flying, at)}{of_these}", False),
        ("due", f"{flying['due']} due for recovery, {flying['overdue']} overdue", flying["overdue"]),
        ("recovery", f"{behind} s behind" if behind else "in time", behind > _BEHIND_SECONDS),
        ("LIMBO", _count(limbo), limbo["count"]),
        ("proposals", f"{limbo['proposed']} of these cases wait for another person", limbo["proposed"]),
        ("oldest in LIMBO", _oldest(limbo, at), False),
        ("at risk", ("at least " if limbo["more"] else "") + at_risk if at_risk else "nothing", False),
        ("KYC circuit", f"{circuit['state']}{since}", circuit["state"] != _CLOSED),
    )
    unreadable = [*flying["unreadable"], *limbo["unreadable"]]
    named = [*rows, *(("cannot be read", told, True) for told in unreadable)]
    width = max(len(name) for name, _, _ in named)
    return [
        Text.assemble(f"{name:<{width}}  ", (printable(text), _TROUBLE if is_trouble else ""))
        for name, text, is_trouble in named
    ]


def _count(part: dict[str, Any]) -> str:
    return f"{part['count']}{'+' if part['more'] else ''}"


def _oldest(part: dict[str, Any], at: datetime) -> str:
    oldest = part["oldest"]
    return f"{oldest['key']}, {_when(oldest['since'], at)}" if oldest else "none"


def _lines(
    lines: list[dict[str, Any]], columns: tuple[str, ...], nothing: str, at: datetime, as_json: bool
) -> None:
    if as_json:
        print_json(lines)
    elif lines:
        print_table([_for_a_person(line, at) for line in lines], columns)
    else:
        print_line(nothing)


def _for_a_person(line: dict[str, Any], at: datetime) -> dict[str, Any]:
    """Shorten a line for a terminal: ages, and only the last step.

    Steps commit in order, so the last step implies the others.
    """
    shown = {name: _when(value, at) if name in _INSTANTS else value for name, value in line.items()}
    review = f" (in review, until {shown['deadline_at']})" if line.get("in_review") else ""
    return shown | {
        "status": f"{line['status'] or 'unknown'}{review}",
        "last_step": line["steps"][-1] if line["steps"] else "",
        "amount": " ".join(filter(None, (line["amount"], line["currency"]))),
        "owner": (line["owner"] or "").replace(line["key"], "…", 1),
    }


def _when(instant: str | None, at: datetime) -> str:
    if not instant or seconds_since(instant, at) is None:  # an unreadable row
        return instant or ""
    return distance(instant, at)
