import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import product

from settlement.accounts import administration
from settlement.core.ledger import entries, forward, keys, kyc_review, limbo, reversal
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import StepTransaction, Write
from settlement.core.model.case import Case
from settlement.core.model.orders import Decision, Resolution, Reversal
from settlement.core.model.state import SettlementState
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import compensation, recovery, steps
from settlement.orders import partial_reversal
from tests.unit.vectors import CONFIG, EXECUTION, ORDERS_ON_ACCOUNTS, PART_1, PART_2, SETTLEMENT, slots
from tests.world.constants import NONCE
from tests.world.environment import NOW
from tests.world.provider import APPROVED, IN_REVIEW, REJECTED
from tests.world.rooms import brought

FAILURE = {"step": "release", "error": "CapExceeded", "cause": "too much"}
CLAIMED: Row = forward.claim(SETTLEMENT, EXECUTION, NOW, CONFIG).parameters["Item"]
OVERDUE: Row = {"deadline_at": timestamp(NOW)}
STALLED = [
    SettlementState.from_row(CLAIMED | more)
    for more in (
        {},
        OVERDUE,
        OVERDUE | {"gsi1sk": timestamp(NOW - timedelta(hours=1))},
        OVERDUE | {"review": IN_REVIEW.reference},
        OVERDUE | slots({Step.HOLD, Step.VERIFY, Step.RELEASE}),
        {"status": Status.COMPENSATING},
        {"status": Status.LIMBO},
    )
]
"""A settlement in each state that recovery resumes."""

PARKING = kyc_review.begin_review(SETTLEMENT, IN_REVIEW, NOW + timedelta(days=1), NOW)
"""VerifyKyc's write that begins a review. No other step moves a settlement's index position."""

_WORDS = {"attribute_exists", "attribute_not_exists", "begins_with", "contains", "if_not_exists", "size"}
"""Lower-case words of DynamoDB expressions that are not attributes."""


def ordered(expected: Status) -> StepTransaction:
    order = Reversal(reason="paid twice", by="olga", expected_status=expected)
    return compensation.reverse_on_order(SETTLEMENT, order, NOW, CONFIG)


def reversing(step: Step) -> StepTransaction:
    return compensation.reverse_step(SETTLEMENT, step, NOW)


def stuck_at(step: Step, committed: set[Step]) -> Case:
    """Return the case of a reversal stuck at a step, after the preceding reversals."""
    earlier = set(REVERSIBLE[: REVERSIBLE.index(step)])
    state = SettlementState.from_row(
        CLAIMED
        | slots(committed, committed & earlier)
        | {
            "status": Status.LIMBO,
            "escrow": SETTLEMENT.fee if committed else 0,
            "stuck_step": step.reversal,
        }
    )
    return compensation.stuck_case(state)


def entering(case: Case) -> list[Write]:
    return [*compensation.enter_limbo(SETTLEMENT, case, FAILURE, NOW).writes]


def resolving(case: Case) -> list[Write]:
    decided = [Resolution(decision=each, reason="she paid", by="olga", case=1) for each in Decision]
    made = [compensation.resolve(SETTLEMENT, case, one, EXECUTION, NOW, CONFIG) for one in decided]
    return [write for transaction in made for write in transaction.writes]


def _recovering() -> Iterator[Write]:
    """Yield each takeover and its undo, and deferrals of running and broken settlements."""
    for state in STALLED:
        takeover = recovery.take_over(state, NOW, CONFIG, NONCE)
        assert takeover
        yield takeover.write
        yield recovery.postpone(state, NOW, CONFIG)
        yield recovery.give_back(state, timestamp(NOW))
    listed: Row = {**keys.settlement(SETTLEMENT.key), **keys.in_flight_index(SETTLEMENT.key, timestamp(NOW))}
    yield recovery.defer_unprocessable(listed, NOW)


def _all(*transactions: StepTransaction) -> list[Write]:
    return [write for transaction in transactions for write in transaction.writes]


_CASES = [stuck_at(step, committed) for step, committed in product(REVERSIBLE, (set(Step), set[Step]()))]
_EVENT = kyc_review.WebhookEvent("msg_1", "a-digest")

