"""Calls of every builder, whose results golden vectors record (recording.py) and whose writes proofs ask."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import ModuleType
from typing import Any, get_type_hints

from settlement import compensation, items, limbo, recovery, reversals, reviews, rows, steps
from settlement.limbo import Case
from settlement.recovery import Takeover
from settlement.request import Settlement
from settlement.resolution import Decision, Resolution, Reversal
from settlement.reviews import Event
from settlement.status import Status, Step
from settlement.terms import Terms
from settlement.verdict import KycDecision, Verdict
from settlement.writes import Posting, Transfer, Write
from tests.conftest import NOW

TERMS = Terms(
    currencies={"EUR": 2, "JPY": 0, "KWD": 3},
    highest_balances={"EUR": 100_000_000},
    fee_basis_points=100,
    deadline_seconds=900,
    recover_after_seconds=30,
)
"""Fixed here, so that a vector changes only where a builder does."""

SETTLEMENT = Settlement(
    key="order-2026-000101", payer="alice", payee="bob", amount=4820, currency="EUR", fee=48
)
IN_HASTE = replace(SETTLEMENT, key="order-2026-000103", deadline_seconds=600)
"""A payment by a request that names its own time to settle."""

YEN = Settlement(key="order-2026-000102", payer="chiyo", payee="daiki", amount=12_000, currency="JPY", fee=0)
VERDICT = Verdict(decision=KycDecision.APPROVED, reference="ref-1", reason="known customers", provider="acme")
REJECTED = replace(VERDICT, decision=KycDecision.REJECTED, reason="a listed party")
IN_REVIEW = replace(VERDICT, decision=KycDecision.REVIEW, reason="a person looks at it")
EVENT = Event(id="evt-1", digest="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
EXECUTION = "execution-1"
REVERSER = f"{SETTLEMENT.key}-compensate-0"
"""The execution that reverses the settlement."""

RESOLVER = f"{SETTLEMENT.key}-resolve-1"
"""The execution that carries out a person's decision on it."""

DECIDER = f"{SETTLEMENT.key}-decided"
REVIEW_ENDS = NOW + timedelta(days=1)
LISTED = "2026-11-20T11:59:30.000Z"
"""When the index has it that the settlement is due."""
ESCROW = "escrow:order-2026-000101"

Built = Write | Posting | tuple[Write, ...] | Takeover
"""What a builder may build."""


@dataclass(frozen=True)
class Vector:
    """One call of a builder. Its name says which builder and, where there are several, which variant."""

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
    return Vector(items.transfer_entry, (SETTLEMENT, step, transfer, NOW), variant=step.value)


def _advance(step: Step, escrow_change: int) -> Vector:
    options = {"escrow_change": escrow_change, "now": NOW}
    return Vector(items.advance, (SETTLEMENT, step), options, step.value)


ITEMS = (
    Vector(items.claim, (SETTLEMENT, "order-2026-000101-execution", NOW, TERMS)),
    Vector(items.claim, (IN_HASTE, "order-2026-000101-execution", NOW, TERMS), variant="deadline"),
    Vector(
        items.reject,
        (SETTLEMENT, {"step": "hold", "error": "InsufficientFunds", "cause": "too little"}, NOW),
    ),
    _transfer(Step.HOLD, "alice", ESCROW, 4820),
    _transfer(Step.RELEASE, ESCROW, "bob", 4772),
    _transfer(Step.FEE, ESCROW, "fees:EUR", 48),
    Vector(items.evidence_entry, (SETTLEMENT, Step.VERIFY, VERDICT.evidence(), NOW)),
    _advance(Step.HOLD, 4820),
    _advance(Step.VERIFY, 0),
    _advance(Step.RELEASE, -4772),
    _advance(Step.FEE, -48),
    Vector(items.debit_payer, (SETTLEMENT,)),
    Vector(items.credit_payee, (SETTLEMENT, 100_000_000), variant="capped"),
    Vector(items.credit_payee, (SETTLEMENT, None), variant="uncapped"),
    Vector(items.open_account, ("alice", "EUR", 10_000)),
    Vector(items.deposit_entry, ("open-alice", "alice", 10_000, "EUR", NOW)),
)


FAILURE = {"step": "compensate:release", "error": "InsufficientFunds", "cause": "too little"}
ORDER = Reversal(reason="paid twice", by="arn:aws:iam::000000000000:user/carol")
ABANDONED = replace(ORDER, seen=Status.PROCESSING)
ORDERS = {order.seen: order for order in (ORDER, ABANDONED)}
"""A person's orders, by what the settlement was when they looked at it."""

CASES = {
    Step.FEE: Case(step=Step.FEE, account="fees:EUR", barred=None, amount=48, number=1, escrow=0),
    Step.RELEASE: Case(step=Step.RELEASE, account="bob", barred="bob", amount=4772, number=1, escrow=48),
    Step.HOLD: Case(step=Step.HOLD, account="alice", barred="alice", amount=4820, number=2, escrow=4820),
}
DONE = Case(step=Step.FEE, account="fees:EUR", barred=None, amount=0, number=1, escrow=48, done=True)


