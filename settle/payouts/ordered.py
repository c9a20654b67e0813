"""People's orders on payees, and decisions about payouts, as `settle audit` shows them."""

from collections.abc import Iterator, Sequence
from itertools import islice

from settle.settlements import aside, index
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.request import KEY
from settlement.core.model.stored import MalformedRow, exponent_of, sound
from settlement.core.store import batch
from settlement.payouts.payout import State
from settlement.proof import payout_rows

_TEXTS = ("account", "reason", "by", "approved_by", "user_id", "request_id", "source_ip")
_GIVERS = ("added_by", "confirmed_by", "by")
_MOVING = ("paid", "not-paid", "give-back")
"""Verdicts whose approval moves the payout's money."""


def lines(stack: Stack, fields: Sequence[str], first: str, last: str) -> Iterator[aside.Line]:
    """Yield the orders from time `first` to before `last`, oldest month first. Each has all `fields`."""
    for month in keys.order_months(first[: keys.MONTH], last[: keys.MONTH]):
        listed = index.between(stack, keys.payout_orders_partition(month), first, last)
        while found := list(islice(listed, index.BATCH_MAX)):
            for line in _page(stack, found):
                yield dict.fromkeys(fields, "") | line


def _page(stack: Stack, found: Sequence[Row]) -> list[aside.Line]:
    told = list[aside.Line]()
    times = {(one["pk"], one["sk"]): one["gsi1sk"] for one in found}

    def put_aside(row: Row, reason: str) -> None:
        by = next(iter(aside.texts(row, *_GIVERS).values()), "")
        known = aside.texts(row, *_TEXTS) | {"when": times[row["pk"], row["sk"]], "by": by}
        told.append(aside.line((), row, reason, **known))

    rows = batch.read(stack.store, found, put_aside)
    payouts = _payouts(stack, rows)
    for row in rows:
        try:
            known, at = sound(row), times[row["pk"], row["sk"]]
            line = _of_payee(known) if _is_of_payee(known) else _of_case(stack, known, payouts)
        except MalformedRow as malformed:
            put_aside(row, str(malformed))
        else:
            told.append(aside.texts(row, *_TEXTS) | {"when": at, "key": keys.subject(row)[1]} | line)
    return told


def _is_of_payee(row: Row) -> bool:
    return bool(row["pk"].startswith(keys.destination("")["pk"]))


def _of_payee(row: Row) -> dict[str, str]:
    """Raises MalformedRow."""
    name = payout_rows.destination(row).name
    if row["sk"] == keys.destination(name)["sk"]:
        return {"order": "add-payee", "by": row["added_by"]}
    if row["sk"] == keys.destination_confirmed(name)["sk"]:
        return {"order": "confirm-payee", "by": row["confirmed_by"]}
    return {"order": "freeze-payee"}


def _of_case(stack: Stack, row: Row, payouts: dict[str, State]) -> dict[str, str]:
    """Describe a decision. Without the payout's row, it has no amount. Raises MalformedRow."""
    told = payout_rows.case(row)
    verb = "propose" if told.approval is None else "approve"
    line = {"order": f"{verb}-payout-{told.verdict}", "case": str(told.number)}
    if told.approval is not None:
        line["reason"] = row["approved_reason"]
    if state := payouts.get(told.key):
        payout = state.payout
        exponent = exponent_of(row["pk"], payout.currency, stack.config)
        line |= {"account": told.account or payout.account, "currency": payout.currency}
        if told.approval is not None and told.verdict in _MOVING:
            line["amount"] = money.render(payout.amount, exponent)
    return line


def _payouts(stack: Stack, rows: Sequence[Row]) -> dict[str, State]:
    of_cases = (keys.subject(row) for row in rows if not _is_of_payee(row))
    names = {name: None for kind, name in of_cases if kind == "PAYOUT_CASE" and KEY.fullmatch(name)}
    found = dict[str, State]()
    for row in batch.read(stack.store, [keys.payout(name) for name in names], _leave_out):
        try:
            state = State.from_row(row)
        except MalformedRow:
            continue
        found[state.key] = state
    return found


def _leave_out(row: Row, reason: str) -> None:
    """Do nothing: `settle payout report` and the proof name such a row."""
