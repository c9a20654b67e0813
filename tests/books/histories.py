"""Random histories: objects come late, twice and out of order; projectors die."""

import random
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

from settle.books import months, project, verify
from settlement.bank import record
from settlement.bank.matching import Recorded
from tests.proof import sealed_town as towns
from tests.proof.town import Town
from tests.world.bank_rows import FILE, LINE, MATCH
from tests.world.sealed import inserted

LATER = datetime(2027, 2, 1, tzinfo=UTC)
ENDS = {"2026-11": "2026-12-01T00:00:00Z", "2026-12": "2027-01-01T00:00:00Z"}
"""Ends of the month of the test entries, and of the next month, whose closing closes both."""


LINES = 5


def of_bank() -> list[dict[str, Any]]:
    """Return the bank's lines in the journal's form, all but one matched."""
    told = list[dict[str, Any]]()
    for number in range(LINES):
        identity = f"{number:064x}"
        writes = [record.line(Recorded(LINE._replace(identity=identity), 0, frozenset()), FILE)]
        if number:
            writes += record.match(MATCH._replace(line=identity, order=f"order-of-line-{number:04}"))
        told += (inserted(one.parameters["Item"]) for one in writes)
    return told


class Dying:
    """A connection that dies before a chosen statement."""

    def __init__(self, connection: psycopg.Connection, left: int) -> None:
        class Cursor(psycopg.Cursor[Any]):
            def execute(cursor, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
                if self.left == 0:
                    cursor.connection.close()
                self.left -= 1
                return super().execute(*args, **kwargs)

        self.connection, self.left = connection, left
        connection.cursor_factory = Cursor


class Broken(Exception):
    """A rule that a history has broken."""


@dataclass
class History:
    """A random history, given by `seed`, on the empty ledger to which `connect` opens connections."""

    town: Town
    connect: Callable[[], psycopg.Connection]
    seed: int

    def run(self) -> None:
        """Run the history, project all objects again, and check the rules. Raises Broken."""
        chance = random.Random(f"books {self.seed}")
        told = [*towns.objects(self.town, self.seed, chance.choice((1, 3, 8)), of_bank()).items()]
        closes_after = chance.randrange(len(told)) if chance.random() < 0.5 else None
        month, closed = chance.choice([*ENDS]), list[Any]()
        for number, (name, content) in enumerate(chance.choices(told, k=len(told) * 2)):
            with suppress(psycopg.OperationalError), closing(self.connect()) as connection:
                if chance.random() < 0.4:
                    Dying(connection, chance.randrange(6))
                project.project(connection, name, content)
            if number == closes_after:
                with closing(self.connect()) as connection:
                    months.close(connection, month, LATER)
                    closed = self._balances(connection, ENDS[month])
        with closing(self.connect()) as connection:
            for name, content in told:
                project.project(connection, name, content)
            if closes_after is not None and self._balances(connection, ENDS[month]) != closed:
                raise Broken("the figures of a closed month stay")
            self._judge(connection)

    @staticmethod
    def _balances(connection: psycopg.Connection, before: str) -> list[Any]:
        found = connection.execute(
            "SELECT account, currency, balance FROM ledger.trial_balance(%s) ORDER BY 1, 2", (before,)
        )
        return found.fetchall()

    def _judge(self, connection: psycopg.Connection) -> None:
        rows = towns.entries(self.town)
        booked = connection.execute("SELECT count(*), sum(amount)::bigint FROM ledger.entry").fetchone()
        if booked != (len(rows), sum(row["amount"] for row in rows)):
            raise Broken(f"each entry is booked once, with its amount: {booked}")
        lines = connection.execute("SELECT count(*), count(key) FROM ledger.bank_lines").fetchone()
        if lines != (LINES, LINES - 1):
            raise Broken(f"each line of the bank is there once, with its order: {lines}")
        verdict = verify.verify(connection, lambda: rows, LATER)
        if not verdict.agrees:
            raise Broken(f"equal books agree: {verdict.differences}")
        changed = [dict(row) for row in rows]
        changed[self.seed % len(rows)]["currency"] = "KWD"
        if verify.verify(connection, lambda: changed, LATER).agrees:
            raise Broken("books that differ do not agree")
