"""What the person on call works with: a table, the machines at work on it, and who AWS says they are."""

import io
import json
import os
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

from settle.actions import accounts
from settle.queries import statement
from settle.stack import Stack
from settlement.ledger import forward, keys
from settlement.ledger.keys import Row
from settlement.model.errors import IdempotencyConflict, SettlementError, StoreUnavailable
from settlement.model.request import parse_settlement
from tests.world import constants
from tests.world.constants import KEY, NONCE
from tests.world.contracts import checked_outcome
from tests.world.definitions import EXPRESS, definitions
from tests.world.environment import NOW
from tests.world.functions import HANDLERS, Context
from tests.world.interpreter import Execution, Machines, TaskFailed
from tests.world.journal import journal
from tests.world.ledger import Ledger
from tests.world.provider import Provider
from tests.world.step_functions import StepFunctions, client_error

ADA = constants.ORDER["by"]
REASON = "approved by finance"
COMPENSATION = os.environ["COMPENSATION_MACHINE"]
STANDARD = os.environ["SETTLEMENT_MACHINE"]
RECOVERY, ADMINISTRATION = (
    f"arn:aws:lambda:eu-west-1:123456789012:function:{name}"
    for name in ("RecoverStalled", "AdministerAccount")
)
FORWARD = {
    "hold": "HoldFunds",
    "verify": "VerifyKyc",
    "release": "ReleaseFunds",
    "fee": "CollectFee",
}


def call(function: str, event: Mapping[str, Any]) -> Any:
    """Call a function as Lambda does; what it prints are metrics, and none of the command's business."""
    with redirect_stdout(io.StringIO()):
        return HANDLERS[function](event, Context())


