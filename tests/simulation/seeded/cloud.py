"""Simulates Lambda and Step Functions, which run the real handlers and definitions concurrently."""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import BotoCoreError, ClientError

from settlement.core.model.errors import SettlementError
from settlement.core.model.timestamps import timestamp
from tests.simulation.seeded.chance import CALLS, TASKS, Fault
from tests.simulation.seeded.facts import Violated, settlement_in
from tests.simulation.seeded.hub import Killed, Process, Signal
from tests.world.definitions import EXPRESS, definitions
from tests.world.environment import NOW
from tests.world.functions import HANDLERS
from tests.world.interpreter import Execution, Machines, TaskFailed, Waiting

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World

EXPRESS_MS_MAX = 300_000
"""Step Functions silently aborts an Express execution after this time."""

KILLED = ("Runtime.ExitError", "Runtime.OutOfMemory", "Sandbox.Failure", "Sandbox.Timedout")
UNHEARD_OF = ("Runtime.TruncatedResponse", "Runtime.InvokeTimeout", "Host.Reclaimed", "Extension.Crash")
"""Errors of a dead function: KILLED in most worlds, UNHEARD_OF in every third.

Both lists are equally long, so the choice between them changes no other event.
"""

FUNCTION_MS = 8_000
LONG_MS = {
    **dict.fromkeys(("RecoverStalled", "StartSettlements", "SweepMerchants"), 50_000),
    "ReconcileBooks": 900_000,
}
"""Time limits of the calls whose limit is not FUNCTION_MS."""


@dataclass(eq=False)
class Call:
    """A function's call. `answer` is set at the end, to a result or an error."""

    function: str
    payload: Any
    caller: "RunningExecution | None" = None
    since: int = 0
    """Start time in milliseconds."""

    is_claimed: bool = False
    """Whether the settlement was already claimed when the call began."""

    answer: Signal = field(default_factory=Signal)


@dataclass(eq=False)
class RunningExecution(Execution):
    process: Process | None = None
    ended: Signal = field(default_factory=Signal)
    woken: Signal = field(default_factory=Signal)
    """Set when a call returns the execution's task token."""

    awaited: Call | None = None

    @property
    def is_waiting(self) -> bool:
        return super().is_waiting and not self.woken.is_set


class Context:
    function_name, memory_limit_in_mb, aws_request_id = "simulated", 512, "simulated"
    invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:simulated"

    def __init__(self, world: "World", milliseconds: int) -> None:
        self._world, self._until = world, world.hub.now + milliseconds

    def get_remaining_time_in_millis(self) -> int:
        return max(0, self._until - self._world.hub.now)


