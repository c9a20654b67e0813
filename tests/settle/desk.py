"""What the person on call works with: a table, the machines at work on it, and who AWS says they are."""

import io
import json
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

from botocore.exceptions import ClientError

from settle.actions import accounts
from settle.local.record import PROJECT
from settle.queries import statement
from settle.stack import Stack
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model.errors import SettlementError
from tests.conftest import Ledger
from tests.support.contracts import checked_outcome
from tests.support.interpreter import ARN, Execution, Machines, TaskFailed
from tests.support.kyc import Provider

KEY = "order-2026-000101"
ADA = "arn:aws:iam::123456789012:user/ada"
REASON = "approved by finance"
COMPENSATION = f"{ARN}:stateMachine:Compensation"
STANDARD = f"{ARN}:stateMachine:SettlementStandard"
RECOVERY = "arn:aws:lambda:eu-west-1:123456789012:function:RecoverStalled"
STOPPED = {"Error": "KycRejected", "Cause": json.dumps({"errorMessage": "kyc: the provider says no"})}
FORWARD = {
    "claim": "claim_key",
    "hold": "hold_funds",
    "verify": "verify_kyc",
    "release": "release_funds",
    "fee": "collect_fee",
}
_FUNCTIONS = {
    "BeginCompensation": "begin_compensation",
    "RefundFee": "refund_fee",
    "ReclaimFunds": "reclaim_funds",
    "VoidHold": "void_hold",
    "EnterLimbo": "enter_limbo",
    "PrepareAlert": "prepare_alert",
    "AwaitResolution": "await_resolution",
    "ResolveLimbo": "resolve_limbo",
    "ReportOutcome": "report_outcome",
}


def call(module: str, event: Mapping[str, Any]) -> Any:
    """Call a handler as Lambda does; what it prints are metrics, and none of the command's business."""
    context = SimpleNamespace(
        function_name="under-test",
        memory_limit_in_mb=512,
        invoked_function_arn="arn:aws:lambda:eu-west-1:123456789012:function:under-test",
        aws_request_id="4f0b2c9e-0000-4000-8000-000000000001",
    )
    with redirect_stdout(io.StringIO()):
        return import_module(f"handlers.{module}").handler(event, context)


def refusal(operation: str, code: str) -> ClientError:
    kind = {each.__name__: each for each in _EXCEPTIONS}.get(code, ClientError)
    return kind({"Error": {"Code": code, "Message": "as the test wants it"}}, operation)


class ExecutionDoesNotExist(ClientError):
    """As the Step Functions client has it."""


class ExecutionAlreadyExists(ClientError):
    """As the Step Functions client has it."""


_EXCEPTIONS = (ExecutionDoesNotExist, ExecutionAlreadyExists)


class StepFunctions:
    """Step Functions as boto3 shows it: the real compensating machine over the real handlers, at once.

    `broken` functions fail with what they are given, `refused` operations with that error code; what is
    `detached` is started, but does not run.
    """

    exceptions = SimpleNamespace(**{each.__name__: each for each in _EXCEPTIONS})

    def __init__(self) -> None:
        definition = json.loads((PROJECT / "statemachines/compensation.asl.json").read_text())
        self.machines = Machines({"Compensation": definition}, frozenset(), self._invoke)
        self.broken: dict[str, SettlementError] = {}
        self.refused: dict[str, str] = {}
        self.detached = False
        self.started: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        self.before_start: Callable[[], object] = lambda: None
        self.before_send: Callable[[], object] = lambda: None

    def start_execution(self, **parameters: Any) -> dict[str, Any]:
        assert parameters.keys() == {"stateMachineArn", "name", "input"}
        assert len(parameters["name"]) <= 80
        self.before_start()
        self._refuse("start_execution")
        self.started.append(json.loads(parameters["input"]))
        machine = parameters["stateMachineArn"].rpartition(":")[2]
        begun = self.machines.start(machine, json.loads(parameters["input"]), parameters["name"])
        return {"executionArn": self._drive(begun).arn}

    def describe_execution(self, *, executionArn: str) -> dict[str, Any]:  # noqa: N803
        self._refuse("describe_execution")
        found = next((one for one in self.machines.executions if one.arn == executionArn), None)
        if found is None:
            raise refusal("DescribeExecution", "ExecutionDoesNotExist")
        return {"status": found.status}

    def send_task_success(self, *, taskToken: str, output: str) -> None:  # noqa: N803
        self.before_send()
        self._refuse("send_task_success")
        waiter = next((one for one in self.machines.executions if one.token == taskToken), None)
        if waiter is None or not waiter.is_waiting:
            raise refusal("SendTaskSuccess", "InvalidToken")
        self.sent.append(json.loads(output))
        waiter.succeed(json.loads(output))
        self._drive(waiter)

    def _refuse(self, operation: str) -> None:
        if operation in self.refused:
            raise refusal(operation, self.refused[operation])

    def _drive(self, execution: Execution) -> Execution:
        return execution if self.detached else execution.run()

    def _invoke(self, name: str, payload: Any) -> Any:
        function = name.strip("${}")
        try:
            if function in self.broken:
                raise self.broken[function]
            answer = call(_FUNCTIONS[function], payload)
            return checked_outcome(answer) if function == "ReportOutcome" else answer
        except SettlementError as failed:
            cause = json.dumps({"errorType": type(failed).__name__, "errorMessage": str(failed)})
            raise TaskFailed(type(failed).__name__, cause) from failed


