"""Calls all builders: recording.py compares the results, and the proofs examine the writes."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any, get_type_hints

from settlement.accounts import account_orders, administration
from settlement.accounts.order import AccountOrder, OrderKind
from settlement.core.ledger import balances, entries, forward, keys, kyc_review, limbo, reversal, takeover
from settlement.core.ledger.conditions import not_committed, overdue
from settlement.core.ledger.keys import Row
from settlement.core.ledger.kyc_review import WebhookEvent
from settlement.core.ledger.transaction import StepTransaction, Transfer, Write
from settlement.core.model.case import Case
from settlement.core.model.orders import Decision, Resolution, Reversal
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.core.model.verdict import KycDecision, Verdict
from settlement.core.policy import compensation, recovery, steps
from settlement.core.policy.recovery import Takeover
from settlement.http.caller import Caller
from settlement.orders import partial_reversal, parts, proposals
from settlement.orders.proposal import Move, Proposal
from settlement.orders.requests import PartialReversal
from tests.world.constants import NONCE
from tests.world.environment import NOW
from tests.world.rooms import brought

CONFIG = StageConfig(
    currencies={"EUR": 2, "JPY": 0, "KWD": 3},
    highest_balances={"EUR": 100_000_000},
    fee_basis_points=100,
    deadline_seconds=900,
    recover_after_seconds=30,
)
"""The vectors' configuration, fixed here so that a vector changes only with its builder."""

SETTLEMENT = Settlement(
    key="order-2026-000101", payer="alice", payee="bob", amount=4820, currency="EUR", fee=48
)
IN_HASTE = replace(SETTLEMENT, key="order-2026-000103", deadline_seconds=600)

