import re
from typing import Any

import pytest

from settlement.core.ledger.keys import Row
from settlement.core.model.orders import REVERSE
from settlement.core.model.status import Step
from settlement.core.model.stored import MalformedRow
from settlement.core.policy import outcome
from settlement.events.changes import Event, EventType, event
from tests.unit import states
from tests.unit.vectors import CONFIG, SETTLEMENT, slots

CLAIMED = states.row(sequence=1)
FAILED = {"step": "verify", "error": "KycRejected", "cause": "kyc: rejected"}
REVERSED = {"status": "COMPENSATING", "failure": FAILED, "reversed_for": FAILED}
HELD = CLAIMED | slots([Step.HOLD]) | {"sequence": 2, "escrow": SETTLEMENT.amount}
SETTLED = CLAIMED | slots(Step) | {"sequence": 5, "status": "SETTLED"}
UNDOING = SETTLED | REVERSED
STUCK = UNDOING | {"status": "LIMBO"}

CHANGES: list[tuple[Row | None, Row, EventType]] = [
    (None, CLAIMED, EventType.CLAIMED),
    (None, HELD | {"sequence": 1}, EventType.HELD),
    (None, CLAIMED | {"status": "REJECTED", "failure": FAILED}, EventType.REJECTED),
    (CLAIMED, HELD, EventType.HELD),
    (CLAIMED, {"status": "REJECTED", "failure": FAILED}, EventType.REJECTED),
    (HELD, {"review": "ver_1"}, EventType.IN_REVIEW),
    (HELD | {"review": "ver_1"}, slots([Step.VERIFY]), EventType.VERIFIED),
    (HELD | slots([Step.VERIFY]), slots([Step.RELEASE]), EventType.RELEASED),
    (HELD | slots([Step.VERIFY, Step.RELEASE]), slots([Step.FEE]) | {"status": "SETTLED"}, EventType.SETTLED),
    (HELD, REVERSED, EventType.COMPENSATING),
    (SETTLED, REVERSED | {"reversed_for": FAILED | {"step": REVERSE}}, EventType.REVERSAL_ORDERED),
    (SETTLED, {"parts": 1, "reversed_in_part": 5}, EventType.REVERSED_IN_PART),
    (UNDOING, slots((), [Step.FEE]), EventType.FEE_REFUNDED),
    (UNDOING, slots((), [Step.RELEASE]), EventType.RECLAIMED),
    (UNDOING, slots((), [Step.HOLD]) | {"status": "COMPENSATED"}, EventType.COMPENSATED),
    (UNDOING, {"status": "LIMBO"}, EventType.LIMBO),
    (STUCK, {"status": "COMPENSATING"} | slots((), [Step.RELEASE]), EventType.RESOLVED),
    (STUCK, {"status": "SETTLED"}, EventType.RESOLVED),
]


def after(old: Row | None, change: Row) -> Row:
    return old | {"sequence": old["sequence"] + 1} | change if old else change


def test_the_tests_cover_each_event_type() -> None:
    assert {told for _, _, told in CHANGES} == {*EventType}


@pytest.mark.parametrize(("old", "change", "told"), CHANGES)
def test_an_event_is_typed_numbered_and_contains_the_whole_outcome(
    old: Row | None, change: Row, told: EventType
) -> None:
    new = after(old, change)

    made = event(old, new, CONFIG)

    data = outcome.of_state(states.found(new), CONFIG, replayed=False)
    assert made == Event(type=told, key=SETTLEMENT.key, sequence=new["sequence"], data=data)
    assert made.id == f"{SETTLEMENT.key}:{new['sequence']}"


@pytest.mark.parametrize(
    "change",
    [
        {"owner": "another", "owner_epoch": 1, "gsi1sk": "later"},
        {"expired_at": "then"},
        {"verdict": "REJECTED"},
        {"names_erased_at": "then"},
        {},
    ],
)
def test_an_internal_change_makes_no_event(change: Row) -> None:
    assert event(HELD, HELD | change, CONFIG) is None


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (HELD, None, "the settlement's row was deleted"),
        (None, None, "None: the settlement's row was deleted"),
        (HELD, HELD | {"sequence": 3}, "makes no event, but its sequence grows by 1"),
        (HELD, HELD | {"sequence": 1}, "makes no event, but its sequence grows by -1"),
        (HELD, HELD | slots([Step.VERIFY]), "makes verified, but its sequence grows by 0"),
        (HELD, HELD | slots([Step.VERIFY]) | {"sequence": 4}, "makes verified, but its sequence grows by 2"),
        (None, SETTLED, "cannot begin as SETTLED"),
        (SETTLED, SETTLED | {"status": "PROCESSING"}, "cannot become PROCESSING from SETTLED"),
        (HELD, HELD | {"sequence": "three"}, "sequence is no int"),
        (HELD, HELD | {"status": "NONSENSE"}, "'NONSENSE' is not a valid Status"),
        (None, CLAIMED | {"currency": "XXX"}, "the stage has no currency XXX"),
    ],
)
def test_an_impossible_change_is_reported_in_one_line(old: Any, new: Any, told: str) -> None:
    with pytest.raises(MalformedRow, match=f"{re.escape(told)}$") as raised:
        event(old, new, CONFIG)

    assert "\n" not in str(raised.value)
