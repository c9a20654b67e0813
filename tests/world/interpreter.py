"""A strict, synchronous interpreter of the features in `statemachines/*.asl.json`.

The test advances an execution state by state and can act between states. No time passes: retries are
immediate, and waits end when the test ends them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.world.asl_data import Unsupported, evaluate, fill, holds, only, put, read, select, sent

ARN = "arn:aws:states:eu-west-1:123456789012"
STATES_MAX = 300
"""Limit of states per execution, against endless loops."""

DATA_BYTES_MAX = 262_144
_LAMBDA, _TOKEN = "arn:aws:states:::lambda:invoke", "arn:aws:states:::lambda:invoke.waitForTaskToken"
_EVENTS = "arn:aws:states:::events:putEvents"
_START, _SYNC = "arn:aws:states:::states:startExecution", "arn:aws:states:::states:startExecution.sync:2"
_RETRY = {"ErrorEquals", "IntervalSeconds", "BackoffRate", "MaxAttempts", "MaxDelaySeconds", "JitterStrategy"}
_TASK = {"Type", "Comment", "Resource", "Parameters", "TimeoutSeconds", "TimeoutSecondsPath", "ResultPath"}
_TASK |= {"ResultSelector", "OutputPath", "Retry", "Catch", "Next", "End"}


class TaskFailed(Exception):
    """A task failed, as the state machine sees it."""

    def __init__(self, error: str, cause: str = "") -> None:
        super().__init__(error, cause)
        self.output = {"Error": error, "Cause": cause}


class Waiting(Exception):
    """The task waits for its token, or for its child execution."""

    def __init__(self, child: "Execution | None" = None) -> None:
        super().__init__()
        self.child = child


@dataclass
class Execution:
    machines: "Machines"
    machine: str
    name: str
    data: Any
    state: str
    status: str = "RUNNING"
    error: dict[str, str] = field(default_factory=dict)
    visited: list[str] = field(default_factory=list)
    token: str = ""
    wait_seconds: int = 0
    busy: bool = False
    begun_with: Any = None
    _waits_for: Waiting | None = None
    _retried: dict[int, int] = field(default_factory=dict)

    @property
    def arn(self) -> str:
        return f"{ARN}:execution:{self.machine}:{self.name}"

    @property
    def is_waiting(self) -> bool:
        waits = self._waits_for
        return waits is not None and (waits.child is None or waits.child.is_waiting)

    def advance(self) -> None:
        """Pass one state of this execution or of its awaited child."""
        assert self.status == "RUNNING", self.status
        assert not self.is_waiting, f"{self.name} waits in {self.state}"
        assert not self.busy, f"{self.name} is in {self.state}, and cannot be run from within"
        self.busy = True
        try:
            self._pass()
        finally:
            self.busy = False

    def run(self, until: str | None = None) -> "Execution":
        """Run to the end, to a wait, or to just before `until`."""
        while self.status == "RUNNING" and not self.is_waiting and (self.state != until or self._waits_for):
            self.advance()
        return self

    def abort(self) -> None:
        assert self.status == "RUNNING"
        self.status, self._waits_for = "ABORTED", None

    def succeed(self, output: Any) -> None:
        self._end_wait(lambda: sent(output))

    def fail(self, error: str) -> None:
        def result() -> Any:
            raise TaskFailed(error)

        self._end_wait(result)

    def time_out(self) -> None:
        """End the current wait, a task's or a Wait state's, by timeout."""
        state = self.machines.definitions[self.machine]["States"][self.state]
        if state["Type"] == "Task":
            self.fail("States.Timeout")
        else:
            self._waits_for = None
            self._leave(state, self.data)

    def report(self) -> Any:
        """Return the result for the parent execution, or raise the failure."""
        described = {"ExecutionArn": self.arn, "Name": self.name, "Status": self.status}
        described["Input"] = json.dumps(self.begun_with)
        if self.status != "SUCCEEDED":
            raise TaskFailed("States.TaskFailed", json.dumps(described | self.error))
        return described | {"Output": self.data}

    def _pass(self) -> None:
        if self._waits_for and self._waits_for.child:
            child = self._waits_for.child
            if child.status == "RUNNING":
                child.advance()
            else:
                self._end_wait(child.report)
            return
        self.machines.between(self)
        if self.status != "RUNNING":
            return
        self.visited.append(self.state)
        assert len(self.visited) <= STATES_MAX, f"{self.name} goes round in circles: {self.visited[-9:]}"
        self._retried = {}
        state = self.machines.definitions[self.machine]["States"][self.state]
        act = {"Task": self._task, "Choice": self._choice, "Wait": self._wait, "Fail": self._fail}
        act["Pass"] = self._pass_on
        act[state["Type"]](state)

    def _end_wait(self, result: Callable[[], Any]) -> None:
        state = self.machines.definitions[self.machine]["States"][self.state]
        assert self._waits_for, f"{self.name} waits for nothing in {self.state}"
        assert state["Type"] == "Task", f"{self.name} waits for the time to pass in {self.state}"
        self._waits_for, self.token = None, ""
        self._task(state, result)

    def _task(self, state: Any, result: Callable[[], Any] | None = None) -> None:
        only(state, _TASK, self.state)
        data = self.data
        while True:
            try:
                answer = result() if result else self._start_task(state)
            except Waiting as wait:
                self._waits_for = wait
                return
            except TaskFailed as failed:
                result, self.token = None, ""  # the token is void
                if self._is_retried(state, failed.output["Error"]):
                    continue
                self._catch(state, failed)
                return
            selected = select(state.get("ResultSelector"), sent(answer))
            placed = put(data, state.get("ResultPath", "$"), selected)
            self._leave(state, read(state.get("OutputPath", "$"), placed, None))
            return

    def _start_task(self, state: Any) -> Any:
        if state["Resource"] == _TOKEN:
            self.token = f"{self.arn}#{next(self.machines.serial)}"
            self.wait_seconds = _seconds(state["TimeoutSecondsPath"], self.data)
        execution = {"Name": self.name, "Id": self.arn, "Input": self.begun_with}
        context = {"Execution": execution, "Task": {"Token": self.token}}
        parameters = fill(state["Parameters"], self.data, context)
        return self.machines.around(self, lambda: self.machines.call(state["Resource"], parameters))

    def _is_retried(self, state: Any, error: str) -> bool:
        for number, retrier in enumerate(state.get("Retry", ())):
            only(retrier, _RETRY, f"{self.state}.Retry")
            if _matches(retrier, error):
                tried = self._retried[number] = self._retried.get(number, 0) + 1
                if tried > retrier["MaxAttempts"]:
                    return False
                self.machines.pause(self, retrier, tried)
                return True
        return False

    def _catch(self, state: Any, failed: TaskFailed) -> None:
        for catcher in state.get("Catch", ()):
            only(catcher, {"ErrorEquals", "ResultPath", "Next"}, f"{self.state}.Catch")
            if _matches(catcher, failed.output["Error"]):
                self.data = put(self.data, catcher["ResultPath"], failed.output)
                self.state = catcher["Next"]
                return
        self.status, self.error = "FAILED", failed.output

    def _choice(self, state: Any) -> None:
        only(state, {"Type", "Comment", "Choices", "Default"}, self.state)
        chosen = [choice["Next"] for choice in state["Choices"] if holds(choice, self.data)]
        self.state = [*chosen, state["Default"]][0]

    def _wait(self, state: Any) -> None:
        only(state, {"Type", "Comment", "SecondsPath", "Next"}, self.state)
        self.wait_seconds = _seconds(state["SecondsPath"], self.data)
        self._waits_for = Waiting()

    def _pass_on(self, state: Any) -> None:
        only(state, {"Type", "Comment", "Parameters", "Next", "End"}, self.state)
        self._leave(state, fill(state["Parameters"], self.data, {}))

    def _fail(self, state: Any) -> None:
        only(state, {"Type", "Comment", "Error", "ErrorPath", "Cause", "CausePath"}, self.state)
        told = {}
        for name in ("Error", "Cause"):
            told[name] = state.get(name) or evaluate(state[f"{name}Path"], self.data, None)
            assert isinstance(told[name], str), f"{self.state}: {name} must be a text"
        self.status, self.error = "FAILED", told

    def _leave(self, state: Any, data: Any) -> None:
        # A character takes at most 12 in JSON; `repr` is much cheaper than writing it.
        assert len(repr(data)) * 12 <= DATA_BYTES_MAX or len(json.dumps(data)) <= DATA_BYTES_MAX
        self.data = data
        if state.get("End"):
            self.status = "SUCCEEDED"
            self.machines.succeeded(self)
        else:
            self.state = state["Next"]


@dataclass
class Machines:
    """A stage's machines by name, and their executions in start order.

    `invoke` calls a function; `between` runs before each state. `around` wraps a task's call and may suppress
    it or raise after it. `pause` runs before retries, `succeeded` after each success.
    """

    definitions: Mapping[str, Any]
    express: frozenset[str]
    invoke: Callable[[str, Any], Any]
    around: Callable[[Execution, Callable[[], Any]], Any] = lambda execution, call: call()
    between: Callable[[Execution], None] = lambda execution: None
    pause: Callable[[Execution, Mapping[str, Any], int], None] = lambda execution, retrier, tried: None
    succeeded: Callable[[Execution], object] = lambda execution: None
    executions: list[Execution] = field(default_factory=list)
    kind: type[Execution] = Execution
    events: list[Any] = field(default_factory=list)
    serial: Any = field(default_factory=count)

    def start(self, machine: str, data: Any, name: str) -> Execution:
        """Create an execution without running a state. Only Express accepts a used name."""
        taken = [one for one in self.executions if (one.machine, one.name) == (machine, name)]
        if taken and machine not in self.express:
            raise TaskFailed("StepFunctions.ExecutionAlreadyExistsException", name)
        begun = self.kind(self, machine, name, sent(data), self.definitions[machine]["StartAt"])
        begun.begun_with = begun.data
        self.executions.append(begun)
        return begun

    def waiter(self, token: str) -> Execution:
        (found,) = (one for one in self.executions if one.token == token and one.is_waiting)
        return found

    def call(self, resource: str, parameters: Any) -> Any:
        if resource in (_LAMBDA, _TOKEN):
            only(parameters, {"FunctionName", "Payload"}, resource)
            payload = self.invoke(parameters["FunctionName"], sent(parameters["Payload"]))
            if resource == _TOKEN:
                raise Waiting
            return {"StatusCode": 200, "Payload": payload}
        if resource == _EVENTS:
            only(parameters, {"Entries"}, resource)
            self.events += parameters["Entries"]
            return {"Entries": [{"EventId": str(next(self.serial))}], "FailedEntryCount": 0}
        if resource in (_START, _SYNC):
            only(parameters, {"StateMachineArn", "Name", "Input"}, resource)
            child = self.start(parameters["StateMachineArn"], parameters["Input"], parameters["Name"])
            if resource == _SYNC:
                raise Waiting(child)
            return {"ExecutionArn": child.arn}
        raise Unsupported(f"resource {resource}")


def _seconds(path: str, data: Any) -> int:
    seconds = read(path, data, None)
    assert type(seconds) is int, seconds
    assert seconds > 0
    return seconds


def _matches(rule: Mapping[str, Any], error: str) -> bool:
    if {name for name in rule["ErrorEquals"] if name.startswith("States.")} - {
        "States.ALL",
        "States.Timeout",
    }:
        raise Unsupported(f"ErrorEquals {rule['ErrorEquals']}")
    return error in rule["ErrorEquals"] or "States.ALL" in rule["ErrorEquals"]