class Cloud:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.calls: list[Call] = []
        self._running: dict[Process, Call] = {}
        self.killed = KILLED
        self.machines = RunningMachines(
            definitions(),
            express=frozenset({EXPRESS}),
            invoke=self._invoke,
            around=self._around,
            pause=self._pause,
            kind=RunningExecution,
        )
        self.machines.cloud = self

    # Functions.

    def call(self, function: str, payload: Any, caller: RunningExecution | None = None) -> Call:
        world = self._world
        key = settlement_in(payload).get("key", "")
        is_claimed = key in world.oracle.settlements
        call = Call(function, payload, caller, world.hub.now, is_claimed)
        self.calls.append(call)
        process = world.hub.spawn(lambda: self._run(call), function, about=key)
        process.skew = world.skew()
        self._running[process] = call
        return call

    @property
    def is_idle(self) -> bool:
        """Whether no function runs, and every execution has ended or waits for a person."""
        return not self._running and all(
            one.status != "RUNNING" or one.is_waiting for one in self.machines.executions
        )

    def begun(self, process: Any) -> int:
        call = self._running.get(process)
        return call.since if call else self._world.hub.now

    def process_of(self, call: Call) -> Process:
        return next(process for process, running in self._running.items() if running is call)

    def call_of(self, process: Any) -> Call | None:
        return self._running.get(process)

    def payload_of(self, process: Any) -> Any:
        call = self._running.get(process)
        return call.payload if call else {}

    def about(self, process: Any) -> str | None:
        """Return the key of the settlement that a process works on, if any."""
        execution = self.machines.running.get(process)
        data = execution.data if execution else self.payload_of(process)
        return settlement_in(data).get("key") or data.get("key")

    def stop_caller(self, process: Process) -> None:
        call = self._running.get(process)
        if call and call.caller:
            self.stop(call.caller)

    def _run(self, call: Call) -> None:
        world = self._world
        died = world.chance.one_of(self.killed)
        try:
            self._end(call, self._answer(call))
        except Killed:
            world.remembered.clear()  # the environment dies, with its memory of payees
            world.circuit.died()
            self._end(call, TaskFailed(died))
            raise

    def _end(self, call: Call, answer: Any) -> None:
        del self._running[self._world.hub.process]
        self._world.note(call.function, "ends with", answer)
        self._world.hub.set(call.answer, answer)

    def _answer(self, call: Call) -> Any:
        world = self._world
        milliseconds = LONG_MS.get(call.function, FUNCTION_MS)
        world.note(call.function, "is called with", call.payload)
        if broken := world.chance.broken(call.function, world.hub.now):
            world.counted[f"{broken} of a broken function"] += 1
            return TaskFailed(broken, json.dumps({"errorMessage": "broken", "errorType": broken}))
        try:
            return HANDLERS[call.function](call.payload, Context(world, milliseconds))
        except SettlementError as refusal:
            key = settlement_in(call.payload).get("key", "")
            error, told = type(refusal).__name__, str(refusal)
            if call.caller:
                world.oracle.refused(call.function, key, error, told, was_claimed=call.is_claimed)
            world.oracle.payees.refused(call, error, told)
            clock = timestamp(NOW + timedelta(milliseconds=world.hub.process.clock))
            world.oracle.deadlines.refused(key, error, call.since, clock)
            cause = {"errorMessage": str(refusal), "errorType": type(refusal).__name__, "stackTrace": []}
            return TaskFailed(type(refusal).__name__, json.dumps(cause))
        except Violated:
            raise
        except (ClientError, BotoCoreError) as failed:
            if call.function != "StartSettlements":
                raise Violated(f"{call.function} raises {type(failed).__name__}: {failed}") from failed
            return TaskFailed(type(failed).__name__)
        except Exception as bug:
            raise Violated(f"{call.function} raises {type(bug).__name__}: {bug}") from bug

    # Executions.

    def _invoke(self, function: str, payload: Any) -> Any:
        """Call a function from the running execution; stop waiting after its timeout."""
        world, execution = self._world, self.machines.running[self._world.hub.process]
        fault = world.fault(CALLS, "lambda", state=execution.state)
        if fault is Fault.UNREACHED:
            raise TaskFailed(world.chance.one_of(("Lambda.ServiceException", "Lambda.SdkClientException")))
        if fault is Fault.THROTTLED:
            raise TaskFailed("Lambda.TooManyRequestsException")
        call = self.call(function, payload, execution)
        if fault is Fault.TWICE:
            call = world.chance.one_of((call, self.call(function, payload, execution)))
        elif fault is Fault.STOPPED:
            self.stop(execution)
        execution.awaited = call
        seconds = _states(execution)[execution.state].get("TimeoutSeconds", 0)
        is_answered = world.hub.wait(call.answer, seconds * 1000 or FUNCTION_MS)
        if execution.woken.is_set:  # the function's answer no longer matters
            return None
        if not is_answered:
            raise TaskFailed("States.Timeout" if seconds else "Sandbox.Timedout")
        answer = call.answer.value
        if isinstance(answer, TaskFailed):
            raise TaskFailed(answer.output["Error"], answer.output["Cause"])
        return answer

    def _around(self, execution: Execution, call: Any) -> Any:
        """Perform a state's task after a latency, and let services other than Lambda fail."""
        world = self._world
        world.hub.sleep(world.chance.latency())
        assert isinstance(execution, RunningExecution)
        service = _states(execution)[execution.state]["Resource"].split(":")[5]
        fault = world.fault(TASKS, service, state=execution.state) if service != "lambda" else None
        if fault is Fault.THROTTLED:
            names = {"states": "StepFunctions.ThrottlingException", "events": "EventBridge.FailedEntry"}
            raise TaskFailed(names[service])
        if fault is Fault.LOST:
            with suppress(Waiting):
                call()
            raise TaskFailed("States.Timeout")
        if fault is Fault.STOPPED:
            self.stop(execution)
        return call()

    def _pause(self, execution: Execution, retrier: Any, tried: int) -> None:
        seconds = retrier["IntervalSeconds"] * retrier["BackoffRate"] ** (tried - 1)
        seconds = min(seconds, retrier["MaxDelaySeconds"])
        self._world.hub.sleep(self._world.chance.within(0, int(seconds * 1000)))

    def stop(self, execution: RunningExecution) -> None:
        """Stop an execution as StopExecution does; its function continues."""
        if execution.status != "RUNNING":
            return
        self._world.note(execution.name, "is stopped")
        execution.abort()
        assert execution.process
        self._world.hub.set(execution.ended)
        if execution.process is not self._world.hub.process:
            self._world.hub.kill(execution.process)
        else:
            raise Killed

    def is_awaited(self, token: str) -> bool:
        return any(one.token == token and one.is_waiting for one in self.machines.executions if token)

    def wake(self, token: str, output: Any) -> bool:
        """Resume the execution that waits with a token, which is valid once; return whether it exists."""
        for one in self.machines.executions:
            assert isinstance(one, RunningExecution)
            if token and one.token == token and one.status == "RUNNING" and not one.woken.is_set:
                self._world.hub.set(one.woken, output)
                assert one.awaited, "only the awaited call knows the token"
                self._world.hub.set(one.awaited.answer)
                return True
        return False

    def run_through(self, execution: RunningExecution) -> None:
        hub = self._world.hub
        while execution.status == "RUNNING":
            waits = execution._waits_for
            if waits is None:
                execution.advance()
            elif waits.child:
                assert isinstance(waits.child, RunningExecution)
                hub.wait(waits.child.ended)
                execution.advance()
            elif hub.wait(execution.woken, execution.wait_seconds * 1000):
                output, execution.woken = execution.woken.value, Signal()
                if isinstance(output, TaskFailed):
                    execution.fail(output.output["Error"])
                else:
                    execution.succeed(output)
            elif execution.status == "RUNNING":
                execution.time_out()
        self._world.counted.update(f"enters {state}" for state in execution.visited)
        self._world.note(execution.name, f"ends {execution.status}", execution.error or execution.data)
        hub.set(execution.ended)
        self._world.oracle.execution_ended(execution)


