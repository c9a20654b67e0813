"""The saga in a process that cannot import rooms; prints four payments' results as JSON.

With an argument, existing rooms take part.
"""

from tests.world.environment import NOW  # isort: split

import importlib.abc
import json
import sys
from collections.abc import Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

CORE = {"core", "aws", "_dependencies", "rooms"}


class NoRooms(importlib.abc.MetaPathFinder):
    """Refuses to import our modules outside the core."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        package, _, within = name.partition(".")
        if package in ("handlers", "settlement") and within and within.split(".")[0] not in CORE:
            raise ImportError(f"{name} is no part of the core")


if not sys.argv[1:]:
    sys.meta_path.insert(0, NoRooms())

from handlers import rooms  # noqa: E402 (before what asks for the rooms)

if not sys.argv[1:]:
    rooms.ROOMS = ()

from handlers import _dependencies  # noqa: E402
from handlers.core import _verification, _workers  # noqa: E402
from settlement.aws import step_functions  # noqa: E402
from settlement.core.ledger import keys  # noqa: E402
from settlement.core.model.errors import SettlementError  # noqa: E402
from settlement.core.model.settlement import Settlement  # noqa: E402
from settlement.core.model.verdict import KycDecision, Verdict  # noqa: E402
from settlement.core.policy import recovery  # noqa: E402
from settlement.core.store.wire import from_wire, to_wire  # noqa: E402
from settlement.core.telemetry import logger, observed  # noqa: E402
from tests.world.constants import WIRE  # noqa: E402
from tests.world.definitions import EXPRESS, STANDARD, definitions  # noqa: E402
from tests.world.interpreter import Machines, TaskFailed  # noqa: E402
from tests.world.memory_dynamodb import MemoryDynamoDb  # noqa: E402
from tests.world.step_functions import StepFunctions  # noqa: E402

CONTEXT = SimpleNamespace(
    function_name="core",
    memory_limit_in_mb=512,
    invoked_function_arn="arn:aws:lambda:eu-west-1:123456789012:function:core",
    aws_request_id="request-1",
    get_remaining_time_in_millis=lambda: 50_000,
)


class Stage:
    """A table, the machines, and the core's functions. The provider decides by the payer's name."""

    def __init__(self) -> None:
        self.table, self.seconds = MemoryDynamoDb(), 0
        self.failing = ""
        folder = Path(_verification.__file__).parent
        self.functions = {
            "".join(map(str.title, file.stem.split("_"))): import_module(f"handlers.core.{file.stem}").handler
            for file in folder.glob("[a-z]*.py")
        }
        self.functions["VerifyKyc"] = observed("verify")(
            lambda event, context: _verification.verify(event, context, self)
        )
        self.machines = Machines(definitions(), frozenset({EXPRESS}), self.invoke)
        _dependencies.store.client = self.table
        _dependencies.now = lambda: NOW + timedelta(seconds=self.seconds)
        _workers.each = lambda function, items: [function(item) for item in items]
        step_functions._client = StepFunctions(self.machines, runs=True)  # type: ignore[assignment]

    def ask(self, settlement: Settlement, context: Any) -> Verdict:
        if settlement.payer == "stuck":
            self.open("stuck", 5_180, "USD")
        decision = (
            KycDecision.APPROVED if settlement.payer in ("paid", "late", "shopper") else KycDecision.REJECTED
        )
        return Verdict(decision=decision, provider="ours", reference="ver_1", reason="")

    def review_ends(self, now: Any) -> Any:
        raise AssertionError("nobody asks for a review")

    def open(self, account: str, available: int, currency: str = "EUR") -> None:
        row = keys.account(account) | {"available": available, "currency": currency}
        self.table.put_item(TableName="table", Item=to_wire(row))

    def invoke(self, function: str, event: Any) -> Any:
        if function == self.failing:
            raise TaskFailed("Lambda.Unknown", "the environment is gone")
        try:
            return self.functions[function](event, CONTEXT)
        except SettlementError as error:
            raise TaskFailed(type(error).__name__, json.dumps({"errorMessage": str(error)})) from None

    def pay(self, payer: str, payee: str = "bob") -> None:
        self.open(payer, 10_000)
        key = f"order-2026-000101-{payer}"
        self.machines.start(STANDARD, WIRE | {"key": key, "payer": payer, "payee": payee}, f"{key}-1").run()

    def recover(self) -> None:
        for shard in range(keys.IN_FLIGHT_SHARDS):
            self.functions["RecoverStalled"]({"partition": keys.in_flight_partition(shard)}, CONTEXT)

    def told(self) -> dict[str, Any]:
        rows = [from_wire(item) for item in self.table.items.values()]
        return {
            "statuses": {row["payer"]: row["status"] for row in rows if keys.is_settlement(row)},
            "available": {keys.subject(row)[1]: row["available"] for row in rows if keys.is_account(row)},
            "pages": [entry["DetailType"] for entry in self.machines.events],
        }


def main(payers: Sequence[str] = ("paid", "refused", "stuck")) -> None:
    logger.setLevel("CRITICAL")
    stage = Stage()
    stage.open("bob", 500)
    for payer in payers:
        stage.pay(payer)
    stage.open("merchant.shop", 0)
    stage.pay("shopper", "merchant.shop")
    stage.failing = "ReleaseFunds"
    stage.pay("late")
    before = stage.told()["statuses"]["late"]
    stage.failing, stage.seconds = "", recovery.BACKOFF_SECONDS_MAX // 2
    stage.recover()
    print(json.dumps(stage.told() | {"late_before": before}))


if __name__ == "__main__":
    main()
