"""The outside of a stage, under watch: the provider's webhook and recovery's schedule."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from unittest import mock

from botocore.exceptions import ConnectTimeoutError
from standardwebhooks import Webhook

from handlers import kyc_decided, recover_stalled
from settlement.adapters import telemetry
from settlement.ledger import keys
from settlement.ledger.keys import Row
from tests.handlers.calls import KEY, WIRE, Context
from tests.simulation.picture import STEPS
from tests.simulation.world import COMPENSATION, STANDARD, World
from tests.support.interpreter import ARN, Execution, TaskFailed

SECRET = "whsec_c2ltdWxhdGlvbnMtYWxsLXRoZS13YXktZG93bg=="
DECIDED = f"{KEY}-decided"


class Invocation(Context):
    """Lambda's context of a recovery run with enough time."""

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


class Killed(BaseException):
    """The function's environment is gone: nothing after this line happens."""


@dataclass
class StepFunctions:
    """A client of Step Functions whose executions stay before their first state.

    `before` and `after` are called around each start, `describing` before each description of an execution:
    if they raise, the function meets their error.
    """

    world: World
    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None
    describing: Callable[[], object] = lambda: None
    started: list[str] = field(default_factory=list)

    class exceptions:  # noqa: N801 (as the client has it)
        class ExecutionAlreadyExists(Exception):
            pass

        class ExecutionDoesNotExist(Exception):
            pass

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> None:  # noqa: A002, N803
        prefix, _, machine = stateMachineArn.rpartition(":")
        assert prefix == f"{ARN}:stateMachine"
        self.before()
        if not self._runs(machine, name, json.loads(input)):
            try:
                self.world.start(machine, name, json.loads(input))
            except TaskFailed:
                raise self.exceptions.ExecutionAlreadyExists from None
            self.started.append(name)
        self.after()

    def describe_execution(self, *, executionArn: str) -> dict[str, str]:  # noqa: N803
        """Return the status of a Standard machine's execution; AWS describes no Express one."""
        self.describing()
        prefix, _, rest = executionArn.partition(":execution:")
        assert prefix == ARN
        machine, _, name = rest.partition(":")
        assert machine in (STANDARD, COMPENSATION), f"AWS describes no execution of {machine}"
        for one in self.world.machines.executions:
            if (one.machine, one.name) == (machine, name):
                return {"status": one.status}
        raise self.exceptions.ExecutionDoesNotExist

    def _runs(self, machine: str, name: str, data: Any) -> bool:
        """Return whether the very same start runs already; any other use of a taken name is refused."""
        return (machine, name, data, "RUNNING") in [
            (one.machine, one.name, one.begun_with, one.status) for one in self.world.machines.executions
        ]