def resolution(decision: Decision) -> Resolution:
    return Resolution(reason=ORDER.reason, by=ORDER.by, decision=decision)


def _undo(step: Step, escrow_change: int) -> Vector:
    return Vector(
        reversals.undo, (SETTLEMENT, step), {"escrow_change": escrow_change, "now": NOW}, step.value
    )


def _leave(decision: Decision, step: Step) -> Vector:
    arguments = (SETTLEMENT, CASES[step], resolution(decision), RESOLVER, NOW, TERMS)
    return Vector(limbo.leave, arguments, variant=f"{decision.value}.{step.value}")


REVERSALS = (
    Vector(reversals.refuse_unclaimed, (SETTLEMENT, "execution", FAILURE, NOW)),
    Vector(reversals.begin, (SETTLEMENT, FAILURE), {"owner": None, "execution": REVERSER}),
    Vector(reversals.begin, (SETTLEMENT, FAILURE), {"owner": EXECUTION, "execution": REVERSER}, "owned"),
    *(
        Vector(reversals.reopen, (SETTLEMENT, seen, FAILURE, NOW, TERMS), variant=seen.lower())
        for seen in ORDERS
    ),
    Vector(reversals.drive, (SETTLEMENT, REVERSER)),
    _undo(Step.FEE, 48),
    _undo(Step.RELEASE, 4772),
    _undo(Step.HOLD, -4820),
    Vector(reversals.conclude, (SETTLEMENT, NOW)),
    *(Vector(reversals.pass_over, (SETTLEMENT, step), variant=step) for step in (Step.FEE, Step.RELEASE)),
    Vector(reversals.debit_payee, (SETTLEMENT,)),
    Vector(reversals.credit_payer, (SETTLEMENT,)),
)

LIMBO = (
    *(Vector(limbo.enter, (SETTLEMENT, CASES[step], FAILURE, NOW), variant=step.value) for step in CASES),
    Vector(limbo.enter, (SETTLEMENT, DONE, FAILURE, NOW), variant="fee.done"),
    Vector(limbo.flag, ("bob", SETTLEMENT.key)),
    Vector(limbo.unflag, ("bob", SETTLEMENT.key)),
    Vector(limbo.await_decision, (SETTLEMENT, "token-1", "arn:aws:states:::execution:comp:e1")),
    _leave(Decision.RETRY, Step.RELEASE),
    _leave(Decision.RETRY, Step.HOLD),
    _leave(Decision.WRITE_OFF, Step.FEE),
    _leave(Decision.WRITE_OFF, Step.RELEASE),
    _leave(Decision.COMPLETE, Step.FEE),
    _leave(Decision.COMPLETE, Step.RELEASE),
)

VERDICTS = {"approved": VERDICT, "rejected": REJECTED}
"""What may be decided, by the variant of a vector."""

REVIEWS = (
    *(Vector(reviews.conclude, (SETTLEMENT, said, NOW), variant=how) for how, said in VERDICTS.items()),
    Vector(reviews.park, (SETTLEMENT, IN_REVIEW, REVIEW_ENDS, NOW)),
    *(
        Vector(reviews.decide, (SETTLEMENT, said, DECIDER, NOW, TERMS), variant=how)
        for how, said in VERDICTS.items()
    ),
    Vector(reviews.decide, (IN_HASTE, VERDICT, DECIDER, NOW, TERMS), variant="approved.deadline"),
    Vector(reviews.event_marker, (EVENT, SETTLEMENT, NOW)),
    *(Vector(reviews.verdict_entry, (SETTLEMENT, said, NOW), variant=how) for how, said in VERDICTS.items()),
)

STALLED = {
    **rows.settlement_key(SETTLEMENT.key),
    **rows.in_flight_index(SETTLEMENT.key, LISTED),
    **SETTLEMENT.to_row(),
    "status": Status.PROCESSING,
    "steps": {Step.HOLD},
    "claimed_at": LISTED,
    "deadline_at": rows.timestamp(NOW + timedelta(seconds=45)),
    "owner": EXECUTION,
    "recoveries": 0,
}
"""A settlement that nobody has driven on since it was due. Its next look would be past its deadline."""

_LATE = {"deadline_at": rows.timestamp(NOW)}
STANDS = {
    "processing": {},
    "processing.released": {"steps": {Step.HOLD, Step.VERIFY, Step.RELEASE}} | _LATE,
    "processing.overdue": _LATE,
    "processing.review_over": {"review": VERDICT.reference} | _LATE,
    "compensating": {"status": Status.COMPENSATING} | _LATE,
    "limbo": {"status": Status.LIMBO, **rows.limbo_index(LISTED)} | _LATE,
}
"""How a settlement may stand that recovery takes over, by the variant of a vector."""