@dataclass
class RunningMachines(Machines):
    """Machines with a process per execution, whose events reach people."""

    cloud: Any = None
    running: dict[Process, RunningExecution] = field(default_factory=dict)

    def start(self, machine: str, data: Any, name: str) -> Execution:
        for one in self.executions:  # a repeated start returns the running execution
            known = (one.machine, one.name, one.begun_with) == (machine, name, data)
            if known and one.status == "RUNNING" and machine not in self.express:
                return one
        world, hub = self.cloud._world, self.cloud._world.hub
        world.stranger.take(self, machine, name)
        execution: Any = super().start(machine, data, name)
        world.note(name, f"is started on {machine}", data)
        execution.process = hub.spawn(lambda: self.cloud.run_through(execution), name, world.chance.latency())
        self.running[execution.process] = execution
        if machine in self.express:
            hub.spawn(lambda: self.cloud.stop(execution), f"{name} out of time", EXPRESS_MS_MAX)
        return cast("Execution", execution)

    def call(self, resource: str, parameters: Any) -> Any:
        before = len(self.events)
        answer = super().call(resource, parameters)
        for event in self.events[before:]:
            self.cloud._world.pager.deliver(event)
        return answer


def _states(execution: Execution) -> Any:
    return execution.machines.definitions[execution.machine]["States"]
