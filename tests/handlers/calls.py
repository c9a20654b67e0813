"""How the tests call a handler: as Lambda does, with what the state machine passes."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import pytest

from settlement import rows
from settlement.rows import Row
from tests.conftest import Ledger

KEY = "order-2026-000101"
WIRE = {"key": KEY, "payer": "alice", "payee": "bob", "amount": "48.20", "currency": "EUR", "fee": "0.48"}
"""The settlement in the canonical form in which the machine carries it."""

HASH = "d13463c1e640ed9114f62760da3142c9e498ad261d55a5451e18c3ede91227a2"
"""Of that settlement's content."""

OTHER_CONTENT = [
    WIRE | {"amount": "48.21"},
    WIRE | {"fee": "0.49"},
    WIRE | {"payer": "carol"},
    WIRE | {"payee": "carol"},
    WIRE | {"currency": "USD"},
]
CLAIMED_AT = "2026-11-20T12:00:00.123Z"
LATER_AT = "2026-11-20T12:00:07.123Z"

MALFORMED = [
    pytest.param(None, "request: must be a JSON object", id="null"),
    pytest.param([WIRE], "request: must be a JSON object", id="a list"),
    pytest.param("48.20", "request: must be a JSON object", id="a text"),
    pytest.param({}, "amount: missing; currency: missing; key: missing", id="nothing in it"),
    pytest.param(WIRE | {"note": "x"}, "note: unknown field", id="an unknown field"),
    pytest.param(WIRE | {"amount": 48.2}, "amount: must be a decimal string", id="a number as amount"),
    pytest.param(WIRE | {"fee": None}, "fee: must be a decimal string", id="null as fee"),
    pytest.param(WIRE | {"fee": "48.20"}, "fee: must be less than the amount", id="all of it a fee"),
    pytest.param(WIRE | {"currency": ["EUR"]}, "currency: must be one of", id="a list as currency"),
    pytest.param(WIRE | {"key": "too-short"}, "key: must be a string", id="a short key"),
    pytest.param(WIRE | {"payee": "alice"}, "payee: must be another account", id="to oneself"),
    pytest.param(WIRE | {"payee": "fees:EUR"}, "payee: must be a string", id="to an internal account"),
]
WITHOUT_FEE = {name: text for name, text in WIRE.items() if name != "fee"}
MALFORMED_SETTLEMENTS = [
    *MALFORMED,
    pytest.param(WITHOUT_FEE, "fee: missing; a claimed settlement names its fee", id="no fee"),
]
"""What no handler after the claim may take for a settlement, and what it says."""


EXECUTION_ARN = "arn:aws:states:eu-west-1:123456789012:execution:Compensation:compensation-1"
REJECTED_BY_KYC = {
    "Error": "KycRejected",
    "Cause": json.dumps({"errorMessage": "kyc: the provider says no", "errorType": "KycRejected"}),
}
"""What stopped the settlement, as the settlement machine hands it on."""

SPENT = {
    "Error": "InsufficientFunds",
    "Cause": json.dumps({"errorMessage": "payee: has too little", "errorType": "InsufficientFunds"}),
}
"""What a reversal got stuck by, as the compensating machine hands it on."""

ORDER = {"reason": "sent to the wrong shop", "by": "arn:aws:iam::123456789012:user/ada"}
"""Why a person wants something done, and who they are."""

REVERSALS = {"RefundFee": "fee", "ReclaimFunds": "release", "VoidHold": "hold"}
"""The reversing states in their order, and the step that each reverses."""

STALLED_ORDER = {**ORDER, "seen": "PROCESSING"}
"""The same for what is in flight with nobody to drive it."""

LIMBO_AFTER = {"fee": "CollectFee", "release": "ReleaseFunds", "hold": "HoldFunds", "nothing": "ClaimKey"}
"""What commits last of a settlement whose next reversal is that of the named step, if it has any."""

