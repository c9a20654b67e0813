"""DBOS on PostgreSQL: a workflow of transactions, reversed after a failure, as in its checkout example.

DBOS records each transaction's result in the transaction itself. If a process dies, DBOS recovers the
workflow, as at a restart; a process that only hangs goes on beside the recovered workflow.
"""

import queue
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import psycopg
import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, SetWorkflowID, SQLAlchemyDatasource

from benchmarks.lives.judge import End
from benchmarks.lives.life import Kind, Life, Step
from benchmarks.lives.plain import PAID, Refused
from benchmarks.lives.storm import Died, Storm
from benchmarks.rivals import AMOUNT, FEE, OPENING, Place

_SCHEMA = (
    "CREATE TABLE account (name text PRIMARY KEY, available bigint NOT NULL CHECK (available >= 0))",
    "CREATE TABLE payment (key text PRIMARY KEY, status text NOT NULL, escrow bigint CHECK (escrow >= 0))",
)
_OPENS = "INSERT INTO account VALUES (:name, :available)"
_RENAMES = "UPDATE account SET name = :to WHERE name = :name"
_CLAIMS = "INSERT INTO payment VALUES (:key, 'NEW', 0)"
_RECORDS = "UPDATE payment SET status = :status, escrow = escrow + :change WHERE key = :key"
_MOVES = "UPDATE account SET available = available + :change WHERE name = :name"
_BALANCES = "SELECT split_part(name, ' ', 1), available FROM account WHERE name LIKE :like"
_ESCROW = "SELECT coalesce(sum(escrow), 0) FROM payment WHERE key = :key"
_STEPS: dict[Step, tuple[str, str, int, int]] = {
    Step.HOLD: ("HELD", "alice", -AMOUNT, AMOUNT),
    Step.VERIFY: ("VERIFIED", "", 0, 0),
    Step.RELEASE: ("RELEASED", "bob", PAID, -PAID),
    Step.FEE: ("SETTLED", "fees", FEE, -FEE),
    Step.REFUND: ("CANCELLED", "fees", -FEE, FEE),
    Step.RECLAIM: ("CANCELLED", "bob", -PAID, PAID),
    Step.VOID: ("CANCELLED", "alice", AMOUNT, -AMOUNT),
}
"""The status after each step, its account, and the changes of the account and of the escrow."""

_REVERSED_BY = {Step.HOLD: Step.VOID, Step.RELEASE: Step.RECLAIM, Step.FEE: Step.REFUND}
_SECONDS_MAX, _POLL_SECONDS = 60, 0.01


def _lost() -> Exception:
    return psycopg.OperationalError("server closed the connection unexpectedly")


def _refused() -> Exception:
    error: Exception = sa.exc.OperationalError("", {}, psycopg.errors.TooManyConnections("too many clients"))
    return error


@dataclass
class _Hung:
    """A process that hangs before its write. It goes on when `may_go` is set."""

    may_go: threading.Event = field(default_factory=threading.Event)
    is_over: threading.Event = field(default_factory=threading.Event)
    has_committed: bool = False

    def goes_on(self) -> None:
        """Let the process write. Raises Refused if its transaction does not commit."""
        self.may_go.set()
        assert self.is_over.wait(_SECONDS_MAX), "a hung process did not go on"
        if not self.has_committed:
            raise Refused("the recovered workflow has recorded this step")


class _Thread(threading.local):
    """The fault at the end of a thread's transaction: an error after the commit, or a hung process."""

    after_commit: BaseException | None = None
    hung: _Hung | None = None


