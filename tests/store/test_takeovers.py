"""Recovery takes over a settlement with time left, in reversal or in LIMBO, unless it has moved on."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model.errors import StepFenced
from settlement.model.state import MalformedRow, SettlementState
from settlement.model.status import Status, Step
from settlement.policy import recovery
from tests.conftest import NOW
from tests.store.rivals import at_once, callers
from tests.store.saga import (
    CLAIMED,
    COMPLETE,
    KEY,
    LATER,
    RESOLVER,
    RETRY,
    REVERSER,
    WRITE_OFF,
    Saga,
    state_of,
)
from tests.store.verdicts import ENDS, begin_review, held, in_review, take_over, webhook

CALLERS = 16
THREADS = pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)
DUE = NOW + timedelta(seconds=30)
MINUTE_AFTER_DUE = "2026-11-20T12:01:30.123Z"


def reversing(saga: Saga) -> None:
    saga.begun(Step.VERIFY)


def in_limbo(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)


STARTS: dict[str, tuple[Callable[[Saga], Any], str, str]] = {
    "claimed": (lambda saga: saga.reach(None), "r", "gsi1sk"),
    "held": (held, "r", "gsi1sk"),
    "verified": (lambda saga: saga.reach(Step.VERIFY), "r", "gsi1sk"),
    "released": (lambda saga: saga.reach(Step.RELEASE), "r", "gsi1sk"),
    "reversing": (reversing, "compensate-", "gsi1sk"),
    "in LIMBO": (in_limbo, "compensate-", "recover_at"),
}
"""The progress of a settlement, the infix of its next owner's name, and the attribute of the next look."""

EACH = pytest.mark.parametrize(("start", "infix", "again"), STARTS.values(), ids=STARTS)


@EACH
def test_a_takeover_names_the_owner_and_the_next_look_and_changes_nothing_else(
    saga: Saga, start: Callable[[Saga], Any], infix: str, again: str
) -> None:
    start(saga)
    before = saga.ledger.rows()

    state = take_over(saga, now=DUE)

    taken = {"owner": f"{KEY}-{infix}1", "owner_epoch": 1, again: MINUTE_AFTER_DUE}
    assert saga.state() == state
    assert saga.ledger.rows() == [
        found | taken if keys.is_settlement(found) and found["pk"] == f"SETTLEMENT#{KEY}" else found
        for found in before
    ]


@EACH
def test_a_settlement_is_not_taken_over_again_from_a_look_before_the_takeover(
    saga: Saga, start: Callable[[Saga], Any], infix: str, again: str
) -> None:
    start(saga)
    seen = saga.state()
    take_over(saga, seen, DUE)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^recover: the settlement has moved on$"):
        take_over(saga, seen, DUE)


@EACH
@pytest.mark.parametrize("changed", [{"owner_epoch": 1}, {"gsi1sk": "2026-11-20T12:00:30.124Z"}], ids=str)
def test_either_the_epoch_or_the_index_alone_tells_that_it_has_moved_on(
    saga: Saga, start: Callable[[Saga], Any], infix: str, again: str, changed: Row
) -> None:
    """Two looks may fall on the same instant, such as the deadline; a review does not change the epoch."""
    start(saga)
    seen = saga.state()
    saga.alter(**changed)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, seen, DUE)


@EACH
def test_a_settlement_with_another_status_than_was_seen_is_not_taken_over(
    saga: Saga, start: Callable[[Saga], Any], infix: str, again: str
) -> None:
    start(saga)
    seen = saga.state()

    for status in set(Status) - {seen.status}:
        saga.alter(status=status)
        with saga.writes_nothing(), pytest.raises(StepFenced):
            take_over(saga, seen, DUE)