STUCK_STEPS = list(LIMBO_AFTER)

Found = dict[str, Any]
"""The compensating machine's state, as BeginCompensation returns it."""


def failed_step(stuck: str) -> str:
    """The step whose reversal fails where `stuck` is due: with nothing held it is the hold's evidence."""
    return "hold" if stuck == "nothing" else stuck


class Context:
    """What Lambda tells a function about the invocation."""

    function_name = "under-test"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:under-test"
    aws_request_id = "4f0b2c9e-0000-4000-8000-000000000001"

    def __init__(self, left_ms: Iterator[int] | None = None) -> None:
        """`left_ms` is what is left of the invocation each time somebody asks; by default plenty."""
        self._left_ms = left_ms or repeat(50_000)

    def get_remaining_time_in_millis(self) -> int:
        return next(self._left_ms)


def run(**told: float) -> dict[str, float]:
    """What a run of RecoverStalled counts that finds nothing to do, and what it counts besides or instead."""
    gauges = {"OldestInFlightSeconds": 0, "Recoveries": 0, "LimboOpen": 0, "OldestLimboSeconds": 0}
    return {"StepCalled": 1, **gauges, **told}


@dataclass(frozen=True)
class Calls:
    """The handlers of one stage, called by name over one fresh table."""

    ledger: Ledger
    handlers: dict[str, Callable[[Any, Any], Any]] = field(default_factory=dict)

    def __call__(self, state: str, settlement: Any = WIRE, **more: Any) -> Any:
        """Call the function of a state for execution `execution-1`, unless `more` says another."""
        return self.handlers[state]({"settlement": settlement, "execution": "execution-1", **more}, Context())

    def before(self, state: str) -> None:
        """Open both accounts and run the happy path up to, and without, `state`."""
        self.ledger.open("alice", 10_000)
        self.ledger.open("bob", 500)
        for earlier in ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"):
            if earlier == state:
                return
            self(earlier, claimed_at=CLAIMED_AT)

    def after(self, state: str) -> Any:
        """As `before`, and then run `state`; return its result."""
        self.before(state)
        return self(state, claimed_at=CLAIMED_AT)

    def begin(self, state: Any = None, **more: Any) -> Found:
        """Call BeginCompensation with `state`, or with the settlement and `more`."""
        return self.begin_as("compensation-1", {"settlement": WIRE, **more} if state is None else state)

    def begin_as(self, execution: str, state: Any) -> Found:
        """Call BeginCompensation with `state` for an execution."""
        found: Found = self.handlers["BeginCompensation"]({"state": state, "execution": execution}, Context())
        return found

    def undo(self, state: str, found: Found, settlement: Any = WIRE) -> Any:
        """Call a reversing state with what BeginCompensation has found."""
        return self(
            state,
            settlement,
            execution="compensation-1",
            steps=found["steps"],
            reversed=found["reversed"],
        )

    def unwind(self, found: Found, before: str | None = None) -> None:
        """Run the reversing states in order, all of them or those in front of `before`."""
        for state in REVERSALS:
            if state == before:
                return
            self.undo(state, found)

    def reopened(self, before: str) -> Found:
        """Settle, begin to reverse that on a person's word, and run what comes in front of `before`."""
        self.after("CollectFee")
        found = self.begin(reversal=ORDER)
        self.unwind(found, before)
        return found

    def fall(self, stuck: str = "release") -> Found:
        """Run a settlement until the reversal of `stuck` is due, and put it into LIMBO there."""
        self.after(LIMBO_AFTER[stuck])
        found = self.begin(**({"reversal": ORDER} if stuck == "fee" else {"error": REJECTED_BY_KYC}))
        self.unwind(found, {"fee": "RefundFee", "release": "ReclaimFunds"}.get(stuck, "VoidHold"))
        self.limbo(found, step=failed_step(stuck))
        return found

    def limbo(
        self, found: Found, settlement: Any = WIRE, *, step: str = "release", error: Any = SPENT, **more: Any
    ) -> Any:
        """Call EnterLimbo for the case that BeginCompensation has found, as the reversal of `step` failed."""
        return self(
            "EnterLimbo",
            settlement,
            **{"case": found["case"], "reversed": found["reversed"], "stuck": {step: error}, **more},
        )

    def page(self, state: Any) -> Any:
        """Call PreparePage with the machine's state."""
        event = {"state": state, "execution": "compensation-1", "execution_arn": EXECUTION_ARN}
        return self.handlers["PreparePage"](event, Context())

    def resolve(
        self,
        decision: Any,
        case: int = 1,
        settlement: Any = WIRE,
        execution: str = "compensation-1",
        **more: Any,
    ) -> Any:
        """Call ResolveLimbo with a person's decision on a case."""
        resolution = {**ORDER, "decision": decision, **more}
        return self("ResolveLimbo", settlement, execution=execution, resolution=resolution, case=case)

    def decided(self, event: Any) -> tuple[int, dict[str, str]]:
        """Hand KycDecided a request as its function URL does; return the status and what the body says."""
        answer = self.handlers["KycDecided"](event, Context())
        assert answer["headers"] == {"content-type": "application/json"}
        return answer["statusCode"], json.loads(answer["body"])

    def recover(self, left_ms: Iterator[int] | None = None) -> None:
        """Call RecoverStalled as its schedule does."""
        assert self.handlers["RecoverStalled"]({}, Context(left_ms)) is None

    def recover_now(self, key: Any = KEY) -> dict[str, Any]:
        """Call RecoverStalled for one settlement, as a person does."""
        answer: dict[str, Any] = self.handlers["RecoverStalled"]({"key": key}, Context())
        return answer

    def receive(self, *bodies: str, left_ms: Iterator[int] | None = None) -> list[str]:
        """Hand StartSettlements a batch of messages, `m-0` and so on; return those that failed."""
        records = [
            {"messageId": f"m-{number}", "body": body, "eventSource": "aws:sqs"}
            for number, body in enumerate(bodies)
        ]
        answer = self.handlers["StartSettlements"]({"Records": records}, Context(left_ms))
        return [failed["itemIdentifier"] for failed in answer["batchItemFailures"]]

    def account(self, name: str) -> Row:
        found = self.ledger.row(rows.account_key(name))
        assert found is not None
        return {attribute: found[attribute] for attribute in found if attribute not in ("pk", "sk")}

    def close(self, name: str) -> None:
        """Take an account away, which no production code can do."""
        key = {attribute: {"S": value} for attribute, value in rows.account_key(name).items()}
        self.ledger.client.delete_item(TableName=self.ledger.table_name, Key=key)

    def entry(self, step: str) -> Row:
        """What is particular to the settlement's journal entry of a step."""
        found = self.ledger.row(rows.entry_key(KEY, step))
        assert found is not None
        assert (found.pop("step"), found.pop("request_hash")) == (step, HASH)
        return {attribute: found[attribute] for attribute in found if attribute not in ("pk", "sk")}

    def entries(self) -> set[str]:
        """Which journal entries the settlement has."""
        own = (row for row in self.ledger.rows() if row["pk"] == f"SETTLEMENT#{KEY}")
        return {row["step"] for row in own if row["sk"] != "SETTLEMENT"}

    def row(self) -> Row:
        found = self.ledger.row(rows.settlement_key(KEY))
        assert found is not None
        return found

    def alter(self, **attributes: Any) -> None:
        """Overwrite attributes of the settlement's row, past every condition."""
        self.ledger.put(self.row() | attributes)

    @contextmanager
    def writes_nothing(self) -> Iterator[None]:
        """Demand that the table is the same, row by row, before and after."""
        before = self.ledger.rows()
        yield
        assert self.ledger.rows() == before
