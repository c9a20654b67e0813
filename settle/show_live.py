"""Printing what is in flight: lists of settlements, and the live view of what the stack does."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from aws_lambda_powertools.utilities.circuit_breaker import CircuitState
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from settle.instants import distance
from settle.printing import cell, out, print_json

_PROGRESS = ("last_step", "amount", "owner", "recoveries")
_IN_FLIGHT = ("key", "status", "since", *_PROGRESS, "recover_at", "deadline_at")
_CLAIMED = ("key", "status", "claimed_at", "finished_at", *_PROGRESS)
_INSTANTS = frozenset({"since", "recover_at", "deadline_at", "claimed_at", "finished_at"})
_TROUBLE = "bold red"


def in_flight(lines: list[dict[str, Any]], at: datetime, as_json: bool) -> None:
    """Settlements in flight, with how long ago or ahead everything is."""
    _lines(lines, _IN_FLIGHT, "no settlement is in flight", at, as_json)


def claimed(lines: list[dict[str, Any]], at: datetime, as_json: bool) -> None:
    """Settlements of any status, with how long ago they were claimed and ended."""
    _lines(lines, _CLAIMED, "no settlement was claimed since", at, as_json)


def pictures(shown: Iterable[dict[str, Any]], as_json: bool) -> None:
    """Picture after picture: in one place on a terminal, else one below the other, as JSON one a line.

    Beside a look that failed, a terminal goes on to show what the last good one saw, and when.
    """
    if as_json:
        for picture in shown:
            print_json(picture)
    elif not out.is_terminal:
        for picture in shown:
            out.print(render(picture))
    else:
        seen: dict[str, Any] | None = None
        with Live(console=out, auto_refresh=False) as live:
            for picture in shown:
                seen = seen if picture["error"] else picture
                live.update(render(picture, seen), refresh=True)


def render(picture: dict[str, Any], seen: dict[str, Any] | None = None) -> Group:
    """A picture for a person; of one that failed, the error and the picture that was `seen` before."""
    if not picture["error"]:
        return Group(_table(picture))
    error = Text(f"{picture['at']}  the look failed: {picture['error']}", style=_TROUBLE)
    return Group(_table(seen), error) if seen else Group(error)


def _table(picture: dict[str, Any]) -> Table:
    at = datetime.fromisoformat(picture["at"])
    flying, limbo, circuit = picture["in_flight"], picture["limbo"], picture["circuit"]
    by_status = ", ".join(f"{count} {status}" for status, count in flying["by_status"].items())
    at_risk = ", ".join(f"{amount} {currency}" for currency, amount in limbo["at_risk"].items())
    late = _TROUBLE if flying["overdue"] else ""
    table = Table.grid(padding=(0, 2))
    table.add_row("at", picture["at"])
    table.add_row("in flight", f"{_count(flying)}: {by_status}; {flying['in_review']} in review")
    of_these = f" (of the {flying['count']} due first)" if flying["more"] else ""
    table.add_row("oldest in flight", f"{_oldest(flying, at)}{of_these}")
    table.add_row("due", Text(f"{flying['due']} due for recovery, {flying['overdue']} overdue", style=late))
    table.add_row("LIMBO", Text(_count(limbo), style=_TROUBLE if limbo["count"] else ""))
    table.add_row("oldest in LIMBO", _oldest(limbo, at))
    table.add_row("at risk", ("at least " if limbo["more"] else "") + at_risk if at_risk else "nothing")
    closed = circuit["state"] == CircuitState.CLOSED.value
    since = f" since {circuit['since']}" if circuit["since"] else ""
    table.add_row("KYC circuit", Text(f"{circuit['state']}{since}", style="" if closed else _TROUBLE))
    return table


def _count(part: dict[str, Any]) -> str:
    """How many there are; "100+" where there are more than were looked at."""
    return f"{part['count']}{'+' * part['more']}"


def _oldest(part: dict[str, Any], at: datetime) -> str:
    oldest = part["oldest"]
    return f"{oldest['key']}, {_when(oldest['since'], at)}" if oldest else "none"


def _lines(
    lines: list[dict[str, Any]], columns: tuple[str, ...], nothing: str, at: datetime, as_json: bool
) -> None:
    if as_json:
        print_json(lines)
    elif lines:
        _print_aligned([_for_a_person(line, at) for line in lines], columns)
    else:
        out.print(nothing)


def _for_a_person(line: dict[str, Any], at: datetime) -> dict[str, Any]:
    """A line that fits on a terminal: ages instead of instants, and the key spelled once.

    Steps commit in their order, so the last one tells them all.
    """
    shown = {name: _when(value, at) if name in _INSTANTS else value for name, value in line.items()}
    review = " (in review)" if line.get("in_review") else ""
    return shown | {
        "status": f"{line['status'] or 'unknown'}{review}",
        "last_step": line["steps"][-1] if line["steps"] else "",
        "amount": " ".join(filter(None, (line["amount"], line["currency"]))),
        "owner": (line["owner"] or "").replace(line["key"], "…", 1),
    }


def _print_aligned(lines: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    """One settlement a line, however wide: nothing is folded or cut, and a line is found with grep."""
    cells = [[cell(line[column]) for column in columns] for line in lines]
    cells.insert(0, [column.replace("_", " ") for column in columns])
    widths = [max(len(text) for text in column) for column in zip(*cells, strict=True)]
    for row in cells:
        aligned = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        out.print("  ".join(aligned).rstrip(), soft_wrap=True)


def _when(instant: str | None, at: datetime) -> str:
    return distance(instant, at) if instant else ""