MOVES: dict[str, tuple[Callable[[Saga], Any], Callable[[Saga], Any]]] = {
    "in_review": (held, begin_review),
    "decided": (held, lambda saga: webhook(saga, now=LATER)),
    "begun": (held, lambda saga: saga.begin()),
    "rejected": (lambda saga: saga.reach(None), lambda saga: saga.reject({"step": "hold"})),
    "settled": (lambda saga: saga.reach(Step.RELEASE), lambda saga: saga.commit(Step.FEE)),
    "refunded": (
        reversing,
        lambda saga: [saga.reverse(step) for step in reversed(Step) if step != "verify"],
    ),
    "stuck": (
        reversing,
        lambda saga: saga.enter(failure={"step": "compensate:hold", "error": "", "cause": ""}),
    ),
    "retried": (in_limbo, lambda saga: saga.resolve(RETRY)),
    "written off": (in_limbo, lambda saga: saga.resolve(WRITE_OFF)),
    "completed": (in_limbo, lambda saga: saga.resolve(COMPLETE)),
}


@pytest.mark.parametrize(("start", "move"), MOVES.values(), ids=MOVES)
def test_every_change_of_a_settlement_keeps_out_a_takeover_from_an_earlier_look(
    saga: Saga, start: Callable[[Saga], Any], move: Callable[[Saga], Any]
) -> None:
    start(saga)
    seen = saga.state()
    move(saga)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, seen, DUE)


def test_a_step_that_commits_meanwhile_keeps_no_takeover_out_and_is_replayed_to_the_next_owner(
    saga: Saga,
) -> None:
    """The former owner may be slow and alive: both find the committed step, and neither repeats it."""
    saga.reach(Step.VERIFY)
    seen = saga.state()
    first = saga.commit(Step.RELEASE, LATER)

    state = take_over(saga, seen, DUE)

    assert (state.owner, state.steps) == (f"{KEY}-r1", {"hold", "verify", "release"})
    assert saga.commit(Step.RELEASE, DUE) == first
    saga.books()


@pytest.mark.parametrize("start", [held, reversing], ids=["held", "reversing"])
@pytest.mark.parametrize("how", ["postpone", "defer"])
def test_a_postponed_or_deferred_settlement_is_listed_later_unless_it_has_moved(
    saga: Saga, start: Callable[[Saga], Any], how: str
) -> None:
    if how == "postpone":
        start = reversing  # of no other settlement is it known that an execution works on it
    start(saga)
    seen = saga.row()
    write = (
        recovery.postpone(state_of(seen), DUE, saga.config)
        if how == "postpone"
        else recovery.defer_unprocessable(seen, DUE)
    )

    state = saga.ledger.store.update(write)

    again = MINUTE_AFTER_DUE if how == "postpone" else "2026-11-20T12:15:30.123Z"
    assert state == state_of(seen | {"gsi1sk": again})
    assert saga.row() == seen | {"gsi1sk": again}
    with saga.writes_nothing(), pytest.raises(StepFenced):
        saga.ledger.store.update(write)


def test_a_settlement_in_limbo_keeps_its_place_and_is_never_postponed_or_deferred(saga: Saga) -> None:
    """Its place is the start of its case; a run that listed it in flight has come too late."""
    in_limbo(saga)
    seen = saga.row()

    for write in (
        recovery.postpone(state_of(seen), DUE, saga.config),
        recovery.defer_unprocessable(seen, DUE),
    ):
        with saga.writes_nothing(), pytest.raises(StepFenced):
            saga.ledger.store.update(write)


def test_a_settlement_with_an_unknown_status_is_deferred(saga: Saga) -> None:
    """The write commits, but the row that it returns is still malformed."""
    held(saga)
    saga.alter(status="unheard of")
    seen = saga.row()

    with pytest.raises(MalformedRow, match="unheard of"):
        saga.ledger.store.update(recovery.defer_unprocessable(seen, DUE, 60))

    assert saga.row() == seen | {"gsi1sk": MINUTE_AFTER_DUE}


def test_a_review_that_begins_at_the_very_instant_of_the_look_keeps_out_the_takeover(saga: Saga) -> None:
    """Neither the epoch nor the index tells: a review may end when the settlement was due anyway."""
    held(saga)
    seen = saga.state()
    saga.alter(review="ver_1")

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, seen, DUE)


