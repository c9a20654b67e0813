"""The refusals that a state's function may raise: the answers of its writes to every row that stops them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from settlement import compensation, conditions, items, limbo, reversals, reviews, steps
from settlement.limbo import Case
from settlement.resolution import Decision, Resolution, Reversal
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.writes import Posting, Standing, Write
from tests.conftest import NOW
from tests.statemachines.handlers import errors_raised
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED
from tests.unit.conditions import admits
from tests.unit.every_row import AFTER, rows_met_by
from tests.unit.vectors import EXECUTION, SETTLEMENT, TERMS

FAILURE = {"step": "verify", "error": "DeadlineExceeded", "cause": "too late"}
SEEN = (Status.SETTLED, Status.PROCESSING)
"""What a person may have seen who orders a reversal."""

CASE = Case(step=Step.RELEASE, account="bob", barred="bob", amount=4772, number=1, escrow=48)


@dataclass(frozen=True)
class Alone:
    """A write that is no part of a transaction."""

    write: Write

    @property
    def writes(self) -> tuple[Write, ...]:
        return (self.write,)


FORWARD = {
    "HoldFunds": [steps.hold(SETTLEMENT, NOW)],
    "VerifyKyc": [
        *(steps.verify(SETTLEMENT, verdict, NOW) for verdict in (APPROVED, REJECTED)),
        Alone(reviews.park(SETTLEMENT, IN_REVIEW, NOW + timedelta(days=1), NOW)),
    ],
    "ReleaseFunds": [steps.release(SETTLEMENT, TERMS, NOW)],
    "CollectFee": [steps.fee(SETTLEMENT, NOW)],
    "RejectSettlement": [Alone(items.reject(SETTLEMENT, FAILURE, NOW))],
}
"""What the functions of the settlement's states write; but for those in OWN, handlers add no refusal."""

ASKING = ("handlers/_provider", "handlers/_secrets", "settlement/kyc", "settlement/breaker")
"""Everything between VerifyKyc and the provider."""

WITHIN = {"_Refused", "ConnectTimeoutError", "other_content"}
"""What goes no further: the circuit and the client catch the first two of themselves, and the third makes the
IdempotencyConflict that writes answer with, too."""

OWN = {"VerifyKyc": errors_raised("handlers/verify_kyc", *ASKING) - WITHIN}
"""What else a state's function raises: what the provider's answer means, or that there is none."""


def _undo(step: Step) -> list[Posting]:
    made = [compensation.undo(SETTLEMENT, step, committed, (), NOW) for committed in ([step], [])]
    return [posting for posting in made if posting]


def _requested(seen: Status) -> Posting:
    order = Reversal(reason="the customer asks for it", by="olga", seen=seen)
    return compensation.requested(SETTLEMENT, order, NOW, TERMS)


def _resolve(decision: Decision) -> Posting:
    resolution = Resolution(decision=decision, reason="she paid", by="olga")
    return compensation.resolve(SETTLEMENT, CASE, resolution, EXECUTION, NOW, TERMS)


REVERSAL = {
    "RefundFee": _undo(Step.FEE),
    "ReclaimFunds": _undo(Step.RELEASE),
    "VoidHold": _undo(Step.HOLD),
}
"""What the reversals write, for a step that has committed and for one that has not."""

ORDERED = [_requested(seen) for seen in SEEN]
FENCED = [
    Alone(reversals.begin(SETTLEMENT, FAILURE, owner=owner, execution=EXECUTION))
    for owner in (EXECUTION, None)
]
"""What BeginCompensation writes, on a person's order and upon an error."""

LIMBO = {
    "EnterLimbo": [compensation.enter_limbo(SETTLEMENT, CASE, FAILURE, NOW)],
    "AwaitResolution": [Alone(limbo.await_decision(SETTLEMENT, "token", "arn"))],
    "ResolveLimbo": [_resolve(decision) for decision in Decision],
}
"""What else the compensation writes. Its handlers add refusals of their own."""


def raised(postings: Iterable[Posting | Alone]) -> set[str]:
    """The names of all refusals that the writes of these transactions may answer with."""
    return {
        type(answer).__name__
        for posting in postings
        for write in posting.writes
        for row in [None, *in_the_way_of(write)]
        if not admits(write, row) and not isinstance(answer := write.refusal(row), Standing)
    }


def in_the_way_of(write: Write) -> list[Row]:
    """The rows that there may be where a write goes."""
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
        if conditions.NOT_GIVEN_UP in write.parameters.get("ConditionExpression", ""):
            decided += [{"given_up_at": AFTER}]
        return [
            {"pk": key["pk"], "recoveries": 0} | row | mark for row in rows_met_by(write) for mark in decided
        ]
    return [{"pk": key["pk"], "request_hash": hash_} for hash_ in (SETTLEMENT.request_hash, "another")]