RECOVERY = (
    *(
        Vector(recovery.take_over, (STALLED | stands, NOW, TERMS), variant=how)
        for how, stands in STANDS.items()
    ),
    Vector(recovery.postpone, (STALLED | STANDS["compensating"], NOW, TERMS)),
    Vector(recovery.set_aside, ({name: STALLED[name] for name in ("pk", "sk", "gsi1sk")}, NOW)),
)

STEPS = (
    Vector(steps.hold, (SETTLEMENT, NOW)),
    Vector(steps.verify, (SETTLEMENT, VERDICT, NOW)),
    Vector(steps.verify, (SETTLEMENT, REJECTED, NOW), variant="rejected"),
    *(
        Vector(steps.verdict_received, (SETTLEMENT, said, EVENT, DECIDER, NOW, TERMS), variant=how)
        for how, said in VERDICTS.items()
    ),
    Vector(steps.release, (SETTLEMENT, TERMS, NOW), variant="capped"),
    Vector(steps.release, (YEN, TERMS, NOW), variant="uncapped"),
    Vector(steps.fee, (SETTLEMENT, NOW)),
    Vector(steps.fee, (YEN, NOW), variant="none"),
)


def _reverse(step: Step, committed: Iterable[str], what: str) -> Vector:
    return Vector(compensation.undo, (SETTLEMENT, step, list(committed), [], NOW), variant=f"{step}.{what}")


def _stuck(step: Step, *, barred: bool = True) -> Vector:
    case = CASES[step] if barred else replace(CASES[step], barred=None)
    variant = step.value + ".unbarred" * (not barred)
    return Vector(compensation.enter_limbo, (SETTLEMENT, case, FAILURE, NOW), variant=variant)


def _resolve(decision: Decision, step: Step, *, barred: bool = True) -> Vector:
    case = CASES[step] if barred else replace(CASES[step], barred=None)
    arguments = (SETTLEMENT, case, resolution(decision), RESOLVER, NOW, TERMS)
    variant = f"{decision.value}.{step.value}" + ".unbarred" * (not barred)
    return Vector(compensation.resolve, arguments, variant=variant)


COMPENSATION = (
    *(
        Vector(compensation.requested, (SETTLEMENT, order, NOW, TERMS), variant=seen.lower())
        for seen, order in ORDERS.items()
    ),
    *(_reverse(step, Step, "reversed") for step in CASES),
    *(_reverse(step, (), "skipped") for step in CASES),
    *(_stuck(step) for step in CASES),
    _stuck(Step.HOLD, barred=False),
    _resolve(Decision.RETRY, Step.RELEASE),
    _resolve(Decision.RETRY, Step.HOLD, barred=False),
    _resolve(Decision.WRITE_OFF, Step.FEE),
    _resolve(Decision.WRITE_OFF, Step.RELEASE),
    _resolve(Decision.COMPLETE, Step.RELEASE),
)

BUILDERS = {items: ITEMS, reversals: REVERSALS, limbo: LIMBO, reviews: REVIEWS, recovery: RECOVERY}
"""Each module that builds single writes, with its vectors."""

POSTERS = {steps: STEPS, compensation: COMPENSATION}
"""Each module that builds transactions, with its vectors."""

ALL = tuple(vector for module in (BUILDERS | POSTERS).values() for vector in module)


TRANSACTIONS = (Posting, Posting | None, tuple[Write, ...])
"""What those return that build a transaction: a step's, or one of other rows as well."""


def writes_of(built: Built) -> tuple[Write, ...]:
    """The writes of whatever a builder builds, in their order."""
    if isinstance(built, Write):
        return (built,)
    if isinstance(built, Takeover):
        return (built.write,)
    return built.writes if isinstance(built, Posting) else built


def only_write(built: Built) -> Write:
    """The one write of what builds no more."""
    (write,) = writes_of(built)
    return write


def named_writes() -> dict[str, Write]:
    """Every write that any vector builds, by the vector's name and its position in the transaction."""
    found = {vector.name: only_write(vector.build()) for module in BUILDERS.values() for vector in module}
    for module in POSTERS.values():
        for vector in module:
            parts = enumerate(writes_of(vector.build()))
            found |= {f"{vector.name}[{position}]": write for position, write in parts}
    return found


def settlement_writes() -> dict[str, Write]:
    """Those of them that write a settlement's row, which is where its status is."""
    row = rows.settlement_key(SETTLEMENT.key)["sk"]
    return {
        name: write
        for name, write in named_writes().items()
        if (write.parameters.get("Key") or write.parameters["Item"])["sk"] == row
    }


def builders(module: ModuleType) -> set[str]:
    """The functions of a module that build a write or a transaction for others."""
    functions = inspect.getmembers(module, inspect.isfunction)
    return {
        name
        for name, function in functions
        if function.__module__ == module.__name__
        and not name.startswith("_")
        and get_type_hints(function)["return"] in (Write, Takeover | None, *TRANSACTIONS)
    }


def built_by(vectors: Iterable[Vector]) -> set[str]:
    """The builders that have a vector."""
    return {vector.builder.__name__ for vector in vectors}
