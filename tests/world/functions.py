import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import Any

from handlers import _dependencies
from handlers.core.recover_stalled import PARTITIONS
from settlement.core.ledger import forward, keys
from settlement.core.ledger.keys import Row
from settlement.core.model import executions
from settlement.core.model.request import parse_settlement
from tests.world.constants import (
    CLAIMED_AT,
    EXECUTION_ARN,
    HASH,
    KEY,
    LIMBO_AFTER,
    ORDER,
    REJECTED_BY_KYC,
    REVERSALS,
    SETTLEMENT_ARN,
    SPENT,
    STALLED_ORDER,
    WIRE,
)
from tests.world.contracts import checked_outcome
from tests.world.journal import journal
from tests.world.ledger import Ledger
from tests.world.orders import answered, request, taken
from tests.world.services import released

FORWARD = ("HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee")
WITH_SOURCE = ("HoldFunds", "RejectSettlement")
"""States that get the raw request, possibly without key, and the execution's ARN."""

OUTCOMES = ("CollectFee", "RejectSettlement")
"""States, besides ReportOutcome, that return an outcome."""

FILES = sorted((Path(__file__).parents[2] / "lambdas/handlers").glob("*/[a-z]*.py"))
HANDLERS: dict[str, Callable[[Any, Any], Any]] = {
    "".join(map(str.title, file.stem.split("_"))): import_module(
        f"handlers.{file.parent.name}.{file.stem}"
    ).handler
    for file in FILES
}
"""Every function, named after its state, or after its resource if no machine calls it."""

Found = dict[str, Any]
"""BeginCompensation's result."""


def failed_step(stuck: str) -> str:
    """Return the step whose reversal fails; for "nothing" it is the hold."""
    return "hold" if stuck == "nothing" else stuck


class Context:
    function_name = "under-test"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:under-test"
    aws_request_id = "4f0b2c9e-0000-4000-8000-000000000001"

    def __init__(self, left_ms: Iterator[int] | None = None) -> None:
        """Give each call its remaining time from `left_ms`; ample by default."""
        self._left_ms = left_ms or repeat(50_000)

    def get_remaining_time_in_millis(self) -> int:
        return next(self._left_ms)


def run(**more: float) -> dict[str, float]:
    ages = ("OldestInFlightSeconds", "RecoveryBehindSeconds", "OldestLimboSeconds")
    return {
        "StepCalled": len(PARTITIONS),
        **dict.fromkeys((*ages, "Recoveries", "LimboOpen", "ReviewsEnding"), 0),
        **more,
    }


