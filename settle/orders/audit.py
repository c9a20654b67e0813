"""People's orders by time.

    index, by month        table, 100 rows a call                 answer
    ORDERS#2026-10 ──┐
    ORDERS#2026-11 ──┴─ by time ──▶ the orders' rows ──▶ their settlements, and the entries that they put

The rooms' own orders are read before the first answer. The index may lag some seconds. Orders' rows never
change, so one read is enough.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from settle.orders import rooms
from settle.settlements import aside, index
from settle.stack import Stack
from settlement.accounts.order import AccountOrder
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts, money
from settlement.core.model.orders import REVERSE, Decision
from settlement.core.model.stored import MalformedRow, exponent_of, sound
from settlement.core.model.timestamps import timestamp
from settlement.core.store import batch
from settlement.orders.proposal import Move
from settlement.orders.requests import REVERSE_PART

FIELDS = (
    *("when", "order", "key", "account", "case", "part"),
    *("amount", "payment", "currency", "reason"),
    *("by", "user_id", "approved_by", "approved_in", "break_glass", "request_id", "source_ip"),
)
"""Fields of an order, all texts.

`amount` is the money that the order moves; `payment` is the settlement's amount.
"""

_RESOLVE = "resolve"
_MOVES = (Move.PROPOSE, Move.APPROVE, Move.WITHDRAW)
_PERSONS = ("user_id", "approved_by", "approved_in", "break_glass", "request_id", "source_ip")


def pages(stack: Stack, since: datetime, until: datetime, by: str | None) -> Iterator[list[dict[str, str]]]:
    """Yield orders from `since` to before `until`, oldest first, up to 100 a page.

    `by` is part of a giver's or approver's ARN, in any letter case. An unreadable row has its reason in
    `unreadable`. It matches every `by`, so damage to a row hides no order.
    """
    first, last = timestamp(since), timestamp(until)
    orders = (one for page in _pages(stack, first, last, by) for one in page)
    found = rooms.lines(stack, FIELDS, first, last)
    of_rooms = [one for one in found if aside.UNREADABLE in one or _is_of(one, by)]
    merged = heapq.merge(orders, sorted(of_rooms, key=_time), key=_time)
    while page := list(islice(merged, index.BATCH_MAX)):
        yield page


def _time(one: Mapping[str, str]) -> str:
    return one["when"] or ""


def _pages(stack: Stack, first: str, last: str, by: str | None) -> Iterator[list[dict[str, str]]]:
    for month in keys.order_months(first[: keys.MONTH], last[: keys.MONTH]):
        listed = index.between(stack, keys.orders_partition(month), first, last)
        while found := list(islice(listed, index.BATCH_MAX)):
            if page := _page(stack, found, by):
                yield page


def _page(stack: Stack, found: Sequence[Row], by: str | None) -> list[dict[str, str]]:
    spoilt = {}
    rows = list[Row]()
    times = {(one["pk"], one["sk"]): one["gsi1sk"] for one in found}

    def put_aside(row: Row, reason: str) -> None:
        spoilt[row["pk"], row["sk"]] = aside.line(FIELDS, row, reason) | _readable(row)

    for row in batch.read(stack.store, found, put_aside):
        if reason := _fault(stack, row):
            put_aside(row, reason)
        elif _is_of(row, by):
            rows.append(row)
    told = [((row["pk"], row["sk"]), one) for row, one in zip(rows, _described(stack, rows), strict=True)]
    lines = [(times[name], name, one) for name, one in (*told, *spoilt.items())]
    return [
        {field: value or "" for field, value in (one | {"when": one["when"] or at}).items()}
        for at, _, one in sorted(lines, key=lambda line: line[:2])
    ]


def _fault(stack: Stack, row: Row) -> str | None:
    try:
        known = sound(row)
        if not all(known[name] for name in ("posted_at", "by", "reason")):
            raise MalformedRow("posted_at, by and reason must not be empty")
        if keys.is_evidence(row):
            _ensure_order(known)
        else:
            AccountOrder.from_row(known)
        if "currency" in known:
            exponent_of(known["pk"], known["currency"], stack.config)
    except MalformedRow as malformed:
        return str(malformed)
    return None


def _ensure_order(row: Row) -> None:
    kind = row["step"].partition(":")[0]
    decision = "" if kind in (REVERSE, REVERSE_PART) else row["decision"]
    if kind == REVERSE_PART and row["amount"] < 0:
        raise MalformedRow("amount is less than 0")
    if kind == _RESOLVE and decision not in list(Decision):
        raise MalformedRow(f"decision is {decision!r}")
    if kind not in (_RESOLVE, REVERSE, REVERSE_PART, *_MOVES):
        raise MalformedRow(f"step is {row['step']!r}")


def _readable(row: Row) -> dict[str, str]:
    known = aside.texts(row, "order", "account", "currency", "reason", "by", *_PERSONS)
    return known | ({"order": step} if isinstance(step := row.get("step"), str) else {})


def _is_of(row: Mapping[str, Any], by: str | None) -> bool:
    persons = f"{row['by']} {row.get('approved_by', '')}"
    return by is None or by.casefold() in persons.casefold()


def _described(stack: Stack, rows: Sequence[Row]) -> list[dict[str, str]]:
    about = [keys.settlement(keys.subject(row)[1]) for row in rows if keys.is_evidence(row)]
    settlements = _read(stack, about)
    pairs = [(row, settlements.get(f"SETTLEMENT#{keys.subject(row)[1]}")) for row in rows]
    posted = _read(stack, [key for row, settlement in pairs if (key := _entry_of(row, settlement))])
    exponents = stack.config.currencies
    return [
        _order(row, settlement, posted, exponents)
        if keys.is_evidence(row)
        else _account_order(row, exponents)
        for row, settlement in pairs
    ]


def _read(stack: Stack, wanted: Sequence[Row]) -> dict[str, Row]:
    once = {(key["pk"], key["sk"]): key for key in wanted}
    read = batch.read(stack.store, list(once.values()), lambda row, reason: None)
    told = [row for row in read if _has_money(stack, row)]
    return {row["pk"] if keys.is_settlement(row) else row["sk"]: row for row in told}


def _has_money(stack: Stack, row: Row) -> bool:
    amount, currency = row.get("amount"), row.get("currency")
    return type(amount) is int and isinstance(currency, str) and currency in stack.config.currencies


def _entry_of(row: Row, settlement: Row | None) -> Row | None:
    if not settlement or row["step"].partition(":")[0] != _RESOLVE or row["decision"] == Decision.RETRY:
        return None
    of_currency = accounts.losses if row["decision"] == Decision.WRITE_OFF else accounts.fees
    account = of_currency(settlement["currency"])
    return keys.entry(account, row["posted_at"], keys.subject(row)[1], row["step"])


def _order(
    row: Row, settlement: Row | None, posted: Mapping[str, Row], exponents: Mapping[str, int]
) -> dict[str, str]:
    """Return an order's columns. Without the settlement's row, they have no amounts."""
    kind, _, number = row["step"].partition(":")
    names = {_RESOLVE: row.get("decision"), REVERSE: REVERSE, REVERSE_PART: REVERSE_PART}
    named = {
        "order": names.get(kind) or f"{row['decision']}/{kind}",
        "account": row.get("account", ""),
        "case": number if kind == _RESOLVE else "",
        "part": number if kind == REVERSE_PART else "",
    }
    if settlement is None:
        return _filled(row, **named)
    exponent, entry = exponents[settlement["currency"]], _entry_of(row, settlement)
    moved = {
        REVERSE: settlement["amount"],
        REVERSE_PART: row.get("amount"),
        _RESOLVE: posted[entry["sk"]]["amount"] if entry and entry["sk"] in posted else None,
    }.get(kind)
    return _filled(
        row,
        **named,
        amount="" if moved is None else money.render(moved, exponent),
        payment=money.render(settlement["amount"], exponent),
        currency=settlement["currency"],
    )


def _account_order(row: Row, exponents: Mapping[str, int]) -> dict[str, str]:
    moved = money.render(row["amount"], exponents[row["currency"]]) if "amount" in row else ""
    named = {"order": row["order"], "account": row["account"], "currency": row.get("currency", "")}
    return _filled(row, **named, amount=moved)


def _filled(row: Row, **known: str) -> dict[str, str]:
    told = {"when": row["posted_at"], "key": keys.subject(row)[1], "by": row["by"], "reason": row["reason"]}
    told |= {name: row.get(name, "") for name in _PERSONS} | known
    return {name: told.get(name, "") for name in FIELDS}
