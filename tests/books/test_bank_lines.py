"""Checks that the books show each bank line and match once, unchanged, and in finance's views."""

from decimal import Decimal
from itertools import permutations
from typing import Any

import psycopg
import pytest

from settlement.bank import record
from settlement.bank.matching import Recorded
from settlement.bank.statement import Side
from settlement.books.page import Projected
from settlement.journal import lines
from tests.books.test_project import aside, take, take_all
from tests.proof.town import Town
from tests.world.bank_rows import FILE, LINE, MATCH
from tests.world.sealed import inserted

OTHER = "7a" * 32


def line(**change: Any) -> dict[str, Any]:
    one = LINE._replace(**change)
    write = record.line(Recorded(one, 0, frozenset({"INV-7"})), FILE)
    return inserted(write.parameters["Item"])


def match(**change: Any) -> dict[str, Any]:
    of_line, _ = record.match(MATCH._replace(**change))
    return inserted(of_line.parameters["Item"])


def asked(connection: psycopg.Connection, view: str, *columns: str) -> list[tuple[Any, ...]]:
    return connection.execute(f"SELECT {', '.join(columns)} FROM ledger.{view} ORDER BY 1").fetchall()


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_bank_lines_are_listed_with_their_matched_orders(
    connection: psycopg.Connection, order: tuple[int, ...]
) -> None:
    told = [line(), match(), line(identity=OTHER, side=Side.OUT, booked="2026-11-28", amount=1)]

    for number in (*order, *order):
        take(connection, told[number])

    connection.execute("SET ROLE ledger_finance")
    assert asked(connection, "bank_lines", "booked::text", "change", "key", "account", "bank_reference") == [
        ("2026-11-27", Decimal("48.20"), MATCH.order, "alice", "B-1"),
        ("2026-11-28", Decimal("-0.01"), None, None, "B-1"),
    ]
    assert asked(connection, "unreconciled", "only_in", "change", "name") == [
        ("bank", Decimal("-0.01"), OTHER)
    ]


def test_orders_without_a_bank_line_are_listed_from_day_one(
    connection: psycopg.Connection, town: Town
) -> None:
    take_all(connection, town)
    assert asked(connection, "unreconciled", "name", "day") == []

    take(connection, line(booked="2026-01-01"), match(order="deposit-of-alice-0000", amount=100_000))

    connection.execute("SET ROLE ledger_finance")
    assert asked(connection, "unreconciled", "name", "change", "currency", "account") == [
        ("deposit-of-bob-0000", Decimal("1000.00"), "EUR", "bob"),
        ("withdrawal-of-bob-0001", Decimal("-20.00"), "EUR", "bob"),
    ]


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Tokyo"])
def test_the_first_listed_day_is_utc_whatever_the_sessions_timezone(
    connection: psycopg.Connection, town: Town, zone: str
) -> None:
    take_all(connection, town)
    take(connection, line(booked="2026-11-20"))
    connection.execute(f"SET TIME ZONE '{zone}'".encode())

    names = {name for (name,) in asked(connection, "unreconciled", "name")}

    assert {"deposit-of-alice-0000", "deposit-of-bob-0000"} <= names


@pytest.mark.parametrize("role", ["test", "ledger_projector", "ledger_finance"])
@pytest.mark.parametrize("table", ["bank_line", "bank_match"])
def test_no_role_can_change_recorded_bank_lines(
    connection: psycopg.Connection, role: str, table: str
) -> None:
    take(connection, line(), match())
    connection.execute(f"SET ROLE {role}")

    error = "is append-only" if role == "test" else "permission denied"
    for statement in (f"UPDATE ledger.{table} SET amount = 1", f"DELETE FROM ledger.{table}"):
        with pytest.raises(psycopg.Error, match=error):
            connection.execute(statement)


def test_a_bank_line_with_a_second_order_is_put_aside(connection: psycopg.Connection) -> None:
    take(connection, line(), match())

    again = take(connection, line(amount=1), match(order="another-order-01"), match(line=OTHER))

    assert again == Projected(1, 0, 3)
    assert sorted(aside(connection)) == [
        "another line of this identity is in the books",
        *["another match of this line or order is in the books"] * 2,
    ]
    assert asked(connection, "bank_lines", "change", "key") == [(Decimal("48.20"), MATCH.order)]


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no amount": ({"amount": None}, "amount: must be a whole number, at least 1"),
    "an amount of nothing": ({"amount": 0}, "amount: must be a whole number, at least 1"),
    "no day": ({"booked": "2026-02-30"}, "day is out of range"),
    "the day of a week": ({"booked": "2026-W48-5"}, "booked: must be a day"),
    "no hour": ({"posted_at": "2026-11-20T99:00:00.000Z"}, "hour must be in 0..23"),
    "a zero byte": ({"bank_account": "DE\0"}, "bank_account: must be printable text"),
    "a long text": ({"bank_reference": "B" * 700}, "bank_reference: must be printable text"),
    "another side": ({"side": "up"}, "side: must be one of in, out"),
    "no identity": ({"pk": "BANK_LINE#x"}, "line: must be a SHA-256"),
    "no time": ({"posted_at": "2026"}, "posted_at: must be an instant"),
    "another place": ({"sk": "X"}, "KeyError 'line'"),
    "an unknown currency": ({"currency": "XAU"}, "currency: is not one of the books"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_malformed_line_is_put_aside_and_the_others_kept(connection: psycopg.Connection, case: str) -> None:
    change, reason = BROKEN[case]
    wrong = line(identity=OTHER)
    wrong["new"]["row"] |= change

    assert take(connection, wrong, line(), match()) == Projected(1, 0, 1)

    (found,) = aside(connection)
    assert reason in found
    assert len(asked(connection, "bank_lines", "line", "key")) == 1


@pytest.mark.parametrize("event", ["MODIFY", "REMOVE"])
def test_a_change_of_a_bank_line_is_put_aside(connection: psycopg.Connection, event: str) -> None:
    row = line()["new"]["row"]

    assert take(connection, {"event": event, "at": 1, "old": lines.image(row)}) == Projected(1, 0, 1)
    assert aside(connection) == [f"{event} of the bank's line, which never changes"]
