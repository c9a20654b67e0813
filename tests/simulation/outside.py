"""Who acts on a stage from outside its machines: the provider's webhook and recovery's schedule, watched."""

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
from settlement import rows, telemetry
from settlement.rows import Row
from tests.handlers.calls import KEY, WIRE, Context
from tests.simulation.picture import STEPS
from tests.simulation.world import COMPENSATION, STANDARD, World
from tests.support.interpreter import ARN, Execution, TaskFailed

SECRET = "whsec_c2ltdWxhdGlvbnMtYWxsLXRoZS13YXktZG93bg=="
DECIDED = f"{KEY}-decided"


class Invocation(Context):
    """What Lambda tells recovery about its run, which has all the time that it may need."""

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


class Killed(BaseException):
    """The function's environment is gone: nothing after this line happens, and nobody is told."""


@dataclass
class StepFunctions:
    """Stands in for the client of a function that starts executions; they rest before their first state.

    `before` and `after` happen around the start itself, `describing` ahead of the answer to whether an
    execution runs: they may raise, which is what the function meets.
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
        """Tell the status of an execution of a Standard machine; an Express one is known to nobody."""
        self.describing()
        prefix, _, rest = executionArn.partition(":execution:")
        assert prefix == ARN
        machine, _, name = rest.partition(":")
        assert machine in (STANDARD, COMPENSATION), f"nobody describes an execution of {machine}"
        for one in self.world.machines.executions:
            if (one.machine, one.name) == (machine, name):
                return {"status": one.status}
        raise self.exceptions.ExecutionDoesNotExist

    def _runs(self, machine: str, name: str, data: Any) -> bool:
        """A name that is taken is refused, but for the very same start while that execution runs."""
        return (machine, name, data, "RUNNING") in [
            (one.machine, one.name, one.begun_with, one.status) for one in self.world.machines.executions
        ]


class Watch:
    """Looks at the settlement after every call of a function, for what must hold at any time.

    There is one verdict, for good; nobody is asked who has answered; what is fenced or given up goes no
    further; and of the executions that drive it, only its owner's ever begins to reverse it, and not once it
    is released or in review.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._invoke = world.machines.invoke
        self.forget()
        world.machines.invoke = self.invoke

    def forget(self) -> None:
        """What has been seen so far was another settlement's."""
        self.tries = 0
        self._verdict: Row | None = None
        self._fenced: list[Row] | None = None
        self._status: str | None = None
        self._owner: str | None = None

    def invoke(self, function: str, payload: Any) -> Any:
        row = self.world.ledger.row(rows.settlement_key(KEY))
        self.tries += function == "VerifyKyc" and not (row and row.keys() & {"verdict", "review"})
        try:
            return self._invoke(function, payload)
        finally:
            telemetry.count("StepCalled")  # a call within a call takes the metrics of the outer one with it
            self.look(payload["state"].get("owner") if function == "BeginCompensation" else None)

    def look(self, owner: str | None = None) -> None:
        """Look at it as it is after a call, which `owner` has asked for if an execution did so as such."""
        found = {row["sk"]: row for row in self.world.ledger.rows() if row["pk"] == f"SETTLEMENT#{KEY}"}
        row, verdict = found.get("SETTLEMENT"), found.get(f"{KEY}:verify")
        assert self._verdict in (None, verdict), "the verdict on record has changed"
        self._verdict = verdict
        decision = (row or {}).get("verdict")
        assert decision == (verdict or {}).get("decision"), "the row and its entry differ in the verdict"
        status = row["status"] if row else None
        if (self._status, status) == ("PROCESSING", "COMPENSATING"):
            assert owner in (None, self._owner), f"{owner} reverses what {self._owner} drives"
            goes_on = "review" in row or "release" in row.get("steps", ())
            assert owner is None or not goes_on, f"{owner} reverses what goes on without it"
        self._status, self._owner = status, row["owner"] if row else None
        if row and (status in ("COMPENSATING", "COMPENSATED", "LIMBO", "REJECTED") or "given_up_at" in row):
            forward = [found[name] for step in STEPS if (name := f"{KEY}:{step}") in found]
            assert self._fenced in (None, forward), "a step has committed after the fence"
            self._fenced = forward
        assert self.world.provider.asked.count(KEY) <= self.tries, "asked though the answer was on record"


@dataclass
class Outside:
    """The provider, who calls the webhook, and the schedule that calls recovery."""

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
        """Let recovery run; return what it could not do. It swallows what befalls one settlement."""
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
        """Let recovery run, and whatever it starts."""
        assert self.recover() == []
        self.world.drain()

    def in_review(self, machine: str = STANDARD) -> Execution:
        """A payment that the provider has taken into review; its execution has ended."""
        self.world.open_both()
        execution = self.world.settle(machine)
        assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "PROCESSING")
        assert self.world.row()["review"] == "ver_1"
        return execution

    def resumed(self) -> Execution:
        """The execution that the webhook has started, which must be the only one."""
        (found,) = (one for one in self.world.machines.executions if one.name == DECIDED)
        assert (found.machine, found.begun_with) == (STANDARD, WIRE)
        return found

    def zombie(self, function: str, payload: Any) -> None:
        """A call that Step Functions has given up: whatever comes of it, nobody hears."""
        with suppress(TaskFailed):
            self.world.machines.invoke(function, payload)

    def compensations(self) -> list[str]:
        return [one.name for one in self.world.machines.executions if one.machine == COMPENSATION]

    def markers(self) -> list[str]:
        """The events that have had their effect."""
        return [row["pk"] for row in self.world.ledger.rows() if row["pk"].startswith("KYC_EVENT#")]

    def until_deadline(self) -> None:
        """Let the time pass that the settlement has left, and the index show it."""
        self.world.now = max(self.world.now, datetime.fromisoformat(self.world.row()["deadline_at"]))
        self.world.pass_time(seconds=30)


def in_turn(*actions: Callable[[], object]) -> Callable[[], None]:
    """Does the next of the actions at each call, and nothing once they are through."""
    left = list(actions)

    def act() -> None:
        if left:
            left.pop(0)()

    return act


def unreachable() -> None:
    raise ConnectTimeoutError(endpoint_url="https://states.invalid")


def killed() -> None:
    raise Killed
