import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from settle.books import months, verify
from settle.exit_codes import CommandFailed
from settlement.books.page import Projected
from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import timestamp
from settlement.journal.entries import Entry
from tests.books.test_project import take, take_all
from tests.proof import sealed_town as towns
from tests.proof.town import Town
from tests.world.sealed import inserted

LATER = datetime(2027, 1, 1, tzinfo=UTC)
Connect = Callable[[], psycopg.Connection]


@pytest.fixture
def taken(connection: psycopg.Connection, town: Town) -> psycopg.Connection:
    take_all(connection, town)
    return connection


def check(connection: psycopg.Connection, rows: list[Row], now: datetime = LATER) -> verify.Verdict:
    return verify.verify(connection, lambda: rows, now)


def tamper(connection: psycopg.Connection, statement: str) -> None:
    """Change the books as only their owner can."""
    with connection.transaction():
        connection.execute("ALTER TABLE ledger.entry DISABLE TRIGGER USER")
        connection.execute(statement)
        connection.execute("ALTER TABLE ledger.entry ENABLE TRIGGER USER")


def test_equal_books_have_one_digest_however_they_were_filled(taken: psycopg.Connection, town: Town) -> None:
    verdict = check(taken, towns.entries(town))

    assert (verdict.agrees, verdict.entries) == (True, len(towns.entries(town)))
    assert verdict.digest == verify.digest_of_all(taken) != ""
    assert verdict.behind_seconds == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("DELETE FROM ledger.entry WHERE {}", "is not in the books"),
        ("UPDATE ledger.entry SET amount = amount + 1 WHERE {}", "in the table"),
        ("UPDATE ledger.entry SET debit = 'eve' WHERE {}", "in the table"),
        ("UPDATE ledger.entry SET currency = 'JPY' WHERE {}", "in the table"),
        ("UPDATE ledger.entry SET posted_at = posted_at + interval '1 ms' WHERE {}", "in the table"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_each_missing_or_changed_line_is_named_in_any_timezone(
    taken: psycopg.Connection, town: Town, zone: str, change: str, told: str
) -> None:
    tamper(taken, change.format("key = 'order-2026-000001' AND step = 'hold'"))
    taken.execute(f"SET TIME ZONE '{zone}'".encode())

    verdict = check(taken, towns.entries(town))

    assert not verdict.agrees
    assert all(one.startswith("order-2026-000001:hold of ") for one in verdict.differences)
    assert any(told in one for one in verdict.differences) or "JPY" in change
    assert 1 <= len(verdict.differences) <= (1 if "DELETE" in change else 2)


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Pacific/Auckland"])
def test_days_are_utc_days_in_any_session_timezone(
    connection: psycopg.Connection, town: Town, zone: str
) -> None:
    first, second, third, fourth = (
        {**row, "posted_at": posted_at, "sk": f"{posted_at}#{row['sk'].partition('#')[2]}"}
        for row, posted_at in zip(
            [row for row in towns.entries(town) if row["currency"] == "EUR"][:4],
            [f"2026-11-{day}.000Z" for day in ("20T00:30:00", "20T12:00:00", "20T23:30:00", "21T00:30:00")],
            strict=True,
        )
    )
    rows = [first, second, third, fourth]
    for row in (first, third, fourth):
        take(connection, inserted(row))
    digest = check(connection, rows).digest
    connection.execute(f"SET TIME ZONE '{zone}'".encode())

    assert check(connection, rows).digest == digest
    (told,) = check(connection, rows).differences
    assert told.startswith(f"{second['sk'].partition('#')[2]} of 2026-11-20")
    soon = datetime.fromisoformat(fourth["posted_at"]) + timedelta(seconds=9)
    assert check(connection, rows, soon).behind_seconds == 12 * 3_600 + 1_809
    assert check(connection, [first, third, fourth], soon).behind_seconds == 0


def test_verify_names_a_forged_entry(taken: psycopg.Connection, town: Town) -> None:
    taken.execute(
        "INSERT INTO ledger.entry (key, step, posted_at, debit, credit, amount, currency, request_hash)"
        " VALUES ('forged-000000000001', 'deposit', '2026-11-20', 'external:EUR', 'eve', 5, 'EUR', '')"
    )

    (told,) = check(taken, towns.entries(town)).differences
    assert told == "forged-000000000001:deposit of 2026-11-20: is in the books, and not in the table"


def test_verify_does_not_agree_while_lines_are_put_aside(taken: psycopg.Connection, town: Town) -> None:
    take(taken, inserted(towns.entries(town)[0] | {"amount": -1}))

    verdict = check(taken, towns.entries(town))
    assert (verdict.agrees, verdict.put_aside, verdict.differences) == (False, 1, [])


def test_an_entry_within_the_lag_is_not_a_difference(connection: psycopg.Connection, town: Town) -> None:
    rows = towns.entries(town)
    now = max(datetime.fromisoformat(row["posted_at"]) for row in rows)

    verdict = check(connection, rows, now + verify.LAG)
    assert (verdict.on_their_way, len(verdict.differences)) == (1, len(rows) - 1)


@pytest.mark.parametrize("waited", [timedelta(seconds=7), 2 * verify.LAG])
def test_the_lag_is_the_age_of_the_oldest_unbooked_entry(
    connection: psycopg.Connection, town: Town, waited: timedelta
) -> None:
    rows = sorted(towns.entries(town), key=lambda row: str(row["posted_at"]))
    posted = [datetime.fromisoformat(row["posted_at"]) for row in rows]
    now = posted[-1] + waited

    for row, posted_at in zip(rows, posted, strict=True):
        behind = check(connection, rows, now).behind_seconds
        assert abs(behind - (now - posted_at).total_seconds()) <= 1
        take(connection, inserted(row))
    assert check(connection, rows, now).behind_seconds == 0


def test_an_entry_from_a_clock_ahead_causes_no_lag(connection: psycopg.Connection, town: Town) -> None:
    rows = towns.entries(town)
    now = min(datetime.fromisoformat(row["posted_at"]) for row in rows) - timedelta(seconds=1)

    assert check(connection, rows, now).behind_seconds == 0


def test_entries_that_may_have_expired_are_not_compared(taken: psycopg.Connection, town: Town) -> None:
    rows = sorted(towns.entries(town), key=lambda row: str(row["posted_at"]))
    kept_from = rows[5]["posted_at"]
    left = [row for row in rows if row["posted_at"] >= kept_from]

    assert verify.verify(taken, lambda: left, LATER, kept_from).agrees
    assert not verify.verify(taken, lambda: left, LATER).agrees


def test_verify_lists_the_first_hundred_differences_and_counts_the_rest(
    connection: psycopg.Connection, town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "DIFFERENCES_MAX", 3)
    rows = towns.entries(town)

    verdict = check(connection, rows)
    assert (len(verdict.differences), verdict.more) == (3, len(rows) - 3)


# Months


def entry(number: int, posted_at: str) -> dict[str, Any]:
    found = Entry(f"deposit-{number:010}", "deposit", posted_at, "external:EUR", "alice", 100, "EUR", "hash")
    row = vars(found) | {"pk": "ENTRIES#alice#0", "sk": f"{posted_at}#{found.key}:deposit"}
    del row["key"]
    return inserted(row)


def balance(connection: psycopg.Connection, before: str) -> Decimal:
    found = connection.execute(
        "SELECT balance FROM ledger.trial_balance(%s) WHERE account = 'alice'", (before,)
    ).fetchone()
    return Decimal(found[0]) if found else Decimal(0)


def test_a_late_entry_counts_in_the_month_of_its_arrival(
    connection: psycopg.Connection,
) -> None:
    take(connection, entry(1, "2026-09-30T23:59:59.999Z"))
    assert months.close(connection, "2026-09", LATER)
    assert not months.close(connection, "2026-09", LATER)
    before = balance(connection, "2026-10-01T00:00:00Z")

    late, next_month = entry(2, "2026-09-30T12:00:00.000Z"), entry(3, "2026-10-01T00:00:00.000Z")
    both = [late, next_month]
    done, again, copied = (take(connection, *told) for told in (both, both, [late]))

    assert balance(connection, "2026-10-01T00:00:00Z") == before == Decimal("1.00")
    assert balance(connection, "infinity") == Decimal("3.00")
    suspense = connection.execute("SELECT key, posted_at FROM ledger.suspense").fetchall()
    assert [key for key, _ in suspense] == ["deposit-0000000002"]
    assert done == Projected(1, 2, 0, late=1)
    assert (again, copied) == (Projected(), Projected(1, 0, 0)), "neither an object nor a line counts twice"


@pytest.mark.parametrize(
    ("month", "ends"), [("2026-11", datetime(2026, 12, 1, tzinfo=UTC)), ("2026-12", LATER)]
)
def test_a_month_is_closed_once_it_is_over(
    connection: psycopg.Connection, month: str, ends: datetime
) -> None:
    """The journal needs some minutes for a month's last entries."""
    begins = ends + verify.LAG
    told = f"^month: {month} is not over, .* from {re.escape(timestamp(begins))} on$"
    for early in (ends - timedelta(days=1), begins - timedelta(milliseconds=1)):
        with pytest.raises(CommandFailed, match=told):
            months.close(connection, month, early)

    assert months.close(connection, month, begins)


def test_closing_a_month_and_projecting_wait_for_each_other(connect: Connect) -> None:
    """Otherwise an entry could enter a month that its closing has already read."""
    projecting, closing = connect(), connect()
    closed = threading.Event()

    def close() -> None:
        months.close(closing, "2026-09", LATER)
        closed.set()

    with projecting.transaction():
        take(projecting, entry(1, "2026-09-30T23:00:00.000Z"))
        thread = threading.Thread(target=close)
        thread.start()
        time.sleep(0.2)
        assert not closed.is_set()
    thread.join(60)

    connection = connect()
    take(connection, entry(2, "2026-09-30T23:00:00.000Z"))
    assert balance(connection, "2026-10-01T00:00:00Z") == Decimal("1.00")
