"""Our own way: the machines, functions, LIMBO and recovery, in the world of the tests, on a real engine."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tests.world import environment  # isort: split

from benchmarks.lives import plain
from benchmarks.lives.judge import End
from benchmarks.lives.life import Life, Step
from benchmarks.lives.storm import Died, Storm, TimedOut
from benchmarks.rivals import OPENING, Place
from handlers import _dependencies
from handlers.core import _payee, _workers
from handlers.kyc import _provider
from settlement.aws import step_functions as _step_functions
from settlement.core import telemetry
from settlement.core.ledger import keys
from tests.world.constants import KEY, NONCE
from tests.world.definitions import STANDARD
from tests.world.interpreter import TaskFailed
from tests.world.ledger import Ledger, over
from tests.world.provider import REJECTED
from tests.world.world import World

_FUNCTIONS = {
    "HoldFunds": Step.HOLD,
    "VerifyKyc": Step.VERIFY,
    "ReleaseFunds": Step.RELEASE,
    "CollectFee": Step.FEE,
    "RefundFee": Step.REFUND,
    "ReclaimFunds": Step.RECLAIM,
    "VoidHold": Step.VOID,
}
assert environment  # the functions read it at import

_WRITES = ("put_item", "update_item", "transact_write_items")
_OVER = ("SETTLED", "COMPENSATED", "REJECTED", "LIMBO")
_MINUTES = 40
"""Minutes of recovery after the last event: longer than a payment's deadline and longest pause."""

_ACCOUNTS = {"payer": "alice", "payee": "bob"}


class _Client:
    """The client of the functions. In each try of a step, the first write meets the fault."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.meets: Callable[[Callable[[], Any]], Any] | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return method if name not in _WRITES else lambda **given: self._write(lambda: method(**given))

    def _write(self, send: Callable[[], Any]) -> Any:
        meets, self.meets = self.meets, None
        return meets(send) if meets else send()


@dataclass
class _Accounts:
    ledger: Ledger
    world: World
    kept: dict[str, Any]

    def close(self, who: str) -> None:
        name = _ACCOUNTS[who]
        self.kept[name] = self.ledger.row(keys.account(name))
        self.ledger.delete(keys.account(name))
        self.world.missing.add(name)  # its checks of the books end while an account is away

    def reopen(self, who: str) -> None:
        name = _ACCOUNTS[who]
        self.ledger.put(self.kept.pop(name))
        self.world.missing.remove(name)


class _World(World):
    """The stage, whose functions meet the faults of a storm."""

    storm: Storm
    client: _Client

    def invoke(self, function: str, payload: Any) -> Any:
        step = _FUNCTIONS.get(function)
        if step is None:
            self.storm.tell(f"{function} is called")
            return super().invoke(function, payload)
        self.storm.begins(step)
        self.client.meets = lambda send: self.storm.write(step, send)
        try:
            answer = super().invoke(function, payload)
        except Died as died:
            telemetry.count("StepCalled")  # the process is gone, with what it has counted
            raise TaskFailed(
                "States.Timeout" if isinstance(died, TimedOut) else "Runtime.ExitError"
            ) from None
        except TaskFailed as failed:
            self.storm.tell(f"{step}: {failed.output['Error']}")
            raise
        finally:
            self.client.meets = None
        self.storm.answered(step)
        return answer


def play(place: Place, life: Life) -> tuple[End, list[str]]:
    """Play a life; return its end, and what happened. The place's table has only this life."""
    raw = plain.client(place.url)
    client, told = _Client(raw), over(raw, place.table)
    world = _World(Ledger(raw, place.table, over(client, place.table).store))
    accounts = _Accounts(told, world, {})
    world.client, world.storm = client, Storm(life, accounts, plain.lost, plain.refused)
    if life.is_rejected:
        world.provider.answer = REJECTED
    with _in_place(world):
        world.open("alice", OPENING)
        world.open("bob", 0)
        world.settle(STANDARD)
        _recover(world)
        world.storm.over()
        _recover(world)
    return _end(world, accounts), world.storm.told


def _recover(world: _World) -> None:
    for _ in range(_MINUTES):
        row = world.ledger.row(keys.settlement(KEY))
        if row is None or row["status"] in _OVER:
            return
        world.pass_time(minutes=1)
        before = len(world.machines.executions)
        world.recover()
        if len(world.machines.executions) > before:
            world.storm.tell("recovery resumes the payment")
        world.drain()


def _end(world: _World, accounts: _Accounts) -> End:
    moved = {"alice": -OPENING, "bob": 0, "fees": 0, "escrow": 0}
    rows = world.ledger.rows()
    for row in (*rows, *accounts.kept.values()):
        if row["pk"].startswith("ACCOUNT#"):
            moved[row["pk"].removeprefix("ACCOUNT#")] += row.get("available", 0)
        moved["escrow"] += row.get("escrow", 0)
        if "debit" in row:
            moved["fees"] += row["amount"] * ((row["credit"] == "fees:EUR") - (row["debit"] == "fees:EUR"))
    row = world.ledger.row(keys.settlement(KEY))
    failed = [one.machine for one in world.machines.executions if one.status == "FAILED"]
    pages = [event["DetailType"] for event in world.machines.events]
    report = f"payment {row['status'] if row else 'never claimed'}; failed executions {failed}; pages {pages}"
    return End(moved, report, bool(failed or pages))


@contextmanager
def _in_place(world: _World) -> Iterator[None]:
    """Let the functions use the clients and the clock of this world."""
    replaced: list[tuple[Any, str, Any]] = [
        (_provider, "ask", world.provider.ask),
        (_dependencies, "store", world.ledger.store),
        (_dependencies, "now", lambda: world.now),
        (_dependencies, "nonce", lambda: NONCE),
        (_payee, "_remembered", {}),
        (_workers, "pause", lambda seconds: None),
        (_step_functions, "_client", world.step_functions),
    ]
    with ExitStack() as stack:
        for owner, name, value in replaced:
            stack.enter_context(mock.patch.object(owner, name, value))
        telemetry.metrics.clear_metrics()
        yield
