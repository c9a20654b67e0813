from collections.abc import Iterator

from settlement.core.ledger.keys import Row
from settlement.core.model.layout import FIRST, PARTS_COUNTED_BY_NAME
from settlement.core.model.orders import Decision
from settlement.core.model.status import FINISHED, REVERSIBLE, Status, Step
from settlement.core.model.verdict import KycDecision
from settlement.proof.facts import SettlementFacts

COMPLETED = "SETTLED by a decision"
"""Shape of a row that was completed out of LIMBO, and keeps the marks of its reversal."""

_LISTED = frozenset({"gsi1pk", "gsi1sk"})
_REVERSAL = frozenset({"failure", "reversed_for", "resolutions"})
_IN_LIMBO = frozenset({"stuck_step", "recover_at"})
_CASES = _IN_LIMBO | {"resolution"}
_ENDED = frozenset({"finished_at"})
_REVERSED = frozenset(step.reversal_slot for step in REVERSIBLE)
_PARTS = frozenset({"parts", "reversals_in_part", "reversed_in_part", "layout"})
_STEPS = frozenset(step.slot for step in Step)
_REVIEW = frozenset({"review", "expired_at"})

_NEEDED: dict[str, frozenset[str]] = {
    Status.PROCESSING: _LISTED,
    Status.SETTLED: _STEPS | _ENDED | {"verdict"},
    COMPLETED: _ENDED | {"reversed_for", "resolutions", "resolution", "in_flight_since"},
    Status.REJECTED: _ENDED | {"failure"},
    Status.COMPENSATING: _LISTED | _REVERSAL,
    Status.COMPENSATED: _ENDED | _REVERSAL,
    Status.LIMBO: _LISTED | _REVERSAL | {"stuck_step"},
}
"""Attributes that each shape needs, in addition to the common attributes."""

_BARRED: dict[str, frozenset[str]] = {
    Status.PROCESSING: _REVERSAL | _CASES | _REVERSED | _ENDED | _PARTS | {Step.FEE.slot},
    Status.SETTLED: _LISTED | _REVERSAL | _CASES | _REVERSED | _REVIEW,
    COMPLETED: _LISTED | _IN_LIMBO | _REVIEW | _PARTS | {"failure"},
    Status.REJECTED: _LISTED
    | {"reversed_for", "resolutions", "verdict", "review", "in_flight_since", "waits", "answered"}
    | _CASES
    | _PARTS,
    Status.COMPENSATING: _ENDED | _IN_LIMBO | _PARTS | {Step.HOLD.reversal_slot},
    Status.COMPENSATED: _LISTED | _IN_LIMBO | _PARTS,
    Status.LIMBO: _ENDED | _PARTS | {Step.HOLD.reversal_slot},
}

_FORWARD = tuple(step.value for step in Step)
_REVERSIBLE = tuple(step.value for step in REVERSIBLE)
_HOLD, _VERIFY, _RELEASE, _FEE = _FORWARD
_TAKEN = {FIRST: _FORWARD, PARTS_COUNTED_BY_NAME: _FORWARD}
"""Steps of each layout, independent of the writers' table."""


def attribute_faults(row: Row, status: str, is_completed: bool) -> Iterator[str]:
    shape = COMPLETED if is_completed and status == Status.SETTLED else status
    missing = _NEEDED[shape] - row.keys()
    if missing and (missing := missing - _without(row.get("layout", FIRST))):
        yield f"is {status}, but has no {', '.join(sorted(missing))}"
    if barred := sorted(_BARRED[shape] & row.keys()):
        yield f"is {status}, but has {', '.join(barred)}"


def slot_faults(facts: SettlementFacts, layout: int) -> Iterator[str]:
    taken = steps_of(layout)
    forward = (facts.hold_at, facts.verify_at, facts.release_at, facts.fee_at)
    backward = (facts.fee_reversed_at, facts.release_reversed_at, facts.hold_reversed_at)
    is_usual = facts.status == Status.SETTLED and facts.escrow == 0 and None not in forward
    if is_usual and taken == _FORWARD and backward == _NONE and facts.verdict == _APPROVED:
        return
    steps = {step for step, at in zip(_FORWARD, forward, strict=True) if at is not None}
    reversed_ = {step for step, at in zip(_REVERSIBLE, backward, strict=True) if at is not None}
    if facts.escrow < 0:
        yield f"is below zero: {facts.escrow} {facts.currency} (minor units)"
    if facts.status in FINISHED and facts.escrow != 0:
        yield f"is {facts.status}, but holds {facts.escrow} {facts.currency} (minor units)"
    if facts.escrow != (held := _held(facts, steps, reversed_)):
        yield f"holds {facts.escrow} {facts.currency}, but its slots say {held} (minor units)"
    if steps != {*taken[: len(steps)]}:
        yield f"has only {sorted(steps)} committed, which is out of order"
    if not reversed_ <= steps:
        yield f"has {sorted(reversed_ - steps)} reversed, which never committed"
    if facts.verdict not in (None, _APPROVED, _REJECTED):
        yield f"its verdict is {facts.verdict}"
    if facts.verdict is not None and _HOLD not in steps:
        yield f"its verdict is {facts.verdict}, but nothing was held"
    yield from _status_faults(facts, {*taken}, steps, reversed_)


def steps_of(layout: int) -> tuple[str, ...]:
    return _TAKEN.get(layout, _FORWARD)


def _without(layout: int) -> frozenset[str]:
    return _STEPS - {f"{step}_at" for step in steps_of(layout)}


def _status_faults(
    facts: SettlementFacts, taken: set[str], steps: set[str], reversed_: set[str]
) -> Iterator[str]:
    needed = taken - {_FEE} if facts.resolution == Decision.COMPLETE else taken
    if facts.status == Status.SETTLED and not (needed <= steps and _RELEASE not in reversed_):
        yield f"is SETTLED, but only {sorted(steps - reversed_)} committed"
    if facts.status == Status.COMPENSATED and reversed_ != steps & {*_REVERSIBLE}:
        yield f"is COMPENSATED, but of {sorted(steps)} only {sorted(reversed_)} is reversed"
    if facts.status == Status.REJECTED and (steps or reversed_):
        yield f"is REJECTED, but {sorted(steps | reversed_)} committed"


def _held(facts: SettlementFacts, steps: set[str], reversed_: set[str]) -> int:
    if facts.status == Status.SETTLED and facts.resolution == Decision.COMPLETE:
        return 0
    moved = {_HOLD: facts.amount, _RELEASE: facts.fee - facts.amount, _FEE: -facts.fee}
    return sum(amount for step, amount in moved.items() if step in steps and step not in reversed_)


_NONE = (None, None, None)
_APPROVED, _REJECTED = KycDecision.APPROVED.value, KycDecision.REJECTED.value
