from collections.abc import Callable
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import psycopg
import pytest
from alembic import command as alembic
from alembic.config import Config
from sqlalchemy import NullPool, create_engine

from settle.books import months, schema
from settle.exit_codes import CommandFailed
from tests.books.conftest import CURRENCIES

LATER = datetime(2027, 1, 1, tzinfo=UTC)
MONTHS = ("2026-08", "2026-09", "2026-10")
ENDS = {"2026-08": "2026-09-01T00:00Z", "2026-09": "2026-10-01T00:00Z", "2026-10": "2026-11-01T00:00Z"}


def take(connection: psycopg.Connection, key: str, month: str, amount: int = 100) -> None:
    """Insert an entry posted in a month's last millisecond."""
    connection.execute(
        "INSERT INTO ledger.entry (key, step, posted_at, debit, credit, amount, currency, request_hash)"
        " VALUES (%s, 'deposit', %s::timestamptz - interval '1 ms', 'external:EUR', 'bob', %s, 'EUR', 'x')",
        (key, ENDS[month], amount),
    )


def figures(connection: psycopg.Connection, month: str) -> list[Any]:
    found = connection.execute("SELECT * FROM ledger.trial_balance(%s) ORDER BY 1", (ENDS[month],))
    return found.fetchall()


def suspense(connection: psycopg.Connection) -> set[str]:
    return {key for (key,) in connection.execute("SELECT key FROM ledger.suspense")}


@pytest.mark.parametrize("order", [*permutations(MONTHS)], ids=" ".join)
def test_figures_of_closed_months_never_change_whatever_the_closing_order(
    connection: psycopg.Connection, order: tuple[str, ...]
) -> None:
    closed, late = dict[str, list[Any]](), set[str]()
    for number, closing in enumerate(order):
        months.close(connection, closing, LATER)
        latest = max(order[: number + 1])
        closed |= {month: figures(connection, month) for month in MONTHS if month <= latest}
        for month in MONTHS:
            take(connection, f"{number} {month}", month)
            late |= {f"{number} {month}"} if month <= latest else set()

        assert {month: figures(connection, month) for month in closed} == closed
        assert suspense(connection) == late


def test_closing_a_month_closes_all_before_it(connection: psycopg.Connection) -> None:
    assert months.close(connection, "2026-10", LATER)

    assert [months.close(connection, month, LATER) for month in MONTHS] == [False] * 3


def test_a_month_stays_open_after_an_earlier_one_closes(connection: psycopg.Connection) -> None:
    months.close(connection, "2026-09", LATER)

    take(connection, "of the next month", "2026-10")

    assert suspense(connection) == set()
    assert months.close(connection, "2026-10", LATER)


def test_closing_by_plain_sql_waits_for_a_running_projection(
    connection: psycopg.Connection, connect: Callable[[], psycopg.Connection]
) -> None:
    """Otherwise the projection's entries would enter a month closed meanwhile."""
    other = connect()
    with connection.transaction():
        take(connection, "under way", "2026-10")
        other.execute("SET lock_timeout = '50ms'")

        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("INSERT INTO ledger.closed_month (month) VALUES ('2026-10-01')")


def test_books_of_the_first_schema_keep_their_figures_after_migration(server: str) -> None:
    name = "books_of_r0001"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    url = f"{server}/{name}"
    at_first(url)
    with schema.books(url) as connection:
        connection.execute("INSERT INTO ledger.currency VALUES ('EUR', 2)")
        with pytest.raises(CommandFailed, match="the schema is older than this command: run"):
            close(url)
        connection.execute("INSERT INTO ledger.closed_month (month) VALUES ('2026-10-01')")
        take(connection, "moved it", "2026-09", 200)
        before = figures(connection, "2026-10")

        schema.migrate(url, CURRENCIES)
        take(connection, "too late", "2026-09", 700)

        assert before[0][0:3:2] == ("bob", 2)
        assert figures(connection, "2026-10") == before
        assert suspense(connection) == {"too late"}


def close(url: str) -> None:
    with schema.books(url) as connection:
        months.close(connection, "2026-09", LATER)


def at_first(url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=NullPool)
    with engine.begin() as within:
        within.exec_driver_sql("CREATE SCHEMA ledger")
        config.attributes["connection"] = within
        alembic.upgrade(config, "r0001")