class Watch:
    """A check of the settlement's invariants after every call of a function.

    There is one final verdict; the provider is not asked again after its answer; no step commits once the
    settlement is fenced or expired; and of its executions only the owner ever begins to reverse it, and not
    once it is released or in review.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._invoke = world.machines.invoke
        self.forget()
        world.machines.invoke = self.invoke

    def forget(self) -> None:
        """Forget the settlement that was seen so far."""
        self.tries = 0
        self._verdict: Row | None = None
        self._fenced: list[Row] | None = None
        self._status: str | None = None
        self._owner: str | None = None

    def invoke(self, function: str, payload: Any) -> Any:
        row = self.world.ledger.row(keys.settlement(KEY))
        self.tries += function == "VerifyKyc" and not (row and row.keys() & {"verdict", "review"})
        try:
            return self._invoke(function, payload)
        finally:
            telemetry.count("StepCalled")  # a nested call flushes the metrics of the outer one
            self.look(payload["state"].get("owner") if function == "BeginCompensation" else None)

    def look(self, owner: str | None = None) -> None:
        """Check the settlement after a call; `owner` is the execution that the call names as its owner."""
        found = {row["sk"]: row for row in self.world.ledger.rows() if row["pk"] == f"SETTLEMENT#{KEY}"}
        row, verdict = found.get("SETTLEMENT"), found.get(f"{KEY}:verify")
        assert self._verdict in (None, verdict), "the verdict on record has changed"
        self._verdict = verdict
        decision = (row or {}).get("verdict")
        assert decision == (verdict or {}).get("decision"), "the row and its entry differ in the verdict"
        status = row["status"] if row else None
        if (self._status, status) == ("PROCESSING", "COMPENSATING"):
            assert owner in (None, self._owner), f"{owner} reverses a settlement of {self._owner}"
            continues = "review" in row or "release" in row.get("steps", ())
            assert owner is None or not continues, f"{owner} reverses a settlement that continues without it"
        self._status, self._owner = status, row["owner"] if row else None
        if row and (status in ("COMPENSATING", "COMPENSATED", "LIMBO", "REJECTED") or "expired_at" in row):
            forward = [found[name] for step in STEPS if (name := f"{KEY}:{step}") in found]
            assert self._fenced in (None, forward), "a step has committed after the fence"
            self._fenced = forward
        assert self.world.provider.asked.count(KEY) <= self.tries, "asked though the answer was on record"


@dataclass
class Outside:
    """The provider's webhook calls, and recovery's schedule."""

    world: World
    machines: StepFunctions
    watch: Watch

    def webhook(self, decision: str = "APPROVED", event: str = "evt-1", reference: str = "ver_1") -> int:
        """Deliver a decision; return the HTTP status of the answer."""
        self.world.pass_time(seconds=1)
        body = json.dumps(
            {"idempotency_key": f"{KEY}:verify", "decision": decision, "reference": reference, "reason": "x"}
        )
        signature = Webhook(SECRET).sign(event, self.world.now, body)
        headers = {
            "webhook-id": event,
            "webhook-timestamp": str(int(self.world.now.timestamp())),
            "webhook-signature": signature,
        }
        try:
            answer = kyc_decided.handler({"headers": headers, "body": body}, Context())
        finally:
            telemetry.count("StepCalled")
            self.watch.look()
        return int(answer["statusCode"])

    def recover(self) -> list[str]:
        """Run recovery; return the errors of settlements that it could not recover."""
        self.world.pass_time(seconds=1)
        failed: list[str] = []
        with mock.patch.object(
            recover_stalled.logger, "error", lambda _, **told: failed.append(told["error"])
        ):
            try:
                recover_stalled.handler({}, Invocation())
            finally:
                telemetry.count("StepCalled")
                self.watch.look()
        return failed

    def recover_all(self) -> None:
        """Run recovery, and every execution that it starts."""
        assert self.recover() == []
        self.world.drain()

    def in_review(self, machine: str = STANDARD) -> Execution:
        """Put a payment into review; its execution ends."""
        self.world.open_both()
        execution = self.world.settle(machine)
        assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "PROCESSING")
        assert self.world.row()["review"] == "ver_1"
        return execution

    def resumed(self) -> Execution:
        """Return the execution that the webhook started, which must be the only one."""
        (found,) = (one for one in self.world.machines.executions if one.name == DECIDED)
        assert (found.machine, found.begun_with) == (STANDARD, WIRE)
        return found

    def zombie(self, function: str, payload: Any) -> None:
        """Make a call whose caller has timed out: its result is lost."""
        with suppress(TaskFailed):
            self.world.machines.invoke(function, payload)

    def compensations(self) -> list[str]:
        return [one.name for one in self.world.machines.executions if one.machine == COMPENSATION]

    def markers(self) -> list[str]:
        """Return the events that have had their effect."""
        return [row["pk"] for row in self.world.ledger.rows() if row["pk"].startswith("KYC_EVENT#")]

    def until_deadline(self) -> None:
        """Let the settlement's remaining time pass, so that the index lists it."""
        self.world.now = max(self.world.now, datetime.fromisoformat(self.world.row()["deadline_at"]))
        self.world.pass_time(seconds=30)


def in_turn(*actions: Callable[[], object]) -> Callable[[], None]:
    """Return a function that does the next action at each call, and nothing after the last."""
    left = list(actions)

    def act() -> None:
        if left:
            left.pop(0)()

    return act


def unreachable() -> None:
    raise ConnectTimeoutError(endpoint_url="https://states.invalid")


def killed() -> None:
    raise Killed
