from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from settle.books import project, verify
from settlement.books import page as books
from settlement.journal import entries as lines
from settlement.journal.objects import lines_of
from tests.books.histories import Broken, History
from tests.proof.town import Town

SEEDS = 12


class Lives:
    """Histories, each in its own copy of a template database."""

    def __init__(self, server: str, town: Town, template: str) -> None:
        self._server, self._town, self.template = server, town, template

    def __call__(self, seed: int) -> None:
        """Run the history of a seed. Raises Broken."""
        name = f"{self.template}_{seed}"
        with psycopg.connect(f"{self._server}/postgres", autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name} TEMPLATE {self.template}")
            try:
                connect = partial(psycopg.connect, f"{self._server}/{name}", autocommit=True)
                History(self._town, connect, seed).run()
            finally:
                admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def lives(server: str, template: str, town: Town, request: pytest.FixtureRequest) -> Iterator[Lives]:
    name = f"lives_{abs(hash(request.node.nodeid))}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield Lives(server, town, name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_random_histories_break_no_rule(lives: Lives) -> None:
    for seed in range(SEEDS):
        lives(seed)


def _inbox_alone(connection: psycopg.Connection, name: str, content: bytes) -> Any:
    """Plant a bug: inbox and entries in separate transactions."""
    taken = connection.execute(
        "INSERT INTO ledger.object (name, lines) VALUES (%s, 0) ON CONFLICT DO NOTHING", (name,)
    )
    if taken.rowcount:
        with project.Connected(connection).transaction() as query:
            found = [one for one in lines.entries(lines_of(name, content)) if isinstance(one, lines.Entry)]
            books._take(query, books._ENTRY, found)


def _no_zero(row: dict[str, Any]) -> Any:
    return CHECKED(row) if row["amount"] else None


CHECKED = lines._checked
IN_PYTHON: dict[str, tuple[object, str, object]] = {
    "the inbox is no part of the transaction": (project, "project", _inbox_alone),
    "a copied line is taken again": (
        books,
        "_ENTRY",
        books._ENTRY._replace(take=books._ENTRY.take.replace("ON CONFLICT DO NOTHING", "")),
    ),
    "the bank's lines are left out": (books, "_OF_BANK", books._OF_BANK[1:]),
    "the bank's matches are left out": (books, "_OF_BANK", books._OF_BANK[:1]),
    "an amount of zero is left out": (lines, "_checked", _no_zero),
    "the digest has no currency": (verify, "_day", lambda row: (row["posted_at"][:10], "EUR")),
}
IN_SQL = {
    "a closed month takes what comes": """
        CREATE OR REPLACE FUNCTION ledger.book() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.booked_at := NEW.posted_at; RETURN NEW; END $$
    """,
    "a close is of its own month alone": """
        CREATE OR REPLACE FUNCTION ledger.book() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        NEW.booked_at := NEW.posted_at;
        IF EXISTS (SELECT FROM ledger.closed_month
                   WHERE month = date_trunc('month', NEW.posted_at AT TIME ZONE 'UTC')::date) THEN
            NEW.booked_at := greatest(clock_timestamp(), ledger.closed_until());
        END IF;
        RETURN NEW; END $$
    """,
    "no trigger books the time": "ALTER TABLE ledger.entry ALTER booked_at SET DEFAULT now();"
    " DROP TRIGGER book ON ledger.entry",
}


def find(lives: Lives) -> None:
    for seed in range(SEEDS * 3):
        lives(seed)


@pytest.mark.parametrize("bug", IN_PYTHON)
def test_the_histories_find_a_bug_planted_in_the_code(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    place, name, wrong = IN_PYTHON[bug]
    monkeypatch.setattr(place, name, wrong)

    with pytest.raises((Broken, psycopg.errors.UniqueViolation)):
        find(lives)


@pytest.mark.parametrize("bug", IN_SQL)
def test_the_histories_find_a_bug_planted_in_the_schema(lives: Lives, server: str, bug: str) -> None:
    with psycopg.connect(f"{server}/{lives.template}", autocommit=True) as connection:
        connection.execute(IN_SQL[bug].encode())

    with pytest.raises(Broken):
        find(lives)