class Dbos:
    """The workflow, for one life after the other."""

    def __init__(self, place: Place) -> None:
        url = f"{place.url.replace('postgresql:', 'postgresql+psycopg:')}/{place.table}"
        self._engine, self._thread = sa.create_engine(url, pool_size=20), _Thread()
        config: DBOSConfig = {"name": "lives", "system_database_url": url, "log_level": "CRITICAL"}
        instance = DBOS(config=config)
        source = SQLAlchemyDatasource.create(url, engine=self._engine)
        with self._engine.begin() as connection:
            for statement in _SCHEMA:
                connection.execute(sa.text(statement))
        self._watch_ends()

        @source.transaction()
        def write(step: str, key: str) -> None:
            self._meet(Step(step))
            _execute(source.sql_session(), Step(step), key)

        def take(step: Step, key: str) -> None:
            write(step, key)
            if self._thread.hung is None:
                self._storm.answered(step)

        @DBOS.workflow()
        def settle(key: str, is_rejected: bool) -> str:
            self._thread.hung = self._thread.after_commit = None  # of an earlier workflow on this thread
            reversals: list[Step] = []
            try:
                for step in (Step.HOLD, Step.VERIFY, Step.RELEASE, Step.FEE):
                    take(step, key)
                    if step in _REVERSED_BY:
                        reversals.append(_REVERSED_BY[step])
                    if step is Step.VERIFY and is_rejected:
                        raise Refused("the KYC provider rejects the payment")
            except Exception as failed:
                self._storm.tell(f"backs out: {type(failed).__name__}: {failed}")
                for step in reversed(reversals):
                    take(step, key)
                return "CANCELLED"
            return "SETTLED"

        self._settle = settle
        self._down: queue.Queue[str] = queue.Queue()
        instance._registry.get_internal_queue()._polling_interval_sec = _POLL_SECONDS
        DBOS.launch()

    def play(self, life: Life) -> tuple[End, list[str]]:
        """Play a life; return its end, and what happened."""
        accounts = _Accounts(self._engine, life)
        self._storm = storm = Storm(life, accounts, _lost, _refused)
        with SetWorkflowID(accounts.key):
            DBOS.start_workflow(self._settle, accounts.key, life.is_rejected)
        status = self._await_end(accounts.key)
        storm.over()
        report = f"workflow {status.status}: {status.output or status.error}"
        return End(accounts.moved(), report, status.status != "SUCCESS"), storm.told

    def _await_end(self, key: str) -> Any:
        fails_at = time.monotonic() + _SECONDS_MAX
        while time.monotonic() < fails_at:
            try:
                self._down.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                status: Any = DBOS.get_workflow_status(key)
                if status.status not in ("PENDING", "ENQUEUED"):
                    return status
            else:
                self._storm.tell("the process is down: DBOS recovers the workflow")
                DBOS._recover_pending_workflows(["local"])
        raise AssertionError(f"{key} did not end: {self._storm.told}")

    def _meet(self, step: Step) -> None:
        """Let the fault of this try happen, before the write or at its commit."""
        if self._thread.hung:
            return
        self._storm.begins(step)
        match kind := self._storm.fault(step):
            case Kind.LOST:
                self._thread.after_commit = _lost()
            case Kind.DIES_AFTER:
                self._thread.after_commit = Died()
            case Kind.DIES_BEFORE:
                self._down.put("died")
                raise Died
            case Kind.LATE | Kind.LATE_REVERSAL:
                self._thread.hung = hung = _Hung()
                self._storm.later(kind, step, hung.goes_on)
                self._down.put("hangs")
                hung.may_go.wait()

    def _watch_ends(self) -> None:
        """Raise the thread's prepared error after its commit, and report the commit of a hung thread."""
        dialect, thread = self._engine.dialect, self._thread
        commit, roll_back = dialect.do_commit, dialect.do_rollback

        def do_commit(connection: Any) -> None:
            commit(connection)
            if thread.hung and thread.hung.may_go.is_set() and not thread.hung.is_over.is_set():
                thread.hung.has_committed = True
                thread.hung.is_over.set()
            error, thread.after_commit = thread.after_commit, None
            if isinstance(error, Died):
                self._down.put("died")
            if error:
                raise error

        def do_rollback(connection: Any) -> None:
            roll_back(connection)
            thread.after_commit = None  # nothing has committed
            if thread.hung and thread.hung.may_go.is_set():
                thread.hung.is_over.set()

        dialect.do_commit, dialect.do_rollback = do_commit, do_rollback


def _execute(session: Any, step: Step, key: str) -> None:
    status, account, change, escrow = _STEPS[step]
    if step is Step.HOLD:
        session.execute(sa.text(_CLAIMS), {"key": key})
    if account:
        moved = session.execute(sa.text(_MOVES), {"name": f"{account}-{key}", "change": change})
        if moved.rowcount != 1:
            raise Refused("an account is closed")
    session.execute(sa.text(_RECORDS), {"key": key, "status": status, "change": escrow})


class _Accounts:
    """The accounts of one payment. Closing an account renames it, so no step finds it."""

    def __init__(self, engine: Any, life: Life) -> None:
        self._engine, self.key = engine, f"life-{life.seed}"
        for name, available in (("alice", OPENING), ("bob", 0), ("fees", 0)):
            self._execute(_OPENS, name=f"{name}-{self.key}", available=available)

    def close(self, who: str) -> None:
        name = self._named(who)
        self._execute(_RENAMES, name=name, to=f"{name} closed")

    def reopen(self, who: str) -> None:
        name = self._named(who)
        self._execute(_RENAMES, name=f"{name} closed", to=name)

    def moved(self) -> dict[str, int]:
        with self._engine.connect() as connection:
            rows = connection.execute(sa.text(_BALANCES), {"like": f"%-{self.key}%"}).all()
            escrow = connection.execute(sa.text(_ESCROW), {"key": self.key}).scalar()
        found = {name.removesuffix(f"-{self.key}"): int(available) for name, available in rows}
        found = {name: found[name] for name in ("alice", "bob", "fees")}
        found["alice"] -= OPENING
        return found | {"escrow": int(escrow)}

    def _named(self, who: str) -> str:
        return f"{ {'payer': 'alice', 'payee': 'bob'}[who] }-{self.key}"

    def _execute(self, statement: str, **values: Any) -> None:
        with self._engine.begin() as connection:
            connection.execute(sa.text(statement), values)