YEN = Settlement(key="order-2026-000102", payer="chiyo", payee="daiki", amount=12_000, currency="JPY", fee=0)
VERDICT = Verdict(decision=KycDecision.APPROVED, reference="ref-1", reason="known customers", provider="acme")
REJECTED = replace(VERDICT, decision=KycDecision.REJECTED, reason="a listed party")
IN_REVIEW = replace(VERDICT, decision=KycDecision.REVIEW, reason="a person looks at it")
EVENT = WebhookEvent(id="evt-1", digest="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
EXECUTION = "execution-1"
REVERSER = f"{SETTLEMENT.key}-c0-{NONCE}"

RESOLVER = f"{SETTLEMENT.key}-resolve-1"

DECIDER = f"{SETTLEMENT.key}-decided"
REVIEW_ENDS = NOW + timedelta(days=1)
LISTED = "2026-11-20T11:59:30.000Z"
"""Time of the next look in the index: the settlement is due."""
ESCROW = "escrow:order-2026-000101"

Built = Write | StepTransaction | tuple[Write, ...] | Takeover


@dataclass(frozen=True)
class Vector:
    """One call of a builder, named after the builder and, with several calls, the variant."""

    builder: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    variant: str = ""

    @property
    def name(self) -> str:
        module = self.builder.__module__.rpartition(".")[2]
        return ".".join(filter(None, (module, self.builder.__name__, self.variant)))

    def build(self) -> Any:
        return self.builder(*self.arguments, **self.options)


def _transfer(step: Step, debit: str, credit: str, amount: int) -> Vector:
    transfer = Transfer(debit=debit, credit=credit, amount=amount)
    return Vector(entries.transfer, (SETTLEMENT, step, transfer, NOW), variant=step.value)


def _advance(step: Step, escrow_change: int) -> Vector:
    options = {"escrow_change": escrow_change, "now": NOW}
    return Vector(forward.advance, (SETTLEMENT, step), options, step.value)


UNHELD = {"step": "hold", "error": "InsufficientFunds", "cause": "too little"}
FORWARD = (
    Vector(forward.claim, (SETTLEMENT, "order-2026-000101-execution", NOW, CONFIG)),
    Vector(forward.claim, (IN_HASTE, "order-2026-000101-execution", NOW, CONFIG), variant="deadline"),
    Vector(forward.claim_and_hold, (SETTLEMENT, EXECUTION, NOW, CONFIG)),
    _advance(Step.HOLD, 4820),
    _advance(Step.VERIFY, 0),
    _advance(Step.RELEASE, -4772),
    _advance(Step.FEE, -48),
    Vector(forward.reject, (SETTLEMENT, UNHELD, NOW)),
    Vector(forward.reject, (SETTLEMENT, UNHELD, NOW), {"owner": EXECUTION}, "owned"),
)

_BY: dict[str, Any] = {"by": "arn:aws:iam::000000000000:user/carol", "reason": "as agreed"}
OPENING = AccountOrder(key="open-account-0001", order=OrderKind.OPEN, account="alice", currency="EUR", **_BY)
DEPOSIT = AccountOrder(
    key="deposit-account-0001",
    order=OrderKind.DEPOSIT,
    account="alice",
    currency="EUR",
    amount=10_000,
    reference="bank-0001",
    **_BY,
)
WITHDRAWAL = replace(DEPOSIT, key="withdraw-account-0001", order=OrderKind.WITHDRAW, amount=500)
FREEZE, UNFREEZE, CLOSE = (
    AccountOrder(key=f"{order}-account-0001", order=order, account="alice", **_BY)
    for order in (OrderKind.FREEZE, OrderKind.UNFREEZE, OrderKind.CLOSE)
)
ORDERS_ON_ACCOUNTS = (OPENING, DEPOSIT, WITHDRAWAL, FREEZE, UNFREEZE, CLOSE)

TO_A_MERCHANT = replace(DEPOSIT, account="merchant.shop")

VERDICTS = {"approved": VERDICT, "rejected": REJECTED}

ENTRIES = (
    _transfer(Step.HOLD, "alice", ESCROW, 4820),
    _transfer(Step.RELEASE, ESCROW, "bob", 4772),
    _transfer(Step.FEE, ESCROW, "fees:EUR", 48),
    Vector(entries.evidence, (SETTLEMENT, Step.VERIFY, VERDICT.evidence(), NOW)),
)

BALANCES = (
    Vector(balances.debit_payer, (SETTLEMENT,)),
    Vector(balances.credit_payee, (SETTLEMENT, 100_000_000), variant="capped"),
    Vector(balances.credit_payee, (SETTLEMENT, None), variant="uncapped"),
    Vector(balances.debit_payee, (SETTLEMENT,)),
    Vector(balances.credit_payer, (SETTLEMENT,)),
    Vector(balances.debit_part, (SETTLEMENT, 500)),
    Vector(balances.credit_part, (SETTLEMENT, 500)),
    Vector(balances.block, ("bob",)),
    Vector(balances.unblock, ("bob",)),
)

ACCOUNT_ORDERS = (
    Vector(
        account_orders.external, (DEPOSIT, Transfer(debit="external:EUR", credit="alice", amount=10_000), NOW)
    ),
    Vector(
        account_orders.external,
        (WITHDRAWAL, Transfer(debit="alice", credit="external:EUR", amount=500), NOW),
        variant="withdraw",
    ),
    *(Vector(account_orders.record, (order, NOW), variant=order.order) for order in ORDERS_ON_ACCOUNTS),
    Vector(account_orders.open_account, (OPENING, NOW)),
    Vector(account_orders.deposit, (DEPOSIT, CONFIG), variant="capped"),
    Vector(account_orders.deposit, (TO_A_MERCHANT, CONFIG), variant="uncapped"),
    Vector(account_orders.withdraw, (WITHDRAWAL,)),
    Vector(account_orders.freeze, (FREEZE, NOW)),
    Vector(account_orders.unfreeze, (UNFREEZE,)),
    Vector(account_orders.close, (CLOSE, NOW)),
)


FAILURE = {"step": "compensate:release", "error": "InsufficientFunds", "cause": "too little"}
ORDER = Reversal(reason="paid twice", by="arn:aws:iam::000000000000:user/carol")
ABANDONED = replace(ORDER, expected_status=Status.PROCESSING)
ORDERS = {order.expected_status: order for order in (ORDER, ABANDONED)}

CASES = {
    Step.FEE: Case(step=Step.FEE, account="fees:EUR", blocked_account=None, amount=48, number=1, escrow=0),
    Step.RELEASE: Case(
        step=Step.RELEASE, account="bob", blocked_account="bob", amount=4772, number=1, escrow=48
    ),
    Step.HOLD: Case(
        step=Step.HOLD, account="alice", blocked_account="alice", amount=4820, number=2, escrow=4820
    ),
}
DONE = Case(step=Step.FEE, account="fees:EUR", blocked_account=None, amount=0, number=1, escrow=48, done=True)


def resolution(decision: Decision) -> Resolution:
    return Resolution(reason=ORDER.reason, by=ORDER.by, decision=decision, case=1)


def _reversed_step(step: Step, escrow_change: int) -> Vector:
    return Vector(
        reversal.reverse_step, (SETTLEMENT, step), {"escrow_change": escrow_change, "now": NOW}, step.value
    )


def _leave(decision: Decision, step: Step) -> Vector:
    arguments = (SETTLEMENT, CASES[step], resolution(decision), RESOLVER, NOW, CONFIG)
    return Vector(limbo.leave, arguments, variant=f"{decision.value}.{step.value}")


REVERSALS = (
    Vector(reversal.tombstone, (SETTLEMENT, "execution", FAILURE, NOW)),
    Vector(reversal.begin, (SETTLEMENT, FAILURE), {"owner": None, "execution": REVERSER}),
    Vector(reversal.begin, (SETTLEMENT, FAILURE), {"owner": EXECUTION, "execution": REVERSER}, "owned"),
    *(
        Vector(
            reversal.begin_on_order, (SETTLEMENT, expected, FAILURE, NOW, CONFIG), variant=expected.lower()
        )
        for expected in ORDERS
    ),
    Vector(reversal.assign_owner, (SETTLEMENT, REVERSER)),
    _reversed_step(Step.FEE, 48),
    _reversed_step(Step.RELEASE, 4772),
    _reversed_step(Step.HOLD, -4820),
    Vector(reversal.finish_unheld, (SETTLEMENT, NOW)),
)

PART_1, PART_2 = (
    PartialReversal(reason=f"sent {part} back", by="olga", part=part, amount=500 * part) for part in (1, 2)
)
"""The first reversal in part, and a later one, which adds to it."""

PARTS = (
    Vector(parts.record, (SETTLEMENT, PART_1, NOW)),
    *(
        Vector(parts.count, (SETTLEMENT, order, layout), variant=f"{variant}{named}")
        for layout, named in ((1, ""), (2, ".by-name"))
        for order, variant in ((PART_1, "first"), (PART_2, "later"))
    ),
)

LIMBO = (
    *(Vector(limbo.enter, (SETTLEMENT, CASES[step], FAILURE, NOW), variant=step.value) for step in CASES),
    Vector(limbo.enter, (SETTLEMENT, DONE, FAILURE, NOW), variant="fee.done"),
    Vector(limbo.await_decision, (SETTLEMENT, 2, "token-1", "arn:aws:states:::execution:comp:e1")),
    _leave(Decision.RETRY, Step.RELEASE),
    _leave(Decision.RETRY, Step.HOLD),
    _leave(Decision.WRITE_OFF, Step.FEE),
    _leave(Decision.WRITE_OFF, Step.RELEASE),
    _leave(Decision.COMPLETE, Step.FEE),
    _leave(Decision.COMPLETE, Step.RELEASE),
)

REVIEWS = (
    *(
        Vector(kyc_review.record_verdict, (SETTLEMENT, verdict, NOW), variant=variant)
        for variant, verdict in VERDICTS.items()
    ),
    Vector(kyc_review.begin_review, (SETTLEMENT, IN_REVIEW, REVIEW_ENDS, NOW)),
    *(
        Vector(kyc_review.end_review, (SETTLEMENT, verdict, DECIDER, NOW, CONFIG), variant=variant)
        for variant, verdict in VERDICTS.items()
    ),
    Vector(kyc_review.end_review, (IN_HASTE, VERDICT, DECIDER, NOW, CONFIG), variant="approved.deadline"),
    Vector(kyc_review.event_marker, (EVENT, SETTLEMENT, NOW)),
)


def slots(steps: Iterable[str], undone: Iterable[str] = (), at: datetime = NOW) -> Row:
    """Return a row's slots for the committed `steps` and the reversed ones, `undone`."""
    written = [*(Step(step).slot for step in steps), *(Step(step).reversal_slot for step in undone)]
    return dict.fromkeys(written, timestamp(at))


STALLED: Row = {
    **keys.settlement(SETTLEMENT.key),
    **keys.in_flight_index(SETTLEMENT.key, LISTED),
    **SETTLEMENT.to_row(),
    "status": Status.PROCESSING,
    "escrow": SETTLEMENT.amount,
    **slots({Step.HOLD}),
    "claimed_at": LISTED,
    "deadline_at": timestamp(NOW + timedelta(seconds=45)),
    "owner": EXECUTION,
    "owner_epoch": 0,
    "sequence": 1,
}
"""A stalled, never resumed settlement; its next look would be past its deadline."""

_LATE = {"deadline_at": timestamp(NOW)}
SITUATIONS: dict[str, Row] = {
    "processing": {},
    "processing.released": slots({Step.HOLD, Step.VERIFY, Step.RELEASE}) | _LATE,
    "processing.missed": _LATE,
    "processing.overdue": {"deadline_at": LISTED},
    "processing.review_over": {"review": VERDICT.reference} | _LATE,
    "compensating": {"status": Status.COMPENSATING} | _LATE,
    "limbo": {"status": Status.LIMBO, **keys.limbo_index(LISTED)} | _LATE,
}
"""Situations of a settlement that recovery takes over: changes of `STALLED` by vector variant."""


def _stalled(situation: str) -> SettlementState:
    return SettlementState.from_row(STALLED | SITUATIONS[situation])


PLACE = {name: STALLED[name] for name in ("pk", "sk", "gsi1sk")}

_OWNER, _AGAIN = f"{SETTLEMENT.key}-c1-{NONCE}", timestamp(NOW + timedelta(seconds=60))
TAKEOVER = (
    Vector(
        takeover.take_over,
        (_stalled("compensating"), _OWNER, {"gsi1sk": _AGAIN}),
        variant="compensating",
    ),
    Vector(
        takeover.take_over,
        (
            _stalled("processing.overdue"),
            _OWNER,
            {"gsi1sk": _AGAIN, "expired_at": timestamp(NOW)},
            [overdue(NOW), not_committed(Step.RELEASE)],
        ),
        variant="processing.overdue",
    ),
    Vector(takeover.look_again, (PLACE, NOW + timedelta(minutes=15))),
)

RECOVERY = (
    *(
        Vector(recovery.take_over, (_stalled(situation), NOW, CONFIG, NONCE), variant=situation)
        for situation in SITUATIONS
    ),
    Vector(recovery.give_back, (_stalled("compensating"), LISTED)),
    Vector(recovery.postpone, (_stalled("compensating"), NOW, CONFIG)),
    Vector(recovery.defer_unprocessable, (PLACE, NOW)),
)

STEPS = (
    Vector(steps.claim_and_hold, (SETTLEMENT, EXECUTION, NOW, CONFIG)),
    Vector(steps.hold, (SETTLEMENT, NOW)),
    *(
        Vector(
            steps.record_webhook_verdict, (SETTLEMENT, verdict, EVENT, DECIDER, NOW, CONFIG), variant=variant
        )
        for variant, verdict in VERDICTS.items()
    ),
    Vector(steps.release, (SETTLEMENT, CONFIG, NOW), variant="capped"),
    Vector(steps.release, (YEN, CONFIG, NOW), variant="uncapped"),
    Vector(steps.fee, (SETTLEMENT, NOW)),
    Vector(steps.fee, (YEN, NOW), variant="none"),
)


def _resolve(decision: Decision, case: Case, variant: str) -> Vector:
    arguments = (SETTLEMENT, case, resolution(decision), RESOLVER, NOW, CONFIG)
    return Vector(compensation.resolve, arguments, variant=f"{decision.value}.{variant}")


UNBLOCKED = replace(CASES[Step.HOLD], blocked_account=None)

COMPENSATION = (
    *(
        Vector(compensation.reverse_on_order, (SETTLEMENT, order, NOW, CONFIG), variant=expected.lower())
        for expected, order in ORDERS.items()
    ),
    *(Vector(compensation.reverse_step, (SETTLEMENT, step, NOW), variant=step) for step in CASES),
    *(
        Vector(compensation.enter_limbo, (SETTLEMENT, case, FAILURE, NOW), variant=variant)
        for variant, case in (*CASES.items(), ("hold.unblocked", UNBLOCKED))
    ),
    _resolve(Decision.RETRY, CASES[Step.RELEASE], "release"),
    _resolve(Decision.RETRY, UNBLOCKED, "hold.unblocked"),
    _resolve(Decision.WRITE_OFF, CASES[Step.FEE], "fee"),
    _resolve(Decision.WRITE_OFF, CASES[Step.RELEASE], "release"),
    _resolve(Decision.COMPLETE, CASES[Step.RELEASE], "release"),
)

ADA, BEA = (
    Caller(
        by=f"arn:aws:iam::123456789012:user/{name}", user_id=f"AIDA{name}", request_id="1", source_ip="::1"
    )
    for name in ("ada", "bea")
)
PROPOSED = Proposal(
    key=SETTLEMENT.key,
    decision="write-off",
    case=1,
    reason="the payee is insolvent",
    seen="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    proposal_number=2,
    proposer="ada",
    proposed_by=ADA.by,
    user_id=ADA.user_id,
    request_id=ADA.request_id,
    source_ip=ADA.source_ip,
    proposed_at=timestamp(NOW),
    valid_until=timestamp(NOW + timedelta(days=1)),
    needed=3,
    persons=frozenset({"ada"}),
)
PROPOSALS = (
    Vector(proposals.propose, (PROPOSED, None), variant="first"),
    Vector(proposals.propose, (PROPOSED, replace(PROPOSED, proposal_number=1)), variant="again"),
    Vector(
        proposals.propose,
        (replace(PROPOSED, decision="reverse-part", case=0, part=2, amount=500), None),
        variant="part",
    ),
    Vector(proposals.approve, (PROPOSED, BEA, NOW)),
    Vector(proposals.complete, (PROPOSED, BEA, NOW)),
    Vector(proposals.withdraw, (PROPOSED, BEA, NOW)),
    *(
        Vector(proposals.record, (SETTLEMENT, PROPOSED, move, ADA, NOW), variant=move)
        for move in (Move.PROPOSE, Move.APPROVE, Move.WITHDRAW)
    ),
)

BUILDERS: dict[ModuleType, tuple[Vector, ...]] = {
    forward: FORWARD,
    entries: ENTRIES,
    balances: BALANCES,
    account_orders: ACCOUNT_ORDERS,
    reversal: REVERSALS,
    parts: PARTS,
    limbo: LIMBO,
    proposals: PROPOSALS,
    kyc_review: REVIEWS,
    takeover: TAKEOVER,
    recovery: RECOVERY,
}

ADMINISTRATION = tuple(
    Vector(administration.carry_out, (order, NOW, CONFIG), variant=order.order)
    for order in ORDERS_ON_ACCOUNTS
)

PARTIAL_REVERSALS = (
    Vector(partial_reversal.reverse_part, (SETTLEMENT, PART_1, NOW, 1), variant="first"),
    Vector(partial_reversal.reverse_part, (SETTLEMENT, PART_2, NOW, 1), variant="later"),
)

POSTERS: dict[ModuleType, tuple[Vector, ...]] = {
    steps: STEPS,
    compensation: COMPENSATION,
    partial_reversal: PARTIAL_REVERSALS,
    administration: ADMINISTRATION,
}

for _room in brought("unit", "vectors"):
    BUILDERS |= _room.BUILDERS
    POSTERS |= _room.POSTERS

ALL = tuple(vector for module in (BUILDERS | POSTERS).values() for vector in module)


def writes_of(built: Built) -> tuple[Write, ...]:
    if isinstance(built, Write):
        return (built,)
    if isinstance(built, Takeover):
        return (built.write,)
    return built.writes if isinstance(built, StepTransaction) else built


def only_write(built: Built) -> Write:
    (write,) = writes_of(built)
    return write


def named_writes() -> dict[str, Write]:
    found = {vector.name: only_write(vector.build()) for module in BUILDERS.values() for vector in module}
    for vector in (vector for module in POSTERS.values() for vector in module):
        for position, write in enumerate(writes_of(vector.build())):
            found[f"{vector.name}[{position}]"] = write
    return found


def settlement_writes() -> dict[str, Write]:
    found: dict[str, Write] = {}
    for name, write in named_writes().items():
        known = [other.parameters for other in found.values()]
        key = write.parameters.get("Key") or write.parameters["Item"]
        if keys.is_settlement(key) and write.parameters not in known:
            found[name] = write
    return found


def builders(module: ModuleType) -> set[str]:
    return {
        name
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
        and not name.startswith("_")
        and re.search("Write|StepTransaction|Takeover", str(get_type_hints(function)["return"]))
    }
