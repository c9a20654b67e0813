"""The `Desk` of the commands' tests: a stack in this process, with table, machines and orders API."""

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ReadTimeoutError

from settle.accounts import accounts, statement
from settle.door import Answer
from settle.stack import Outputs, Stack
from settlement.core import telemetry
from settlement.core.ledger import forward, keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import IdempotencyConflict, SettlementError
from settlement.core.model.request import parse_settlement
from tests.world import constants
from tests.world.constants import KEY, NONCE
from tests.world.contracts import checked_outcome
from tests.world.definitions import EXPRESS, definitions
from tests.world.environment import NOW
from tests.world.functions import HANDLERS, Context
from tests.world.interpreter import Execution, Machines, TaskFailed
from tests.world.journal import journal
from tests.world.ledger import Ledger
from tests.world.orders import request
from tests.world.provider import Provider
from tests.world.services import Functions as Recovery
from tests.world.step_functions import StepFunctions, client_error

ADA = constants.ORDER["by"]
GRACE = "arn:aws:iam::123456789012:user/grace"
REASON = "approved by finance"
COMPENSATION = os.environ["COMPENSATION_MACHINE"]
STANDARD = os.environ["SETTLEMENT_MACHINE"]
FORWARD = {
    "hold": "HoldFunds",
    "verify": "VerifyKyc",
    "release": "ReleaseFunds",
    "fee": "CollectFee",
}


def call(function: str, event: Mapping[str, Any]) -> Any:
    """Call a function like Lambda; hide its printed metrics."""
    with redirect_stdout(io.StringIO()):
        try:
            return HANDLERS[function](event, Context())
        finally:
            telemetry.count("StepCalled")  # a nested call flushes the metrics of the outer one


class Orders:
    """The stack's orders API behind API Gateway, which identifies the caller."""

    def __init__(self) -> None:
        self.given: list[tuple[str, Any]] = []

        self.losing = 0
        """Number of answers that will be lost after their effect."""

        self.answering: Answer | None = None
        """Answer that API Gateway gives without calling the function, if any."""

        self.throttled = 0
        """Number of orders that API Gateway will refuse as too many."""

        self.throttles = Answer(429, {"message": "Too Many Requests"})

        self.by = ADA

    def send(self, decision: str, order: dict[str, Any]) -> Answer:
        order = json.loads(json.dumps(order))
        self.given.append((decision, order))
        if self.answering:
            return self.answering
        if self.throttled:
            self.throttled -= 1
            return self.throttles
        answer = call("TakeOrder", request(decision, order, self.by))
        if self.losing:
            self.losing -= 1
            raise ReadTimeoutError(endpoint_url="https://orders.invalid")
        return Answer(answer["statusCode"], json.loads(answer["body"]))


@dataclass(frozen=True)
class Reached(Stack):
    clients: dict[str, Any] = field(default_factory=dict)
    orders: Orders = field(default_factory=Orders)

    @property
    def door(self) -> Any:
        return self.orders

    def client(self, service: str, attempts: int = 5) -> Any:
        return self.clients[service]


class Secrets:
    def get_secret_value(self, SecretId: str) -> dict[str, str]:  # noqa: N803
        assert SecretId == "row-keys"
        return {"SecretString": os.environ["ROW_KEYS"].removeprefix("1:")}


