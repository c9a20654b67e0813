"""Checks the books' views of payouts, fed with the rows that payouts write."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import permutations
from typing import Any

import psycopg
import pytest

from settlement.bank.matching import BankLine
from settlement.bank.statement import Side
from settlement.core.ledger.keys import Row
from settlement.payouts import moves, writes
from settlement.payouts.moves import Move
from settlement.payouts.payout import UNDER_WAY, Status
from tests.books.test_bank_lines import asked, line
from tests.books.test_project import aside, take
from tests.unit.payouts.rows import LIMITS, LINE, NOTES, PATHS, PAYABLE, PAYOUT, RETURN_LINE
from tests.world import bank_rows
from tests.world.environment import NOW
from tests.world.sealed import inserted

DEBIT = bank_rows.LINE._replace(identity=LINE, side=Side.OUT, reference=PAYOUT.reference)
RETURN = bank_rows.LINE._replace(identity=RETURN_LINE, reference=PAYOUT.reference, returns="AC04")
LINES = {Move.CONFIRM: DEBIT}
AMOUNT = Decimal("48.20")


def put(written: Sequence[Any]) -> list[Row]:
    rows = [one.parameters["Item"] for one in written if one.action == "Put"]
    return [row for row in rows if row["pk"].startswith(("ENTRIES#", "BANK_LINE#"))]


def lived(*path: Move, lines: dict[Move, BankLine] = LINES, **suspense: Any) -> list[dict[str, Any]]:
    """Return a payout's entries and matched bank lines, an hour apart, in the journal's form."""
    state, now = writes.reserved(PAYOUT, PAYABLE, NOW), NOW
    rows = put(writes.reserve(PAYOUT, PAYABLE, LIMITS, NOW))
    for step in path:
        now += timedelta(hours=1)
        noted = suspense if step is Move.RETURN else {}
        after = moves.after(state, step, now, **NOTES.get(step, {}) | noted)
        written = writes.move(state, after, step, now, to_suspense=bool(noted), line=lines.get(step))
        rows += put(written)
        state = after
    return [inserted(row) for row in rows]


@pytest.mark.parametrize("status", Status)
def test_each_payouts_status_follows_from_its_entries(connection: psycopg.Connection, status: Status) -> None:
    take(connection, *lived(*PATHS[status]))

    connection.execute("SET ROLE ledger_finance")
    shown = "IN TRANSIT" if status in UNDER_WAY else status.value
    found = asked(connection, "payouts", "key", "account", "amount", "currency", "status", "in_suspense")
    assert found == [(PAYOUT.key, "alice", AMOUNT, "EUR", shown, False)]
    assert aside(connection.execute("RESET ROLE").connection) == []


@pytest.mark.parametrize("status", Status)
def test_open_payouts_sum_to_the_balance_of_transit(connection: psycopg.Connection, status: Status) -> None:
    take(connection, *lived(*PATHS[status]))

    (total,) = asked(connection, "payouts_open", "coalesce(sum(amount), 0)")
    balances: dict[str, Decimal] = dict(
        connection.execute("SELECT account, balance FROM ledger.trial_balance()").fetchall()
    )
    assert total == (balances["transit:EUR"],)
    assert bool(total[0]) is (status in UNDER_WAY)


def test_a_returned_payout_is_in_suspense_until_given_back(connection: psycopg.Connection) -> None:
    path = (*PATHS[Status.CONFIRMED], Move.RETURN, Move.GIVE_BACK)
    lines = LINES | {Move.RETURN: RETURN}
    told = lived(*path, lines=lines, in_suspense=1, trouble="closed")
    until, last = told[:-1], told[-1]
    columns = ("status", "in_suspense", "given_back_to", "debit_line", "return_line")

    take(connection, *until)
    assert asked(connection, "payouts", *columns) == [("RETURNED", True, None, LINE, RETURN_LINE)]
    take(connection, last)
    assert asked(connection, "payouts", *columns) == [("RETURNED", False, "alice", LINE, RETURN_LINE)]


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_a_payouts_rows_may_come_in_any_order_and_twice(
    connection: psycopg.Connection, order: tuple[int, ...]
) -> None:
    told = lived(*PATHS[Status.CONFIRMED])
    assert len(told) == len(order)

    for number in (*order, *order):
        take(connection, told[number])

    (found,) = asked(connection, "payouts", "status", "reserved_at", "paid_at", "debit_line")
    assert found == ("CONFIRMED", NOW, NOW + timedelta(hours=3), LINE)


@pytest.mark.parametrize("matched", [True, False])
def test_a_payout_with_its_banks_line_is_reconciled(connection: psycopg.Connection, matched: bool) -> None:
    told = lived(*PATHS[Status.RETURNED], lines={Move.PAY: DEBIT, Move.RETURN: RETURN} if matched else {})

    take(connection, line(booked="2026-11-01", identity="8b" * 32), *told)

    found = {(one, name) for one, name in asked(connection, "unreconciled", "change", "name")}
    books = {(-AMOUNT, PAYOUT.key), (AMOUNT, PAYOUT.key)}
    assert found & books == (set() if matched else books)
