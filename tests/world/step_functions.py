"""The only fake Step Functions client, over the interpreter's machines."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

from tests.world.definitions import EXPRESS, definitions
from tests.world.interpreter import ARN, Execution, Machines, TaskFailed, Waiting

NAME_CHARACTERS_MAX = 80
INPUT_BYTES_MAX = 262_144


class ExecutionAlreadyExists(ClientError):
    """The name belongs to an ended execution, or to one with another input."""


class ExecutionDoesNotExist(ClientError): ...


class InvalidToken(ClientError): ...


def client_error(operation: str, code: str, kind: type[ClientError] = ClientError) -> ClientError:
    return kind({"Error": {"Code": code, "Message": "as the test wants it"}}, operation)


def _not_invoked(function: str, payload: Any) -> Any:
    raise AssertionError(f"{function} is called, but this test runs no execution")


def at_rest() -> Machines:
    """Return machines whose executions stay before their first state."""
    return Machines(definitions(), frozenset({EXPRESS}), _not_invoked)


@dataclass
class StepFunctions:
    """A client over `machines`. With `runs`, executions run at once; else they stay at their start.

    An operation in `failing` raises that error; with `loses_answers` it takes effect first. `before` and
    `after` surround each operation and get its name; their errors reach the caller.
    """

    machines: Machines = field(default_factory=at_rest)
    runs: bool = False
    failing: dict[str, BaseException] = field(default_factory=dict)
    loses_answers: bool = False
    refusing: dict[str, BaseException] = field(default_factory=dict)
    """The error of each machine that refuses starts."""

    before: Callable[[str], object] = lambda operation: None
    after: Callable[[str], object] = lambda operation: None
    called: list[str] = field(default_factory=list)
    """All operations in order, even refused ones."""

    asked: list[str] = field(default_factory=list)
    """The machine of each start, even of a refused one."""

    started: list[tuple[str, str, Any]] = field(default_factory=list)
    """Machine, name and input of this client's starts."""

    traced: dict[str, str] = field(default_factory=dict)
    """Trace headers of starts, by the execution's name."""

    described: list[str] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)
    """The outputs sent with a task token."""

    exceptions = SimpleNamespace(
        ExecutionAlreadyExists=ExecutionAlreadyExists,
        ExecutionDoesNotExist=ExecutionDoesNotExist,
        InvalidToken=InvalidToken,
    )

    def start_execution(
        self,
        *,
        stateMachineArn: str,  # noqa: N803
        name: str,
        input: str,  # noqa: A002
        traceHeader: str | None = None,  # noqa: N803
    ) -> dict[str, Any]:
        """Start an execution. On Standard, an identical start returns the running one, as on AWS."""
        prefix, _, machine = stateMachineArn.rpartition(":")
        assert prefix == f"{ARN}:stateMachine", stateMachineArn
        assert 0 < len(name) <= NAME_CHARACTERS_MAX
        assert name.isascii()
        assert len(input.encode()) <= INPUT_BYTES_MAX
        self.asked.append(machine)
        if traceHeader is not None:
            self.traced[name] = traceHeader
        return {"executionArn": self._call("start_execution", lambda: self._start(machine, name, input))}

    def describe_execution(self, *, executionArn: str) -> dict[str, str]:  # noqa: N803
        self.described.append(executionArn)
        assert not executionArn.startswith(f"{ARN}:execution:{EXPRESS}:"), (
            "AWS describes no Express execution"
        )
        return {"status": self._call("describe_execution", lambda: self._found(executionArn).status)}

    def send_task_success(self, *, taskToken: str, output: str) -> None:  # noqa: N803
        self._call("send_task_success", lambda: self._wake(taskToken, json.loads(output)))

    def add(self, arn: str, status: str = "RUNNING") -> Execution:
        """Add another caller's execution."""
        machine, _, name = arn.removeprefix(f"{ARN}:execution:").partition(":")
        execution = self.machines.start(machine, {}, name)
        execution.status = status
        return execution

    def waits(self, arn: str, token: str) -> Execution:
        """Add another caller's execution that waits in LIMBO with a token."""
        execution = self.add(arn)
        execution.state, execution.token = "AwaitResolution", token
        execution._waits_for = Waiting()
        return execution

    def end(self, arn: str, status: str = "FAILED") -> None:
        self._found(arn).status = status

    @property
    def names(self) -> list[str]:
        return [name for _, name, _ in self.started]

    def _call(self, operation: str, effect: Callable[[], Any]) -> Any:
        self.called.append(operation)
        self.before(operation)
        error = self.failing.get(operation)
        if error and not self.loses_answers:
            raise error
        answer = effect()
        if error:
            raise error
        self.after(operation)
        return answer

    def _start(self, machine: str, name: str, text: str) -> str:
        if machine in self.refusing:
            raise self.refusing[machine]
        data = json.loads(text)
        for one in self.machines.executions if machine not in self.machines.express else ():
            if (one.machine, one.name, one.begun_with, one.status) == (machine, name, data, "RUNNING"):
                return one.arn
        try:
            execution = self.machines.start(machine, data, name)
        except TaskFailed:
            raise client_error("StartExecution", "ExecutionAlreadyExists", ExecutionAlreadyExists) from None
        self.started.append((machine, name, data))
        if self.runs:
            execution.run()
        return execution.arn

    def _found(self, arn: str) -> Execution:
        for one in self.machines.executions:
            if one.arn == arn:
                return one
        raise client_error("DescribeExecution", "ExecutionDoesNotExist", ExecutionDoesNotExist)

    def _wake(self, token: str, output: Any) -> None:
        waiter = next((one for one in self.machines.executions if one.token == token), None)
        if waiter is None or not waiter.is_waiting:
            raise client_error("SendTaskSuccess", "InvalidToken", InvalidToken)
        self.sent.append(output)
        waiter.succeed(output)
        if self.runs:
            waiter.run()