ORDERED = _all(ordered(Status.SETTLED), ordered(Status.PROCESSING))
FENCED = [
    reversal.begin(SETTLEMENT, FAILURE, owner=owner, execution="compensation") for owner in (EXECUTION, None)
]
"""BeginCompensation's writes, after an execution's error and for an order."""

WRITES: dict[str, list[Write]] = {
    "ReconcileBooks": [],
    "HoldFunds": [
        *_all(steps.claim_and_hold(SETTLEMENT, EXECUTION, NOW, CONFIG), steps.hold(SETTLEMENT, NOW)),
        forward.claim(SETTLEMENT, EXECUTION, NOW, CONFIG),
    ],
    "VerifyKyc": [
        *(entries.evidence(SETTLEMENT, Step.VERIFY, each.evidence(), NOW) for each in (APPROVED, REJECTED)),
        *(kyc_review.record_verdict(SETTLEMENT, each, NOW) for each in (APPROVED, REJECTED)),
        PARKING,
    ],
    "ReleaseFunds": _all(steps.release(SETTLEMENT, CONFIG, NOW)),
    "CollectFee": _all(steps.fee(SETTLEMENT, NOW)),
    "RejectSettlement": [
        reversal.tombstone(SETTLEMENT, EXECUTION, FAILURE, NOW),
        forward.reject(SETTLEMENT, FAILURE, NOW, owner=EXECUTION),
    ],
    "ReportOutcome": [],
    "BeginCompensation": [
        reversal.tombstone(SETTLEMENT, "compensation", FAILURE, NOW),
        *(forward.reject(SETTLEMENT, FAILURE, NOW, owner=owner) for owner in (EXECUTION, None)),
        *FENCED,
        reversal.assign_owner(SETTLEMENT, "compensation"),
    ],
    "RefundFee": _all(reversing(Step.FEE)),
    "ReclaimFunds": _all(reversing(Step.RELEASE)),
    "VoidHold": [*_all(reversing(Step.HOLD)), reversal.finish_unheld(SETTLEMENT, NOW)],
    "EnterLimbo": [write for case in _CASES for write in entering(case)],
    "PrepareAlert": [],
    "AwaitResolution": [limbo.await_decision(SETTLEMENT, 1, "token", "execution")],
    "ResolveLimbo": [],
    "KycDecided": [
        write
        for verdict in (APPROVED, REJECTED)
        for write in steps.record_webhook_verdict(SETTLEMENT, verdict, _EVENT, "owner", NOW, CONFIG)
    ],
    "RecoverStalled": [*_recovering()],
    "ReadSettlements": [],
    "SealJournal": [],
    "SendPage": [],
    "PublishEvents": [],
    "TakeOrder": [
        *ORDERED,
        *(
            write
            for part, layout in ((PART_1, 1), (PART_2, 1), (PART_1, 2), (PART_2, 2))
            for write in partial_reversal.reverse_part(SETTLEMENT, part, NOW, layout)
        ),
        *(write for case in _CASES for write in resolving(case)),
        *(write for order in ORDERS_ON_ACCOUNTS for write in administration.carry_out(order, NOW, CONFIG)),
    ],
}
"""Each function's writes, or none if it only reads."""

for _room in brought("infra", "writes"):
    for _function, _writes in _room.WRITES.items():
        WRITES.setdefault(_function, []).extend(_writes)

ALL = [write for of_function in WRITES.values() for write in of_function]
UPDATES = [write for write in ALL if write.action == "Update"]


def assigned(write: Write) -> set[str]:
    return _names(write, write.parameters["UpdateExpression"])


def named(write: Write) -> set[str]:
    """Return the attributes in an update's expressions. IAM also counts those in conditions."""
    return assigned(write) | _names(write, write.parameters["ConditionExpression"])


def names_in(expression: str, aliases: Mapping[str, str]) -> set[str]:
    words = set(re.findall(r"(?<![:\w])#?[a-z]\w*", expression))
    return {aliases.get(word, word) for word in words} - _WORDS


def _names(write: Write, expression: str) -> set[str]:
    return names_in(expression, write.parameters.get("ExpressionAttributeNames", {}))
