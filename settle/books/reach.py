from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

from settle.books import aurora, months, schema
from settle.books import follow as following
from settle.books import project as projection
from settle.books import verify as comparison
from settle.exit_codes import CommandFailed, Exit
from settle.journal import sealed
from settle.stack import Stack
from settlement.core.ledger.keys import Row
from settlement.proof import Retention, pages


def migrate(url: str, stack: Stack) -> None:
    if url == schema.OF_THE_STACK:
        aurora.migrate(stack)
        return
    schema.migrate(url, dict(stack.config.currencies))


def project(url: str, stack: Stack, source: str) -> dict[str, Any]:
    copy = sealed.copy(stack, source, "from")
    with schema.books(url) as connection:
        return asdict(projection.project_all(connection, copy))


def follow(url: str, stack: Stack, source: str, every_seconds: int) -> Iterator[dict[str, Any]]:
    return following.rounds(url, sealed.copy(stack, source, "from"), every_seconds)


def verify(url: str, stack: Stack, now: datetime) -> dict[str, Any]:
    def read() -> Iterator[Row]:
        return pages.scan(
            stack.store,
            FilterExpression="begins_with(pk, :entries)",
            ExpressionAttributeValues={":entries": {"S": "ENTRIES#"}},
        )

    kept_from = Retention.at(now, stack.config.shortest_retention_days).kept_from
    with schema.books(url) as connection:
        verdict = comparison.verify(connection, read, now, kept_from)
    return {"agrees": verdict.agrees, **asdict(verdict)}


def rebuild(url: str, stack: Stack, source: str) -> dict[str, Any]:
    """Build the books in an empty database. Return their digest. Raises CommandFailed if it has entries."""
    schema.check(url)  # `migrate` alone accepts the stack's own Aurora
    migrate(url, stack)
    with schema.books(url) as connection:
        if connection.execute("SELECT FROM ledger.object LIMIT 1").fetchone() is not None:
            raise CommandFailed(Exit.CONFLICT, "ledger: has entries; rebuild into an empty database")
    told = project(url, stack, source)
    with schema.books(url) as connection:
        return told | {"digest": comparison.digest_of_all(connection)}


def close(url: str, stack: Stack, month: str, now: datetime, *, despite_put_aside: bool = False) -> bool:
    """Close a month. Return whether it was open.

    Raises CommandFailed if lines are put aside or objects are not copied yet.
    """
    months.check(month, now)
    with schema.books(url) as connection:
        if not despite_put_aside and projection.aside(connection):
            raise CommandFailed(
                Exit.CONFLICT,
                "month: lines were put aside, and may belong to it: look at `settle ledger put-aside`, and"
                " name --despite-put-aside if none does",
            )
        if any(projection.waiting(connection, sealed.copy(stack, sealed.OF_THE_STACK))):
            raise CommandFailed(
                Exit.CONFLICT, "month: the journal has more than the books: run `settle ledger project` first"
            )
        return months.close(connection, month, now)


def put_aside(url: str) -> list[dict[str, Any]]:
    with schema.books(url) as connection:
        return projection.aside(connection)
