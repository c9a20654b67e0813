"""The refusals that a state's function may raise: those of its writes, for every state that stops one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from settlement.ledger import conditions, forward, kyc_review, limbo, reversal
from settlement.ledger.keys import Row
from settlement.ledger.transaction import AlreadyApplied, StepTransaction, Write
from settlement.model.case import Case
from settlement.model.orders import Decision, Resolution, Reversal
from settlement.model.state import AccountState, SettlementState
from settlement.model.status import Status, Step
from settlement.model.timestamps import timestamp
from settlement.policy import compensation, steps
from tests.conftest import NOW
from tests.statemachines.handlers import errors_raised
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED
from tests.unit.conditions import admits
from tests.unit.every_row import AFTER, rows_met_by
from tests.unit.vectors import CONFIG, EXECUTION, SETTLEMENT

_REST = SETTLEMENT.to_row() | {"owner": EXECUTION, "claimed_at": timestamp(NOW)}
"""The attributes of a settlement's row that no condition asks about."""

FAILURE = {"step": "verify", "error": "DeadlineExceeded", "cause": "too late"}
EXPECTED = (Status.SETTLED, Status.PROCESSING)
"""The statuses in which a person may see a settlement and order its reversal."""

CASE = Case(step=Step.RELEASE, account="bob", blocked_account="bob", amount=4772, number=1, escrow=48)


@dataclass(frozen=True)
class Alone:
    """A write outside a transaction."""

    write: Write

    @property
    def writes(self) -> tuple[Write, ...]:
        return (self.write,)


FORWARD = {
    "HoldFunds": [steps.hold(SETTLEMENT, NOW)],
    "VerifyKyc": [
        *(steps.verify(SETTLEMENT, verdict, NOW) for verdict in (APPROVED, REJECTED)),
        Alone(kyc_review.begin_review(SETTLEMENT, IN_REVIEW, NOW + timedelta(days=1), NOW)),
    ],
    "ReleaseFunds": [steps.release(SETTLEMENT, CONFIG, NOW)],
    "CollectFee": [steps.fee(SETTLEMENT, NOW)],
    "RejectSettlement": [Alone(forward.reject(SETTLEMENT, FAILURE, NOW))],
}
"""The writes of the settlement's functions. Only the handlers in OWN add refusals of their own."""

ASKING = (
    "handlers/_kyc",
    "handlers/_secrets",
    "settlement/adapters/kyc_client",
    "settlement/adapters/kyc_circuit",
)
"""The modules between VerifyKyc and the provider."""

WITHIN = {"_Refused", "ConnectTimeoutError", "IdempotencyConflict"}
"""Errors that add no refusal: the circuit and the client catch the first two, writes raise the third too."""

OWN = {"VerifyKyc": errors_raised("handlers/verify_kyc", *ASKING) - WITHIN}
"""The refusals that a handler adds: the meaning of the provider's answer, or of none."""


def _reverse(step: Step) -> list[StepTransaction]:
    made = [compensation.reverse_step(SETTLEMENT, step, committed, (), NOW) for committed in ([step], [])]
    return [transaction for transaction in made if transaction]


def _order(expected: Status) -> StepTransaction:
    order = Reversal(reason="the customer asks for it", by="olga", expected_status=expected)
    return compensation.reverse_on_order(SETTLEMENT, order, NOW, CONFIG)


def _resolve(decision: Decision) -> StepTransaction:
    resolution = Resolution(decision=decision, reason="she paid", by="olga")
    return compensation.resolve(SETTLEMENT, CASE, resolution, EXECUTION, NOW, CONFIG)


REVERSAL = {
    "RefundFee": _reverse(Step.FEE),
    "ReclaimFunds": _reverse(Step.RELEASE),
    "VoidHold": _reverse(Step.HOLD),
}
"""The writes of the reversals, for a step that has committed and for one that has not."""

ORDERED = [_order(expected) for expected in EXPECTED]
FENCED = [
    Alone(reversal.begin(SETTLEMENT, FAILURE, owner=owner, execution=EXECUTION))
    for owner in (EXECUTION, None)
]
"""The writes of BeginCompensation, on a person's order and after an error."""

LIMBO = {
    "EnterLimbo": [compensation.enter_limbo(SETTLEMENT, CASE, FAILURE, NOW)],
    "AwaitResolution": [Alone(limbo.await_decision(SETTLEMENT, "token", "arn"))],
    "ResolveLimbo": [_resolve(decision) for decision in Decision],
}
"""The other writes of the compensation. Their handlers add refusals of their own."""


def raised(transactions: Iterable[StepTransaction | Alone]) -> set[str]:
    """Return the names of all refusals that the writes of these transactions may raise."""
    return {
        type(answer).__name__
        for transaction in transactions
        for write in transaction.writes
        for row in [None, *in_the_way_of(write)]
        if not admits(write, row) and not isinstance(answer := meaning(write, row), AlreadyApplied)
    }


def meaning(write: Write, row: Row | None) -> Exception:
    """Return the meaning of the write's failed condition on a row, which the store passes on as a state."""
    if row is None:
        return write.on_failure(None)
    if row["pk"].startswith("ACCOUNT#"):
        return write.on_failure(AccountState.from_row(row))
    return write.on_failure(SettlementState.from_row(_REST | row) if "status" in row else row)


def in_the_way_of(write: Write) -> list[Row]:
    """Return the rows that may stand where a write goes."""
    key = write.parameters.get("Key") or write.parameters["Item"]
    if key["pk"].startswith("ACCOUNT#"):
        marks: list[Row] = [{}, {"limbo_keys": {"order-2026-000100"}}]
        return [
            {"pk": key["pk"], "currency": currency, "available": available} | mark
            for currency in ("EUR", "USD")
            for available in (0, 10_000, 100_000_000)
            for mark in marks
        ]
    if key["sk"] == "SETTLEMENT":
        decided: list[Row] = [{}]
        if "verdict" in write.parameters.get("ConditionExpression", ""):
            decided += [{"verdict": "APPROVED"}, {"verdict": "REJECTED"}, {"review": "ver_1"}]
        if conditions.NOT_EXPIRED.expression in write.parameters.get("ConditionExpression", ""):
            decided += [{"expired_at": AFTER}]
        return [
            {"pk": key["pk"], "owner_epoch": 0} | row | mark for row in rows_met_by(write) for mark in decided
        ]
    return [{"pk": key["pk"], "request_hash": hash_} for hash_ in (SETTLEMENT.request_hash, "another")]