class Functions:
    """Lambda as boto3 shows it, with the real RecoverStalled over the same table and the same machines."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def invoke(self, **parameters: Any) -> dict[str, Any]:
        payload = json.loads(parameters.pop("Payload"))
        assert parameters == {"FunctionName": RECOVERY, "InvocationType": "RequestResponse"}
        self.asked.append(payload)
        try:
            return {"Payload": _stream(call("recover_stalled", payload))}
        except SettlementError as failed:
            told = {"errorType": type(failed).__name__, "errorMessage": str(failed)}
            return {"FunctionError": "Unhandled", "Payload": _stream(told)}


def _stream(answer: Any) -> io.BytesIO:
    return io.BytesIO(json.dumps(answer).encode())


class Identity:
    """STS, which knows who asks, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def get_caller_identity(self) -> dict[str, str]:
        self.asked += 1
        return {"Arn": ADA}


@dataclass(frozen=True)
class Reached(Stack):
    """A stack whose services are the test's."""

    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str, attempts: int = 5) -> Any:
        return self.clients[service]


@dataclass(frozen=True)
class Desk:
    """A stack under test, with what a test does to it and sees of it."""

    ledger: Ledger
    stack: Reached
    provider: Provider = field(default_factory=Provider)

    @property
    def machines(self) -> StepFunctions:
        return cast(StepFunctions, self.stack.clients["stepfunctions"])

    @property
    def functions(self) -> Functions:
        return cast(Functions, self.stack.clients["lambda"])

    @property
    def identity(self) -> Identity:
        return cast(Identity, self.stack.clients["sts"])

    def open(self) -> "Desk":
        """Open the accounts of all tests: Alice has 500.00 EUR, Bob and the shop nothing."""
        for account, deposit in (("alice", "500.00"), ("bob", "0"), ("shop", "0")):
            accounts.open_account(self.stack, account, "EUR", deposit)
        return self

    def pay(self, key: str = KEY, until: str = "fee", **request: str) -> dict[str, str]:
        """Let Alice pay Bob 48.20 EUR, 0.48 EUR of it the fee, as far as the step `until`."""
        wire = {"key": key, "payer": "alice", "payee": "bob", "amount": "48.20", "currency": "EUR"}
        wire |= {"fee": "0.48"} | request
        claimed_at = ""
        for step, module in FORWARD.items():
            event = {"settlement": wire, "execution": f"{key}-1", "claimed_at": claimed_at}
            event["execution_arn"] = f"arn:of:{key}-1"
            result = call(module, event)
            claimed_at = (result or {}).get("claimed_at", claimed_at)
            if step == until:
                break
        return wire

    def spend(self) -> None:
        """Let Bob pass on what he has received, so that it cannot be reclaimed."""
        self.pay("order-spent-0001", payer="bob", payee="shop", amount="40.00", fee="0.00")

    def compensate(self, wire: Mapping[str, str], **order: Any) -> None:
        """Start the compensating machine on an order: by default what stopped the settlement."""
        order = order or {"error": STOPPED}
        name = f"{wire['key']}-compensate-{len(self.machines.machines.executions)}"
        self.machines.start_execution(
            stateMachineArn=COMPENSATION, name=name, input=json.dumps({"settlement": wire, **order})
        )
        self.machines.started.clear()

    def half_reversed(self, until: str = "ReclaimFunds") -> Execution:
        """Begin to reverse a settled payment, as far as the state `until`; return what does so, and runs."""
        wire = self.pay()
        self.machines.detached = True
        self.compensate(wire, reversal={"reason": "first", "by": "grace"})
        self.machines.detached = False
        half = self.machines.machines.executions[-1].run(until=until)
        assert self.row()["status"] == "COMPENSATING"
        return half

    def stuck(self, step: str = "release", key: str = KEY) -> str:
        """Put a settlement into LIMBO: the reversal of `step` is stuck; return its key.

        Bob has spent what he got; of the other steps, the function is broken.
        """
        self.machines.broken |= BREAKS[step]
        until = {"fee": "fee", "release": "release", "hold": "hold", "nothing": "claim"}[step]
        wire = self.pay(key, until)
        if step == "release":
            self.spend()
        self.compensate(wire, **({"reversal": {"reason": "sent back", "by": ADA}} if step == "fee" else {}))
        assert self.row(key)["status"] == "LIMBO", self.row(key)
        return key

    def pay_back(self) -> None:
        """Give Bob enough again."""
        self.pay("order-rich-00001", amount="100.00", fee="0.00")

    def row(self, key: str = KEY) -> Row:
        row = self.ledger.row(keys.settlement(key))
        assert row is not None
        return row

    def entry(self, step: str, key: str = KEY) -> Row | None:
        return self.ledger.row(keys.entry(key, step))

    def available(self, *names: str) -> list[str]:
        return [statement.show(self.stack, name)["available"] for name in names]


BREAKS: dict[str, dict[str, SettlementError]] = {
    "fee": {"RefundFee": SettlementError("the fees are locked")},
    "release": {},
    "hold": {"VoidHold": SettlementError("the payer is locked")},
    "nothing": {"VoidHold": SettlementError("the payer is locked")},
}
