"""DBOS on PostgreSQL: a workflow whose steps are database transactions with a journal of their own."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, SetWorkflowID, SQLAlchemyDatasource

from benchmarks.rivals import AMOUNT, FEE, OPENING, Attempt, Books, Place

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
"""A customer's balance, an escrow, and an entry for each movement: what this project's rows have."""


@dataclass
class Commits:
    """The statements and commits of the workflow, without those of DBOS's own threads.

    If `lose_at` is set, the answer to that commit of a step gets lost.
    """

    statements: int = 0
    commits: int = 0
    lose_at: int | None = None

    def watch(self, engine: Any, *, loses: bool) -> None:
        """Count on an engine, on which answers may get lost."""
        commit, own = engine.dialect.do_commit, threading.get_ident()

        def do_commit(connection: Any) -> None:
            commit(connection)
            self.commits += threading.get_ident() == own
            if loses and self.lose_at is not None:
                self.lose_at -= 1
                if self.lose_at == 0:
                    raise engine.dialect.dbapi.OperationalError("the answer to a commit got lost")

        def executed(*_: Any) -> None:
            self.statements += threading.get_ident() == own

        engine.dialect.do_commit = do_commit
        sa.event.listen(engine, "before_cursor_execute", executed)


@dataclass
class Dbos:
    """A workflow of four transactions; the fees are the sum of their entries, as in this project."""

    place: Place
    losing: Commits = field(default_factory=Commits)

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
        self.losing.watch(of_system, loses=False)
        self.losing.watch(self._engine, loses=True)

    def attempts(self, key: str) -> Sequence[Attempt]:
        """Return one call: the same workflow again continues after its last step."""

        def run() -> None:
            with SetWorkflowID(key):
                self._settle(key)

        self.losing.statements = self.losing.commits = 0
        return [run]

    def books(self) -> Books:
        """Return the balances, the escrow of all payments, and the sum of all fees."""
        with self._engine.connect() as connection:
            found = dict(connection.execute(sa.text("SELECT name, available FROM account")).all())
            for name, query in (
                ("escrow", "SELECT sum(escrow) FROM payment"),
                ("fees", "SELECT sum(amount) FROM entry WHERE step = 'fee'"),
            ):
                found[name] = int(connection.execute(sa.text(query)).scalar() or 0)
        return found

    def extra(self) -> dict[str, int]:
        """Return the last workflow's statements and commits."""
        return {"statements": self.losing.statements, "commits": self.losing.commits}


enter = Dbos
