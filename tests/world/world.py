"""Runs a whole stage in one process: the real definitions and handlers over a table, with faults."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any
from unittest import mock

from handlers import _dependencies
from handlers.core import recover_stalled
from settlement.core import telemetry
from settlement.core.ledger import forward, keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import SettlementError
from settlement.core.model.request import parse_settlement
from settlement.core.model.saga import SAGA
from settlement.core.model.status import Status
from settlement.proof import Findings, Look, Stage, reconcile
from settlement.signing.signature import RowKeys
from tests.world.books import assert_conserved
from tests.world.constants import KEY, WIRE
from tests.world.contracts import checked_outcome
from tests.world.definitions import COMPENSATION, EXPRESS, STANDARD, definitions
from tests.world.environment import NOW
from tests.world.functions import HANDLERS, Context
from tests.world.interpreter import Execution, Machines, TaskFailed, Waiting
from tests.world.ledger import Ledger
from tests.world.openings import opening
from tests.world.orders import taken
from tests.world.picture import Picture, seen
from tests.world.provider import IN_REVIEW, Provider
from tests.world.services import Caller, Functions
from tests.world.step_functions import StepFunctions

ERROR = {"Error": "DeadlineExceeded", "Cause": "the settlement's deadline was long ago"}
ORDER = {"reason": "the customer asks for it", "by": "olga"}
_STATES = tuple(facts.state for facts in SAGA.values())

STARTING = {"alice": 10_000, "bob": 500}
"""Opening balances in minor units."""


class Fault(Enum):
    """A call's fault: the error's name, and whether the function did its work first."""

    REFUSED_BY_STORE = ("StoreUnavailable", False)
    KILLED_BEFORE = ("Runtime.OutOfMemory", False)
    UNHEARD_OF = ("Host.Reclaimed", False)  # no document or definition has this name
    TIMED_OUT = ("Sandbox.Timedout", False)
    KILLED_AFTER = ("Lambda.Unknown", True)
    ANSWER_LOST = ("States.Timeout", True)

    @property
    def commits(self) -> bool:
        return self.value[1]


@dataclass
class World:
    """A table and the machines over it; a test can act between two states."""

    ledger: Ledger
    now: datetime = NOW
    faults: dict[str, tuple[str, bool, int]] = field(default_factory=dict)
    before: dict[str, Callable[[], Any]] = field(default_factory=dict)
    always: Callable[[Execution], Any] = lambda execution: None
    missing: set[str] = field(default_factory=set)
    provider: Provider = field(default_factory=Provider)
    called: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.machines = Machines(
            definitions(),
            express=frozenset({EXPRESS}),
            invoke=self.invoke,
            around=self._around,
            between=self._between,
            succeeded=lambda execution: checked_outcome(execution.data),
        )
        self.step_functions = StepFunctions(self.machines)
        self.functions = Functions(self.resume_asked)

    # Running the stage.

    def start(self, machine: str, name: str = "execution-1", data: Any = WIRE) -> Execution:
        return self.machines.start(machine, data, name)

    def settle(self, machine: str = STANDARD, name: str = "execution-1", data: Any = WIRE) -> Execution:
        """Run a settlement and every execution it starts."""
        execution = self.start(machine, name, data)
        execution.run()
        self.drain()
        return execution

    def compensation(
        self,
        name: str = "by-hand",
        data: Any = WIRE,
        *,
        reversal: Any = None,
        resolution: Any = None,
        **more: Any,
    ) -> Execution:
        """Return the compensation that a person's order started or woke, but do not run it.

        If neither `reversal` nor `resolution` is given, start one for an error.
        """
        if reversal:
            self.order("reverse", {"key": data["key"], **reversal})
        elif resolution:
            self.decide(resolution)
        else:
            return self.start(COMPENSATION, name, {"settlement": data, **(more or {"error": ERROR})})
        return self.of(COMPENSATION)[-1]

    def order(self, decision: str, order: Any) -> dict[str, Any]:
        self.now += timedelta(seconds=1)
        try:
            return taken(lambda event: HANDLERS["TakeOrder"](event, Context()), decision, order)
        finally:
            telemetry.count("StepCalled")  # a nested call flushes the metrics of the outer one

    def decide(self, resolution: Any) -> dict[str, Any]:
        return self.order(resolution["decision"], {"key": KEY, "case": 1, **resolution})

    def resume(self, name: str = "resume") -> Execution:
        """Start a compensation as recovery does, with only the settlement, and run it."""
        execution = self.start(COMPENSATION, name, {"settlement": WIRE})
        execution.run()
        self.drain()
        return execution

    def compensate(self, name: str = "by-hand", data: Any = WIRE, **more: Any) -> Execution:
        execution = self.compensation(name, data, **more)
        execution.run()
        self.drain()
        return execution

    def drain(self) -> None:
        """Run every execution to its end or a wait; check the books."""
        for execution in self.machines.executions:
            if not execution.busy:
                execution.run()
        self.assert_conserved()

    def invoke(self, function: str, payload: Any) -> Any:
        """Call a function as Lambda does. Any error but a SettlementError is a bug, and ends the test."""
        self.now += timedelta(seconds=1)
        self.called.append(function)
        try:
            return HANDLERS[function](payload, Context())
        except SettlementError as error:
            cause = {"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": []}
            raise TaskFailed(type(error).__name__, json.dumps(cause)) from error

    # Actions of a test.

    def open(self, account: str, available: int, currency: str = "EUR") -> None:
        self.ledger.store.transact(opening(account, available, currency, self.now))

    def open_both(self) -> None:
        for account, available in STARTING.items():
            self.open(account, available)

    def commit(self, steps: int) -> dict[str, Any]:
        """Commit the first `steps` steps and abort; return the cause for a compensation.

        With 0 steps, only claim the key, as the queue does.
        """
        self.open_both()
        if steps == 0:
            self.claim()
            return {"reversal": {**ORDER, "expected_status": "PROCESSING"}}
        execution = self.start(STANDARD)
        execution.run(until=[*_STATES, None][steps])
        if execution.status == "RUNNING":
            execution.abort()
            return {"error": ERROR}
        return {"reversal": ORDER}

    def claim(self, owner: str = "execution-1") -> None:
        """Claim the key as the queue does, before the execution's start."""
        settlement = parse_settlement(WIRE, _dependencies.config)
        self.ledger.store.claim(forward.claim(settlement, owner, self.now, _dependencies.config))

    def pay(self, payer: str, payee: str, amount: str, key: str, fee: str = "0.00") -> Execution:
        """Run another settlement, without continuing other executions."""
        wire = {"key": key, "payer": payer, "payee": payee, "amount": amount, "currency": "EUR", "fee": fee}
        return self.start(STANDARD, f"pays-{key}", wire).run()

    def strike(self, state: str, fault: Fault, times: int = 10**6) -> None:
        """Make the next `times` calls of a state end in a fault."""
        self.faults[state] = (*fault.value, times)

    def tries(self, state: str, machine: str = COMPENSATION) -> int:
        """Return how often the machine tries a failing state before it gives up."""
        retriers = self.machines.definitions[machine]["States"][state]["Retry"]
        (attempts,) = (rule["MaxAttempts"] for rule in retriers if rule["ErrorEquals"] == ["States.ALL"])
        return 1 + int(attempts)

    def meanwhile(self, method: str, action: Callable[[], Any]) -> None:
        """Run `action` inside the store method's next call, before its write."""
        store: Any = self.ledger.store
        original = getattr(store, method)

        def send(write: Any) -> Any:
            setattr(store, method, original)
            action()
            telemetry.count("StepCalled")  # a nested call flushes the metrics of the outer one
            return original(write)

        setattr(store, method, send)

    def pass_time(self, **by: float) -> None:
        self.now += timedelta(**by)

    @contextmanager
    def without(self, account: str) -> Iterator[None]:
        """Remove an account's row within the block, bypassing all conditions."""
        row = self.ledger.row(keys.account(account))
        assert row is not None
        self.ledger.delete(keys.account(account))
        self.missing.add(account)
        yield
        self.missing.remove(account)
        self.ledger.put(row)

    # Outside calls: the provider's webhook, and recovery's schedule.

    def webhook(self, decision: str = "APPROVED", event: str = "evt_1", reference: str = "ver_1") -> int:
        """Deliver the provider's signed decision; return the HTTP status."""
        self.pass_time(seconds=1)
        signed = Caller(at=self.now, id=event)(decision=decision, reference=reference, reason="x")
        try:
            answer = HANDLERS["KycDecided"](signed, Context())
        finally:
            telemetry.count("StepCalled")  # a nested call flushes the metrics of the outer one
        return int(answer["statusCode"])

    def resume_asked(self, event: Any) -> Any:
        try:
            return HANDLERS["RecoverStalled"](event, Context())
        finally:
            telemetry.count("StepCalled")  # a nested call flushes the metrics of the outer one

    def recover(self) -> list[str]:
        """Run recovery on schedule; return the errors of unrecovered settlements."""
        self.pass_time(seconds=1)
        failed: list[str] = []
        logger = telemetry.logger
        with mock.patch.object(logger, "error", lambda _, **fields: failed.append(fields["error"])):
            try:
                for partition in recover_stalled.PARTITIONS:
                    recover_stalled.handler({"partition": partition}, Context())
            finally:
                telemetry.count("StepCalled")
        return failed

    def recover_all(self) -> None:
        assert self.recover() == []
        self.drain()

    def in_review(self, machine: str = STANDARD) -> Execution:
        """Put a payment into review; its execution ends."""
        self.provider.answer = IN_REVIEW
        self.open_both()
        execution = self.settle(machine)
        assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "PROCESSING")
        assert self.row()["review"] == "ver_1"
        return execution

    def until_deadline(self) -> None:
        """Move the clock past the deadline, to which recovery has deferred its next look."""
        row = self.row()
        if row["status"] == Status.PROCESSING:
            self.ledger.put(row | {"gsi1sk": row["deadline_at"]})
        self.now = max(self.now, datetime.fromisoformat(row["deadline_at"]))
        self.pass_time(seconds=30)

    # Observations of a test.

    def of(self, machine: str) -> list[Execution]:
        return [one for one in self.machines.executions if one.machine == machine]

    def webhook_events(self) -> list[str]:
        return [row["pk"] for row in self.ledger.rows() if row["pk"].startswith("KYC_EVENT#")]

    def picture(self, key: str = KEY) -> Picture:
        return seen(self.ledger.rows(), key)

    def row(self, key: str = KEY) -> Row:
        found = self.ledger.row(keys.settlement(key))
        assert found is not None
        return found

    def waiting(self) -> Row:
        found = self.ledger.row(keys.waiting(KEY))
        assert found is not None
        return found

    def available(self, account: str) -> int:
        found = self.ledger.row(keys.account(account))
        assert found is not None
        return int(found["available"])

    def balance(self, account: str) -> int:
        """Return the balance from entries, in minor units."""
        entries = [row for row in self.ledger.rows() if "debit" in row]
        received = sum(entry["amount"] for entry in entries if entry["credit"] == account)
        return int(received - sum(entry["amount"] for entry in entries if entry["debit"] == account))

    def limbo_cases(self, account: str) -> int:
        found = self.ledger.row(keys.account(account))
        assert found is not None
        return int(found.get("limbo_cases", 0))

    def events(self, detail_type: str) -> list[Any]:
        return [event["Detail"] for event in self.machines.events if event["DetailType"] == detail_type]

    def assert_conserved(self) -> None:
        """Check the books with the project's proof, and with independent code."""
        if self.missing:
            return
        assert_conserved(self.ledger.rows())
        findings = self.findings()
        assert findings.faults == []
        assert findings.conserved

    def findings(self, row_keys: RowKeys | None = None) -> Findings:
        """Return the findings of the project's proof; with keys, it checks signatures."""
        return reconcile(self.ledger.rows(), lambda key: Look.DISAGREES, stage=Stage(row_keys=row_keys))

    def _around(self, execution: Execution, call: Callable[[], Any]) -> Any:
        error, commits, left = self.faults.get(execution.state, ("", False, 0))
        if not left:
            return call()
        self.faults[execution.state] = (error, commits, left - 1)
        if commits:
            with suppress(TaskFailed, Waiting):  # the answer is lost
                call()
        raise TaskFailed(error)

    def _between(self, execution: Execution) -> None:
        action = self.before.pop(execution.state, None)
        if action:
            action()
        self.always(execution)
