from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import StepFenced
from settlement.core.model.status import Step
from settlement.core.model.stored import MalformedRow
from settlement.core.policy import recovery
from tests.store.rows import ENDS, ENDS_AT, JUST_BEFORE, begin_review, held, in_review, take_over, webhook
from tests.world.constants import NONCE
from tests.world.environment import NOW
from tests.world.saga import COMPLETE, DEADLINE, KEY, LATER, RETRY, WRITE_OFF, Saga, state_of

DUE = NOW + timedelta(seconds=30)
MINUTE_AFTER_DUE = "2026-11-20T12:01:30.123Z"
EXPIRED = {"owner": f"{KEY}-c1-{NONCE}", "gsi1sk": "2026-11-20T12:16:00.123Z", "owner_epoch": 1}
EXPIRED |= {"expired_at": "2026-11-20T12:15:00.123Z"}
EXTENDED = {
    "owner": f"{KEY}-r1-{NONCE}",
    "gsi1sk": "2026-11-20T12:16:00.123Z",
    "deadline_at": "2026-11-20T12:29:30.123Z",
    "deadline_extended_at": "2026-11-20T12:15:00.123Z",
}
EARLY = timedelta(milliseconds=1)
"""Lag of a function's time: it reads its clock before it writes."""


def reach(last: Step | None) -> Callable[[Saga], None]:
    return lambda saga: saga.reach(last)


def late(last: Step | None) -> Callable[[Saga], None]:
    """Return a start that reaches a step, and lets recovery's next look be at the deadline."""

    def start(saga: Saga) -> None:
        saga.reach(last)
        saga.alter(gsi1sk=saga.row()["deadline_at"])

    return start


def reversing(saga: Saga) -> None:
    saga.begun(Step.VERIFY)


def in_limbo(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)


STARTS: dict[str, tuple[Callable[[Saga], Any], datetime, dict[str, Any]]] = {
    "claimed": (reach(None), DUE, {"owner": f"{KEY}-r1-{NONCE}", "gsi1sk": MINUTE_AFTER_DUE}),
    "held": (held, DUE, {"owner": f"{KEY}-r1-{NONCE}", "gsi1sk": MINUTE_AFTER_DUE}),
    "released": (reach(Step.RELEASE), DUE, {"owner": f"{KEY}-r1-{NONCE}", "gsi1sk": MINUTE_AFTER_DUE}),
    "reversing": (reversing, DUE, {"owner": f"{KEY}-c1-{NONCE}", "gsi1sk": MINUTE_AFTER_DUE}),
    "in LIMBO": (in_limbo, DUE, {"owner": f"{KEY}-c1-{NONCE}", "recover_at": MINUTE_AFTER_DUE}),
    "late and claimed": (late(None), DEADLINE, EXPIRED),
    "late and held": (late(Step.HOLD), DEADLINE, EXPIRED),
    "late and verified": (late(Step.VERIFY), DEADLINE, EXPIRED),
    "missed": (held, DEADLINE, EXTENDED),
    "late and released": (
        reach(Step.RELEASE),
        DEADLINE,
        {"owner": f"{KEY}-r1-{NONCE}", "gsi1sk": "2026-11-20T12:16:00.123Z"},
    ),
    "late in review": (
        in_review,
        ENDS,
        EXPIRED | {"gsi1sk": "2026-11-21T12:01:00.123Z", "expired_at": ENDS_AT},
    ),
}
"""Progress of a settlement, time of the look, and attributes changed by the takeover."""

EACH = pytest.mark.parametrize(("start", "now", "taken"), STARTS.values(), ids=STARTS)


@EACH
def test_a_takeover_sets_owner_and_next_look_exactly_once(
    saga: Saga, start: Callable[[Saga], Any], now: datetime, taken: dict[str, Any]
) -> None:
    start(saga)
    seen, before = saga.row(), saga.ledger.rows()

    state = take_over(saga, now=now)

    row = seen | taken | {"owner_epoch": 1}
    assert state == state_of(row) == saga.state()
    assert saga.ledger.rows() == [row if found == seen else found for found in before]
    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^recover: the settlement has moved on$"):
        take_over(saga, state_of(seen), now)