def test_neither_makes_a_row_of_a_listed_key_without_a_row(saga: Saga) -> None:
    listed = {"pk": f"SETTLEMENT#{KEY}", "sk": "SETTLEMENT", "gsi1sk": MINUTE_AFTER_DUE}

    with saga.writes_nothing(), pytest.raises(StepFenced):
        saga.ledger.store.update(recovery.defer_unprocessable(listed, DUE))
    with saga.writes_nothing(), pytest.raises(StepFenced):
        saga.ledger.store.update(recovery.postpone(state_of(CLAIMED | listed), DUE, saga.config))


# The owner from then on


def test_the_former_owner_reverses_nothing_and_the_new_one_does(saga: Saga) -> None:
    held(saga)
    take_over(saga, now=DUE)

    with saga.writes_nothing():
        assert saga.begin(owner="execution-1").status is Status.PROCESSING

    assert saga.begin(owner=f"{KEY}-r1").status is Status.COMPENSATING


def test_the_execution_that_begins_or_resumes_a_reversal_is_the_owner(saga: Saga) -> None:
    held(saga)
    assert saga.begin().owner == REVERSER

    other = saga.asking(key="order-2026-000202")
    other.claim()
    for step in Step:
        other.commit(step)
    other.order()
    other.assign_owner()
    assert (other.row()["owner"], other.row()["in_flight_since"]) == (REVERSER, "2026-11-20T12:00:00.123Z")


# At once


@THREADS
@pytest.mark.parametrize("start", ["released", "reversing", "in LIMBO"])
def test_of_many_takeovers_at_once_exactly_one_names_the_owner(saga: Saga, start: str) -> None:
    STARTS[start][0](saga)
    seen = saga.state()

    answers = at_once([partial(take_over, caller, seen, DUE) for caller in callers(saga, CALLERS)])

    assert sum(isinstance(answer, SettlementState) for answer in answers) == 1
    assert sum(isinstance(answer, StepFenced) for answer in answers) == CALLERS - 1
    assert saga.row()["owner_epoch"] == 1


RIVALS: dict[str, tuple[Callable[[Saga], Any], Callable[[Saga], Any], str]] = {
    "begin_review": (held, begin_review, "review"),
    "decide": (in_review, lambda saga: webhook(saga, now=ENDS - timedelta(milliseconds=1)), "verdict"),
    "resolve": (in_limbo, lambda saga: saga.resolve(RETRY), "resolution"),
}


@THREADS
@pytest.mark.parametrize("rival", RIVALS)
def test_a_takeover_and_its_rival_at_once_leave_no_mixture_of_the_two(saga: Saga, rival: str) -> None:
    """Either may come first; a takeover that comes second needs the row unchanged since it was seen."""
    start, move, mark = RIVALS[rival]
    start(saga)
    seen, now = saga.state(), ENDS if rival == "decide" else DUE

    taken, *_ = at_once(
        [partial(take_over, callers(saga, 1)[0], seen, now), partial(move, callers(saga, 1)[0])]
    )

    row = saga.row()
    if isinstance(taken, StepFenced):
        assert mark in row
        assert not str(row["owner"]).endswith(("-r1", "-compensate-1"))
    else:
        assert row["owner_epoch"] == 1
        decided = rival == "resolve" and mark in row
        assert row["owner"] == (RESOLVER if decided else taken.owner)
        assert rival != "decide" or mark not in row


@THREADS
def test_a_takeover_and_the_begin_of_a_reversal_at_once_and_one_of_them_is_the_owner(saga: Saga) -> None:
    """The former owner begins the reversal: a takeover that came first has fenced it off."""
    held(saga)
    seen = saga.state()

    taken, _ = at_once(
        [
            partial(take_over, callers(saga, 1)[0], seen, DUE),
            partial(callers(saga, 1)[0].begin, owner="execution-1"),
        ]
    )

    row = saga.row()
    won = not isinstance(taken, StepFenced)
    assert (row["status"], row["owner"]) == (
        ("PROCESSING", f"{KEY}-r1") if won else ("COMPENSATING", REVERSER)
    )
