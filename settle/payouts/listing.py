"""Payouts under way, open cases, and refused lines of the bank, as the table's index lists them.

The index may lag, so the rows decide. Malformed rows are named beside the good ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from settle.payouts import case
from settle.payouts.case import OnRecord
from settle.settlements import aside
from settle.settlements.aside import UNREADABLE, Line
from settle.settlements.index import listed
from settle.stack import Stack
from settlement.bank import record
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.stored import MalformedRow, exponent_of, subject_of
from settlement.payouts.payout import State

UNDER_WAY: tuple[str, ...] = (
    *("key", "status", "account", "amount", "currency", "destination", "next_look", "attempts", "said"),
    "detail",
)
CASES: tuple[str, ...] = (
    *("key", "case", "since", "status", "account", "amount", "currency", "said", "trouble", "proposed"),
)
LINES: tuple[str, ...] = (
    *("key", "booked", "side", "amount", "currency", "bank_reference", "reference", "refused", "file"),
)
"""Fields of a refused line. `key` is its identity, `file` the SHA-256 of the statement file."""


@dataclass
class Listed:
    """Lines of a list, unreadable rows last, and whether more exist."""

    lines: list[Line] = field(default_factory=list)
    more: bool = False


def under_way(stack: Stack, limit: int) -> Listed:
    """Return payouts that have a next look, soonest first."""
    shards = [keys.payouts_partition(shard) for shard in range(keys.PAYOUT_SHARDS)]
    return _listed(shards, UNDER_WAY, stack, limit, lambda row: _under_way(stack, _payout(row)))


def cases(stack: Stack, limit: int) -> Listed:
    """Return open cases, oldest first, with the verdicts proposed about their current state."""
    states = dict[str, State]()

    def line(row: Row) -> Line:
        state = _payout(row)
        states[state.key] = state
        return _case(stack, state)

    found = _listed([keys.PAYOUT_CASES], CASES, stack, limit, line)
    on_record = case.on_record(stack, list(states.values()))
    found.lines = [one | _proposed(on_record.get(one["key"], OnRecord())) for one in found.lines]
    return found


def refused_lines(stack: Stack, limit: int) -> Listed:
    """Return the bank's refused payout lines, oldest first, with the reasons."""
    return _listed([keys.PAYOUT_LINE_FAULTS], LINES, stack, limit, lambda row: _refused(stack, row))


def _listed(
    partitions: Sequence[str],
    fields: Sequence[str],
    stack: Stack,
    limit: int,
    line: Callable[[Row], Line],
) -> Listed:
    found = listed(stack, partitions, (), limit)
    lines, unreadable = list[Line](), [aside.line(fields, *one) for one in found.unreadable]
    for row in found.rows:
        if row.get("gsi1pk") not in partitions:
            continue
        try:
            lines.append(line(row))
        except MalformedRow as malformed:
            unreadable.append(aside.line(fields, row, str(malformed)))
    return Listed([*lines, *unreadable], found.more)


def _payout(row: Row) -> State:
    name = keys.subject(row)[1]
    if keys.payout(name).items() <= row.items():
        return State.from_row(row)
    raise MalformedRow(f"{subject_of(row)}: is no payout")


def _under_way(stack: Stack, state: State) -> Line:
    return _shown(stack, state) | {
        "destination": state.payout.destination,
        "next_look": state.listed_at,
        "attempts": state.attempts,
        "detail": state.detail,
    }


def _case(stack: Stack, state: State) -> Line:
    return _shown(stack, state) | {"case": state.cases, "since": state.listed_at, "trouble": state.trouble}


def _shown(stack: Stack, state: State) -> dict[str, Any]:
    payout = state.payout
    return {
        "key": state.key,
        "status": state.status.value,
        "account": payout.account,
        "amount": _amount(stack, f"PAYOUT#{state.key}", payout.amount, payout.currency),
        "currency": payout.currency,
        "said": state.said,
    }


def _proposed(found: OnRecord) -> dict[str, Any]:
    told = {"proposed": ", ".join(sorted(found.proposed)) or None}
    return told | ({UNREADABLE: "; ".join(found.unreadable)} if found.unreadable else {})


def _refused(stack: Stack, row: Row) -> Line:
    identity = keys.subject(row)[1]
    if not keys.payout_line(identity).items() <= row.items():
        raise MalformedRow(f"{subject_of(row)}: is no listed line")
    why, own = row.get("refused"), stack.store.read(keys.bank_line(identity))
    if not isinstance(why, str):
        raise MalformedRow(f"{subject_of(row)}: refused must be a text")
    if own is None:
        raise MalformedRow(f"{subject_of(row)}: the line itself is not on record; {why}")
    one = record.line_of(own).line
    shown = ("booked", "side", "currency", "bank_reference", "reference", "file")
    amount = _amount(stack, subject_of(row), one.amount, one.currency)
    return {"key": identity, **{name: getattr(one, name) for name in shown}, "amount": amount, "refused": why}


def _amount(stack: Stack, subject: str, minor: int, currency: str) -> str:
    return money.render(minor, exponent_of(subject, currency, stack.config))