MOVES: dict[str, tuple[Callable[[Saga], Any], Callable[[Saga], Any], datetime]] = {
    "in_review": (held, begin_review, DUE),
    "decided": (held, lambda saga: webhook(saga, now=LATER), DUE),
    "begun": (held, lambda saga: saga.begin(), DUE),
    "another owner": (reversing, lambda saga: saga.assign_owner("execution-2"), LATER),
    "rejected": (reach(None), lambda saga: saga.reject({"step": "hold"}), DUE),
    "released just before the deadline": (
        late(Step.VERIFY),
        lambda saga: saga.commit(Step.RELEASE, JUST_BEFORE),
        DEADLINE,
    ),
    "settled": (reach(Step.RELEASE), lambda saga: saga.commit(Step.FEE), DUE),
    "refunded": (reversing, lambda saga: saga.reverse(Step.HOLD), DUE),
    "stuck": (
        reversing,
        lambda saga: saga.enter(failure={"step": "compensate:hold", "error": "", "cause": ""}),
        DUE,
    ),
    "retried": (in_limbo, lambda saga: saga.resolve(RETRY), DUE),
    "written off": (in_limbo, lambda saga: saga.resolve(WRITE_OFF), DUE),
    "completed": (in_limbo, lambda saga: saga.resolve(COMPLETE), DUE),
    "a review of the same instant": (held, lambda saga: saga.alter(review="ver_1"), DUE),
    "a deadline of the same instant": (
        late(Step.HOLD),
        lambda saga: saga.alter(deadline_at="2026-11-20T12:15:00.124Z"),
        DEADLINE,
    ),
}
"""Progress of a settlement at a look, its change after the look, and time of the takeover.

Neither the epoch nor the index reveals a change in the instant of the look.
"""


@pytest.mark.parametrize(("start", "move", "now"), MOVES.values(), ids=MOVES)
def test_a_takeover_is_refused_after_any_transition_since_its_read(
    saga: Saga, start: Callable[[Saga], Any], move: Callable[[Saga], Any], now: datetime
) -> None:
    start(saga)
    seen = saga.state()
    move(saga)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^recover: the settlement has moved on$"):
        take_over(saga, seen, now)


def test_a_takeover_succeeds_although_a_step_committed_meanwhile(saga: Saga) -> None:
    """The former owner may be slow but alive: both find the committed step, and neither repeats it."""
    saga.reach(Step.VERIFY)
    seen = saga.state()
    first = saga.commit(Step.RELEASE, LATER)

    state = take_over(saga, seen, DUE)

    assert (state.owner, *sorted(state.steps)) == (f"{KEY}-r1-{NONCE}", "hold", "release", "verify")
    assert saga.commit(Step.RELEASE, DUE) == first
    saga.books()


# A row that cannot be processed


@pytest.mark.parametrize(
    ("change", "told"), [({"owner": None}, "has no attribute 'owner'"), ({"status": "new"}, "new")]
)
def test_a_malformed_settlement_is_still_deferred_and_its_row_read(
    saga: Saga, change: Row, told: str
) -> None:
    """Recovery must be able to defer the row, so the write commits before the row is parsed."""
    saga.claim()
    before = {name: value for name, value in (saga.row() | change).items() if value is not None}
    saga.ledger.put(before)

    with pytest.raises(MalformedRow, match=told):
        saga.ledger.store.update(recovery.defer_unprocessable(before, DEADLINE, seconds=60))

    after: Row | None = saga.ledger.store.read(keys.settlement(KEY))
    assert after == before | {"gsi1sk": "2026-11-20T12:16:00.123Z"}
