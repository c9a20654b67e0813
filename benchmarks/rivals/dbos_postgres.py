"""DBOS on PostgreSQL: a workflow whose steps are database transactions with a journal of their own."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, SetWorkflowID, SQLAlchemyDatasource

from benchmarks.rivals import AMOUNT, FEE, OPENING, Attempt, Place

_SCHEMA = """
CREATE TABLE account (name text PRIMARY KEY, available bigint NOT NULL CHECK (available >= 0));
CREATE TABLE payment (key text PRIMARY KEY, status text NOT NULL, escrow bigint NOT NULL CHECK (escrow >= 0));
CREATE TABLE entry (key text, step text, debit text, credit text, amount bigint, PRIMARY KEY (key, step));
"""
_STEPS = {
    "hold": """
        INSERT INTO payment VALUES (:key, 'PROCESSING', :amount);
        UPDATE account SET available = available - :amount WHERE name = 'alice';
        INSERT INTO entry VALUES (:key, 'hold', 'alice', 'escrow', :amount)
    """,
    "verify": "UPDATE payment SET status = 'VERIFIED' WHERE key = :key AND status = 'PROCESSING'",
    "release": """
        UPDATE payment SET escrow = escrow - :paid WHERE key = :key;
        UPDATE account SET available = available + :paid WHERE name = 'bob';
        INSERT INTO entry VALUES (:key, 'release', 'escrow', 'bob', :paid)
    """,
    "fee": """
        UPDATE payment SET escrow = escrow - :fee, status = 'SETTLED' WHERE key = :key;
        INSERT INTO entry VALUES (:key, 'fee', 'escrow', 'fees', :fee)
    """,
}
"""SQL of each step. As in this project, there are balances, an escrow, and an entry per movement."""


@dataclass
class Commits:
    """The workflow's statements and commits. DBOS's own threads are left out."""

    statements: int = 0
    commits: int = 0

    def watch(self, engine: Any) -> None:
        """Count the statements and commits of an engine."""
        commit, own = engine.dialect.do_commit, threading.get_ident()

        def do_commit(connection: Any) -> None:
            commit(connection)
            self.commits += threading.get_ident() == own

        def executed(*_: Any) -> None:
            self.statements += threading.get_ident() == own

        engine.dialect.do_commit = do_commit
        sa.event.listen(engine, "before_cursor_execute", executed)


@dataclass
class Dbos:
    """A workflow of four transactions."""

    place: Place
    counted: Commits = field(default_factory=Commits)

    def __post_init__(self) -> None:
        url = f"{self.place.url.replace('postgresql:', 'postgresql+psycopg:')}/{self.place.table}"
        self._engine, of_system = sa.create_engine(url), sa.create_engine(url)
        config: DBOSConfig = {
            "name": "bench",
            "system_database_url": url,
            "system_database_engine": of_system,
            "log_level": "CRITICAL",
        }
        DBOS(config=config)
        source = SQLAlchemyDatasource.create(url, engine=self._engine)
        with self._engine.begin() as connection:
            connection.execute(sa.text(_SCHEMA))
            for name, available in (("alice", OPENING), ("bob", 0)):
                opened = {"name": name, "available": available}
                connection.execute(sa.text("INSERT INTO account VALUES (:name, :available)"), opened)

        @source.transaction()
        def write(step: str, key: str) -> None:
            amounts = {"key": key, "amount": AMOUNT, "paid": AMOUNT - FEE, "fee": FEE}
            for statement in _STEPS[step].split(";"):
                source.sql_session().execute(sa.text(statement), amounts)

        @DBOS.step()
        def ask(key: str) -> str:
            return "APPROVED"

        @DBOS.workflow()
        def settle(key: str) -> None:
            write("hold", key)
            if ask(key) == "APPROVED":
                write("verify", key)
            write("release", key)
            write("fee", key)

        self._settle = settle
        DBOS.launch()
        for engine in (of_system, self._engine):
            self.counted.watch(engine)

    def attempts(self, key: str) -> Sequence[Attempt]:
        """Return one call. Called again, the workflow continues after its last step."""

        def run() -> None:
            with SetWorkflowID(key):
                self._settle(key)

        self.counted.statements = self.counted.commits = 0
        return [run]

    def extra(self) -> dict[str, int]:
        """Return the last workflow's statements and commits."""
        return {"statements": self.counted.statements, "commits": self.counted.commits}


enter = Dbos