class Functions:
    """Lambda as boto3 shows it, with real functions over the same table and the same machines."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        """What recovery was asked."""

        self.ordered: list[dict[str, Any]] = []
        """The orders on accounts."""

        self.losing = 0
        """How many answers will be lost, each after its effect."""

    def invoke(self, **parameters: Any) -> dict[str, Any]:
        payload = json.loads(parameters.pop("Payload"))
        function = parameters.pop("FunctionName")
        assert parameters == {"InvocationType": "RequestResponse"}
        {RECOVERY: self.asked, ADMINISTRATION: self.ordered}[function].append(payload)
        try:
            answer = call(function.rpartition(":")[2], payload)
            if self.losing:
                self.losing -= 1
                raise StoreUnavailable("DynamoDB: ReadTimeoutError")
            return {"Payload": _stream(answer)}
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


class Secrets:
    """Secrets Manager: it has the key that signs the rows of the tests."""

    def get_secret_value(self, SecretId: str) -> dict[str, str]:  # noqa: N803
        assert SecretId == "row-keys"
        return {"SecretString": os.environ["ROW_KEYS"].removeprefix("1:")}


class Desk:
    """A stack under test, with what a test does to it and sees of it.

    Functions in `broken` fail with what they are given there.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.provider, self.broken = ledger, Provider(), dict[str, SettlementError]()
        self.machines = StepFunctions(Machines(definitions(), frozenset({EXPRESS}), self._invoke), runs=True)
        self.functions, self.identity = Functions(), Identity()
        outputs = {
            "TableName": ledger.table_name,
            "CompensationArn": COMPENSATION,
            "SettlementStandardArn": STANDARD,
            "RecoverStalledArn": RECOVERY,
            "AdministerAccountArn": ADMINISTRATION,
            "RowKeyArns": "row-keys",
            "StageConfig": os.environ["STAGE_CONFIG"],
        }
        clients = {"dynamodb": ledger.client, "stepfunctions": self.machines}
        clients |= {"lambda": self.functions, "sts": self.identity, "secretsmanager": Secrets()}
        self.stack = Reached("under-test", outputs, None, clients=clients)

    @property
    def executions(self) -> list[Execution]:
        return self.machines.machines.executions

    @property
    def orders(self) -> list[Any]:
        """The inputs of the executions that the command, or recovery for it, has started."""
        return [order for _, _, order in self.machines.started]

    def refuse(self, operation: str, code: str) -> None:
        """Let Step Functions refuse an operation with this error code."""
        self.machines.failing[operation] = client_error(operation, code)

    def open(self) -> "Desk":
        """Open the accounts of all tests: Alice has 500.00 EUR, Bob and the shop nothing."""
        for account, deposit in (("alice", "500.00"), ("bob", "0"), ("shop", "0")):
            accounts.open_account(self.stack, account, "EUR", deposit, by=ADA)
        return self

    def pay(
        self, key: str = KEY, until: str = "fee", *, execution: str = "", **request: str
    ) -> dict[str, str]:
        """Let Alice pay Bob 48.20 EUR, 0.48 EUR of it the fee, as far as the step `until`.

        With "claim", the key is claimed for the execution, as the start queue does it, and nothing is held.
        """
        wire = constants.WIRE | {"key": key} | request
        if until == "claim":
            settlement = parse_settlement(wire, self.stack.config)
            self.ledger.store.claim(forward.claim(settlement, f"{key}-1", NOW, self.stack.config))
            return wire
        name = execution or f"{key}-1"
        event: dict[str, Any] = {"settlement": wire, "execution": name, "claimed_at": ""}
        event["execution_arn"] = f"arn:of:{name}"
        for step, function in FORWARD.items():
            event["claimed_at"] = (call(function, event) or event).get("claimed_at", event["claimed_at"])
            if step == until:
                break
        return wire

    def spend(self) -> None:
        """Let Bob pass on what he has received, so that it cannot be reclaimed."""
        self.pay("order-spent-0001", payer="bob", payee="shop", amount="40.00", fee="0.00")

    def pay_back(self) -> None:
        """Give Bob enough again."""
        self.pay("order-rich-00001", amount="100.00", fee="0.00")

    def compensate(self, wire: Mapping[str, str], **order: Any) -> None:
        """Start the compensating machine on an order: by default what stopped the settlement."""
        text = json.dumps({"settlement": wire, **(order or {"error": constants.REJECTED_BY_KYC})})
        name = f"{wire['key']}-c{len(self.executions)}-{NONCE}"
        self.machines.start_execution(stateMachineArn=COMPENSATION, name=name, input=text)
        self.machines.started.clear()

    def half_reversed(self, until: str = "ReclaimFunds") -> Execution:
        """Begin to reverse a settled payment, as far as the state `until`; return what does so, and runs."""
        wire = self.pay()
        self.machines.runs = False
        self.compensate(wire, reversal={"reason": "first", "by": "grace"})
        self.machines.runs = True
        half = self.executions[-1].run(until=until)
        assert self.row()["status"] == "COMPENSATING"
        return half

    def stuck(self, step: str = "release", key: str = KEY) -> None:
        """Put a settlement into LIMBO: the reversal of `step` is stuck.

        Bob has spent what he got; of the other steps, the reversal is refused.
        """
        wire = self.pay(key, "claim" if step == "nothing" else step)
        if step == "release":
            self.spend()
        elif step == "fee":
            self.broken["RefundFee"] = IdempotencyConflict("the fees are locked")
        else:
            self.broken["VoidHold"] = IdempotencyConflict("the payer is locked")
        ordered = {"fee": {"reversal": constants.ORDER}, "nothing": {"reversal": constants.STALLED_ORDER}}
        self.compensate(wire, **ordered.get(step, {}))
        assert self.row(key)["status"] == "LIMBO", self.row(key)

    def row(self, key: str = KEY) -> Row:
        row = self.ledger.row(keys.settlement(key))
        assert row is not None
        return row

    def alter(self, **attributes: Any) -> None:
        """Overwrite attributes of the settlement's row, past every condition."""
        self.ledger.put(self.row() | attributes)

    def entry(self, step: str, key: str = KEY) -> Row:
        return journal(self.ledger.rows(), key)[step]

    def available(self, *names: str) -> list[str]:
        return [statement.show(self.stack, name)["available"] for name in names]

    def _invoke(self, function: str, payload: Any) -> Any:
        try:
            if function in self.broken:
                raise self.broken[function]
            answer = call(function, payload)
            return checked_outcome(answer) if function == "ReportOutcome" else answer
        except SettlementError as failed:
            cause = json.dumps({"errorType": type(failed).__name__, "errorMessage": str(failed)})
            raise TaskFailed(type(failed).__name__, cause) from failed