@dataclass(frozen=True)
class Calls:
    ledger: Ledger
    handlers: dict[str, Callable[[Any, Any], Any]] = field(default_factory=lambda: HANDLERS)

    def __call__(self, state: str, settlement: Any = WIRE, **more: Any) -> Any:
        event = {"settlement": settlement, "execution": "execution-1", **more}
        if state in WITH_SOURCE:
            event.setdefault("execution_arn", f"{SETTLEMENT_ARN}:{event['execution']}")
        answer = self.handlers[state](event, Context())
        return checked_outcome(answer) if state in OUTCOMES else answer

    def order(self, decision: str, order: Any) -> dict[str, Any]:
        return taken(lambda event: self.handlers["TakeOrder"](event, Context()), decision, order)

    def raw_order(self, decision: str, body: Any) -> dict[str, Any]:
        return answered(self.handlers["TakeOrder"](request(decision, body, ORDER["by"]), Context()))

    def administer(self, order: Any) -> Any:
        return self.order(order["order"], order)

    def order_reversal(self, order: Any = ORDER, key: str = KEY) -> dict[str, Any]:
        return self.order("reverse", {"key": key, **order})

    def report(self, settlement: Any = WIRE, execution: str = "execution-1", **state: Any) -> Any:
        """Call ReportOutcome with the settlement and `state`.

        With an `Error` the state lacks the settlement, since a caught error replaces it.
        """
        event = {
            "settlement": settlement,
            "state": state if "Error" in state else {"settlement": settlement, **state},
            "execution": execution,
            "execution_arn": f"{SETTLEMENT_ARN}:{execution}",
        }
        return checked_outcome(self.handlers["ReportOutcome"](event, Context()))

    def before(self, state: str) -> None:
        """Open both accounts and run the happy path up to, but without, `state`."""
        assert state in FORWARD, f"{state} is no state of the happy path"
        self.ledger.open("alice", 10_000)
        self.ledger.open("bob", 500)
        for earlier in FORWARD:
            if earlier == state:
                return
            self(earlier, claimed_at=CLAIMED_AT)

    def after(self, state: str) -> Any:
        """Run the happy path including `state`; return its result."""
        self.before(state)
        return self(state, claimed_at=CLAIMED_AT)

    def claimed(self, settlement: Any = WIRE) -> str:
        """Open both accounts and claim as the start queue does; return the execution's name."""
        self.ledger.open("alice", 10_000)
        self.ledger.open("bob", 500)
        body = json.dumps(settlement)
        name = executions.queued(settlement["key"], body)
        if "StartSettlements" in self.handlers:
            assert self.receive(body) == []
        else:
            config = _dependencies.config
            claimed = parse_settlement(settlement, config)
            self.ledger.store.claim(forward.claim(claimed, name, _dependencies.now(), config))
        return name

    def begin(self, state: Any = None, *, reversal: Any = None, **more: Any) -> Found:
        """Call BeginCompensation with `state`, by default the settlement and `more`.

        If a `reversal` is given, order it first.
        """
        if reversal:
            self.order_reversal(reversal, more.get("settlement", WIRE)["key"])
            more["order"] = "reverse"
        return self.begin_as("compensation-1", {"settlement": WIRE, **more} if state is None else state)

    def begin_as(self, execution: str, state: Any) -> Found:
        found: Found = self.handlers["BeginCompensation"]({"state": state, "execution": execution}, Context())
        return found

    def reverse(self, state: str, found: Found, settlement: Any = WIRE) -> Any:
        more = {"steps": found["steps"]} if state == "VoidHold" else {}
        return self(state, settlement, execution="compensation-1", **more)

    def unwind(self, found: Found, before: str | None = None) -> None:
        """Run the due reversals in order, but stop before the state `before`."""
        due = {"RefundFee": found["fee_due"], "ReclaimFunds": found["release_due"], "VoidHold": True}
        for state in REVERSALS:
            if state == before:
                return
            if due[state]:
                self.reverse(state, found)

    def reopened(self, before: str) -> Found:
        """Settle, order a reversal, and run its states up to, but without, `before`."""
        self.after("CollectFee")
        found = self.begin(reversal=ORDER)
        self.unwind(found, before)
        return found

    def stuck(self, step: str = "release") -> Found:
        """Run a settlement and its reversal until the reversal of `step` is next."""
        if (last := LIMBO_AFTER[step]) is None:
            self.claimed()
        else:
            self.after(last)
        ordered = {"fee": {"reversal": ORDER}, "nothing": {"reversal": STALLED_ORDER}}
        found = self.begin(**ordered.get(step, {"error": REJECTED_BY_KYC}))
        self.unwind(found, {"fee": "RefundFee", "release": "ReclaimFunds"}.get(step, "VoidHold"))
        return found

    def fall(self, stuck: str = "release") -> Found:
        """Bring a settlement into LIMBO at the reversal of `stuck`."""
        found = self.stuck(stuck)
        self.limbo(found, step=failed_step(stuck))
        return found

    def limbo(
        self, found: Found, settlement: Any = WIRE, *, step: str = "release", error: Any = SPENT, **more: Any
    ) -> Any:
        """Call EnterLimbo after a failed reversal of `step`."""
        return self(
            "EnterLimbo",
            settlement,
            **{"case": found["case"], "reversed": found["reversed"], "stuck": {step: error}, **more},
        )

    def alert(self, state: Any) -> Any:
        event = {"state": state, "execution": "compensation-1", "execution_arn": EXECUTION_ARN}
        return self.handlers["PrepareAlert"](event, Context())

    def resolve(
        self,
        decision: Any,
        case: int = 1,
        settlement: Any = WIRE,
        execution: str = "compensation-1",
        **more: Any,
    ) -> Any:
        self.decide(decision, case, **more)
        return self("ResolveLimbo", settlement, execution=execution, resolution={"case": case}, case=case)

    def decide(self, decision: Any, case: Any = 1, **more: Any) -> dict[str, Any]:
        order = {"key": KEY, "case": case, "decision": decision, **ORDER, **more}
        return self.order(decision, order)

    def decided(self, event: Any) -> tuple[int, dict[str, str]]:
        answer = self.handlers["KycDecided"](event, Context())
        assert answer["headers"] == {"content-type": "application/json"}
        return answer["statusCode"], json.loads(answer["body"])

    def recover(self, left_ms: Iterator[int] | None = None) -> None:
        for partition in PARTITIONS:
            assert self.handlers["RecoverStalled"]({"partition": partition}, Context(left_ms)) is None

    def recover_now(self, key: Any = KEY, **more: Any) -> dict[str, Any]:
        """Call RecoverStalled for one settlement, as a person or, with an `owner`, as the webhook."""
        answer: dict[str, Any] = self.handlers["RecoverStalled"]({"key": key, **more}, Context())
        return answer

    def receive(self, *bodies: str, left_ms: Iterator[int] | None = None) -> list[str]:
        """Call StartSettlements with messages `m-0` and so on; return the failed ones."""
        records = [
            {"messageId": f"m-{number}", "body": body, "eventSource": "aws:sqs"}
            for number, body in enumerate(bodies)
        ]
        answer = self.handlers["StartSettlements"]({"Records": records}, Context(left_ms))
        return [failed["itemIdentifier"] for failed in answer["batchItemFailures"]]

    def account(self, name: str) -> Row:
        found = self.ledger.row(keys.account(name))
        assert found is not None
        return {attribute: found[attribute] for attribute in found if attribute not in ("pk", "sk")}

    def close(self, name: str) -> None:
        """Delete an account's row, which production code cannot do."""
        self.ledger.delete(keys.account(name))

    def entry(self, step: str) -> Row:
        """Return a step's entry or evidence without its key, `step` and `request_hash`."""
        found = dict(journal(self.ledger.rows(), KEY)[step])
        assert (found.pop("step"), found.pop("request_hash")) == (step, HASH)
        return {attribute: found[attribute] for attribute in found if attribute not in ("pk", "sk")}

    def entries(self) -> set[str]:
        return set(journal(self.ledger.rows(), KEY))

    def sweep(self, merchant: str) -> Any:
        return self.handlers["SweepMerchants"](
            released(keys.entry(merchant, CLAIMED_AT, KEY, "release")), Context()
        )

    def seal(self, pk: str) -> Any:
        """Call SealJournal with a deleted row's stream record."""
        image = {"pk": {"S": pk}, "sk": {"S": f"{CLAIMED_AT}#{KEY}:hold"}}
        change = {"ApproximateCreationDateTime": 1, "SequenceNumber": "1", "OldImage": image}
        record = {"eventName": "REMOVE", "dynamodb": change}
        return self.handlers["SealJournal"]({"Records": [record]}, Context())

    def row(self) -> Row:
        found = self.ledger.row(keys.settlement(KEY))
        assert found is not None
        return found

    def alter(self, **attributes: Any) -> None:
        """Overwrite attributes of the row, bypassing all conditions."""
        self.ledger.put(self.row() | attributes)

    @contextmanager
    def writes_nothing(self) -> Iterator[None]:
        before = self.ledger.rows()
        yield
        assert self.ledger.rows() == before