class Desk:
    """A stack under test, with the means to control it and to see its effects.

    Functions in `broken` fail with the given error.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.provider, self.broken = ledger, Provider(), dict[str, SettlementError]()
        self.machines = StepFunctions(Machines(definitions(), frozenset({EXPRESS}), self._invoke), runs=True)
        outputs = {
            "EventBusName": "under-test",
            "TableName": ledger.table_name,
            "CompensationArn": COMPENSATION,
            "SettlementStandardArn": STANDARD,
            "OrdersUrl": "https://orders.invalid",
            "RowKeyArns": "row-keys",
            "StageConfig": os.environ["STAGE_CONFIG"],
        }
        clients = {"dynamodb": ledger.client, "stepfunctions": self.machines}
        clients |= {"secretsmanager": Secrets()}
        self.door = Orders()
        self.recovery = Recovery(answers=lambda event: call("RecoverStalled", event))
        self.stack = Reached("under-test", Outputs(outputs), None, clients=clients, orders=self.door)

    @property
    def executions(self) -> list[Execution]:
        return self.machines.machines.executions

    @property
    def orders(self) -> list[Any]:
        """Inputs of the executions started by the command, or by recovery for it."""
        return [order for _, _, order in self.machines.started]

    def refuse(self, operation: str, code: str) -> None:
        self.machines.failing[operation] = client_error(operation, code)

    def open(self) -> "Desk":
        """Open the tests' accounts: Alice has 500.00 EUR, Bob and the shop nothing."""
        for account, deposit in (("alice", "500.00"), ("bob", "0"), ("shop", "0")):
            accounts.open_account(self.stack, account, "EUR", deposit)
        return self

    def pay(
        self, key: str = KEY, until: str = "fee", *, execution: str = "", **request: str
    ) -> dict[str, str]:
        """Let Alice pay Bob 48.20 EUR with a fee of 0.48, up to the step `until`.

        `until="claim"` only claims the key, like the start queue.
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
        self.pay("order-spent-0001", payer="bob", payee="shop", amount="40.00", fee="0.00")

    def pay_back(self) -> None:
        self.pay("order-rich-00001", amount="100.00", fee="0.00")

    def reverse(self, reason: str, key: str = KEY, **more: str) -> None:
        """Order a reversal as Grace, without the command."""
        answer = call("TakeOrder", request("reverse", {"key": key, "reason": reason, **more}, GRACE))
        assert answer["statusCode"] == 200, answer
        self.machines.started.clear()

    def compensate(self, wire: Mapping[str, str], error: Any = constants.REJECTED_BY_KYC) -> None:
        text = json.dumps({"settlement": wire, "error": error})
        name = f"{wire['key']}-c{len(self.executions)}-{NONCE}"
        self.machines.start_execution(stateMachineArn=COMPENSATION, name=name, input=text)
        self.machines.started.clear()

    def half_reversed(self, until: str = "ReclaimFunds") -> Execution:
        """Begin to reverse a settled payment, up to the state `until`; return the running execution."""
        self.pay()
        self.machines.runs = False
        self.reverse("first")
        self.machines.runs = True
        half = self.executions[-1].run(until=until)
        assert self.row()["status"] == "COMPENSATING"
        return half

    def stuck(self, step: str = "release", key: str = KEY) -> None:
        """Put a settlement into LIMBO at the reversal of `step`.

        For a release, Bob has spent the money; for other steps, the reversal is refused.
        """
        wire = self.pay(key, "claim" if step == "nothing" else step)
        if step == "release":
            self.spend()
        elif step == "fee":
            self.broken["RefundFee"] = IdempotencyConflict("the fees are locked")
        else:
            self.broken["VoidHold"] = IdempotencyConflict("the payer is locked")
        ordered = {"fee": {}, "nothing": {"expected_status": "PROCESSING"}}
        if step in ordered:
            self.reverse(constants.ORDER["reason"], key, **ordered[step])
        else:
            self.compensate(wire)
        assert self.row(key)["status"] == "LIMBO", self.row(key)

    def row(self, key: str = KEY) -> Row:
        row = self.ledger.row(keys.settlement(key))
        assert row is not None
        return row

    def alter(self, place: Row | None = None, /, **attributes: Any) -> None:
        """Overwrite attributes of a row, by default the settlement's, without conditions."""
        row = self.ledger.row(place or keys.settlement(KEY))
        assert row is not None
        self.ledger.put(row | attributes)

    @contextmanager
    def writes_nothing(self) -> Iterator[None]:
        before = self.ledger.rows()
        yield
        assert self.ledger.rows() == before

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
