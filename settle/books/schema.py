import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import sqlalchemy
from alembic import command
from alembic.config import Config
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from settle.books.project import Connected
from settle.exit_codes import CommandFailed, Exit
from settlement.books.page import Books

OF_THE_STACK = "stack"
"""Value of --url for the stack's own Aurora. Only `settle ledger migrate` accepts it."""

MIGRATIONS = Path(__file__).parent / "migrations"
CONNECT_SECONDS = 10

_CURRENCIES = "SELECT code, exponent FROM ledger.currency"
_ADD = """
INSERT INTO ledger.currency (code, exponent)
SELECT key, CAST(value AS smallint) FROM json_each_text(CAST(:currencies AS json))
ON CONFLICT DO NOTHING RETURNING 1
"""


def check(url: str) -> None:
    """Raise CommandFailed for a bad URL, because the driver's message would show the password."""
    if url == OF_THE_STACK:
        raise CommandFailed(
            Exit.USAGE,
            "url: stack is for `settle ledger migrate` alone: the others connect to a PostgreSQL, as by"
            " postgresql://user@host/database",
        )
    try:
        conninfo_to_dict(url)
        is_url = url.startswith(("postgresql://", "postgres://"))
    except (psycopg.Error, UnicodeError):
        is_url = False
    if not is_url:
        raise CommandFailed(Exit.USAGE, "url: must be like postgresql://user@host/database")


@contextmanager
def books(url: str) -> Iterator[psycopg.Connection]:
    """Connect to the books. Raises CommandFailed with one line, without the password."""
    check(url)
    try:
        connection = psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_SECONDS)
    except (psycopg.Error, UnicodeError) as error:
        raise CommandFailed(Exit.FAILED, f"ledger: no connection: {_line(error)}") from None
    with connection:
        try:
            yield connection
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction) as lacking:
            is_there = isinstance(lacking, psycopg.errors.UndefinedFunction)
            state = "older than this command" if is_there else "not there"
            raise CommandFailed(
                Exit.NOT_FOUND, f"ledger: the schema is {state}: run `settle ledger migrate` first"
            ) from None
        except psycopg.Error as error:
            raise CommandFailed(Exit.FAILED, f"ledger: {_line(error)}") from error


def migrate(url: str, currencies: dict[str, int]) -> None:
    """Migrate in one transaction. Safe to repeat."""
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=sqlalchemy.NullPool
    )
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with books(url) as connection:
        try:
            with engine.begin() as within:
                within.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('ledger.migrate'))")
                within.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS ledger")
                config.attributes["connection"] = within
                command.upgrade(config, "head")
        except sqlalchemy.exc.DBAPIError as error:
            raise error.orig or error from None
        add_currencies(Connected(connection), currencies)


def add_currencies(books: Books, currencies: dict[str, int]) -> None:
    """Add the stage's currencies. Raises CommandFailed if the books have other decimals.

    With other decimals, each row of that currency would mean another amount.
    """
    with books.transaction() as query:
        known = {str(code): int(exponent) for code, exponent in query(_CURRENCIES)}
        for code, exponent in sorted(currencies.items()):
            if known.setdefault(code, exponent) != exponent:
                raise CommandFailed(
                    Exit.CONFLICT,
                    f"ledger: {code} has {known[code]} decimals in the books, and {exponent} here",
                )
        query(_ADD, currencies=json.dumps(currencies))


def grant(connection: psycopg.Connection, role: str, member: str) -> None:
    statement = sql.SQL("GRANT {} TO {}").format(sql.Identifier(f"ledger_{role}"), sql.Identifier(member))
    connection.execute(statement)


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
