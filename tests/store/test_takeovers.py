"""Recovery takes over what has time left, is being reversed or is in LIMBO, unless it has moved meanwhile."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from settlement import recovery
from settlement.errors import StepFenced
from settlement.rows import Row
from settlement.status import Status, Step
from tests.conftest import NOW
from tests.store.rivals import at_once, callers
from tests.store.saga import COMPLETE, KEY, LATER, RESOLVER, RETRY, REVERSER, WRITE_OFF, Saga
from tests.store.verdicts import ENDS, held, park, parked, take_over, told

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
"""Where a settlement may stand, what the next owner is called, and what says when it is looked at again."""

EACH = pytest.mark.parametrize(("start", "infix", "again"), STARTS.values(), ids=STARTS)


@EACH
def test_a_takeover_names_the_owner_and_the_next_look_and_changes_nothing_else(
    saga: Saga, start: Callable[[Saga], Any], infix: str, again: str
) -> None:
    start(saga)
    before = saga.ledger.rows()

    row = take_over(saga, now=DUE)

    taken = {"owner": f"{KEY}-{infix}1", "recoveries": 1, again: MINUTE_AFTER_DUE}
    assert saga.row() == row
    assert saga.ledger.rows() == [
        found | taken if found["sk"] == "SETTLEMENT" and found["pk"] == row["pk"] else found
        for found in before
    ]


@EACH
def test_whoever_saw_it_before_it_was_taken_over_does_not_take_it_over_again(
    saga: Saga, start: Callable[[Saga], Any], infix: str, again: str
) -> None:
    start(saga)
    seen = saga.row()
    take_over(saga, seen, DUE)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^recover: the settlement has moved on$"):
        take_over(saga, seen, DUE)


@EACH
@pytest.mark.parametrize("changed", [{"recoveries": 1}, {"gsi1sk": "2026-11-20T12:00:30.124Z"}], ids=str)
def test_either_the_number_or_the_index_alone_tells_that_it_has_moved_on(
    saga: Saga, start: Callable[[Saga], Any], infix: str, again: str, changed: Row
) -> None:
    """Two looks may fall on the same instant, such as the deadline; a review has no number."""
    start(saga)
    seen = saga.row()
    saga.alter(**changed)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, seen, DUE)


@EACH
def test_what_has_got_another_status_is_not_taken_over(
    saga: Saga, start: Callable[[Saga], Any], infix: str, again: str
) -> None:
    start(saga)
    seen = saga.row()

    for status in set(Status) - {seen["status"]}:
        saga.alter(status=status)
        with saga.writes_nothing(), pytest.raises(StepFenced):
            take_over(saga, seen, DUE)


MOVES: dict[str, tuple[Callable[[Saga], Any], Callable[[Saga], Any]]] = {
    "parked": (held, park),
    "decided": (held, lambda saga: told(saga, now=LATER)),
    "begun": (held, lambda saga: saga.begin()),
    "rejected": (lambda saga: saga.reach(None), lambda saga: saga.reject({"step": "hold"})),
    "settled": (lambda saga: saga.reach(Step.RELEASE), lambda saga: saga.post(Step.FEE)),
    "given back": (reversing, lambda saga: [saga.undo(step) for step in reversed(Step) if step != "verify"]),
    "stuck": (
        reversing,
        lambda saga: saga.enter(failure={"step": "compensate:hold", "error": "", "cause": ""}),
    ),
    "retried": (in_limbo, lambda saga: saga.resolve(RETRY)),
    "written off": (in_limbo, lambda saga: saga.resolve(WRITE_OFF)),
    "completed": (in_limbo, lambda saga: saga.resolve(COMPLETE)),
}


@pytest.mark.parametrize(("start", "move"), MOVES.values(), ids=MOVES)
def test_whatever_happens_to_a_settlement_keeps_out_the_takeover_of_what_was_seen_before(
    saga: Saga, start: Callable[[Saga], Any], move: Callable[[Saga], Any]
) -> None:
    start(saga)
    seen = saga.row()
    move(saga)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, seen, DUE)


def test_a_step_that_commits_meanwhile_keeps_nobody_out_and_is_where_the_next_owner_goes_on(
    saga: Saga,
) -> None:
    """The owner before may be slow and alive: both find what has committed, and neither does it twice."""
    saga.reach(Step.VERIFY)
    seen = saga.row()
    first = saga.post(Step.RELEASE, LATER)

    row = take_over(saga, seen, DUE)

    assert (row["owner"], row["steps"]) == (f"{KEY}-r1", {"hold", "verify", "release"})
    assert saga.post(Step.RELEASE, DUE) == first
    saga.books()


@pytest.mark.parametrize("start", [held, reversing], ids=["held", "reversing"])
@pytest.mark.parametrize("how", ["postpone", "set aside"])
def test_what_is_put_back_in_the_queue_is_listed_later_unless_it_has_moved(
    saga: Saga, start: Callable[[Saga], Any], how: str
) -> None:
    if how == "postpone":
        start = reversing  # nothing else is known to be driven
    start(saga)
    seen = saga.row()
    write = recovery.postpone(seen, DUE, saga.terms) if how == "postpone" else recovery.set_aside(seen, DUE)

    row = saga.ledger.store.update(write)

    again = MINUTE_AFTER_DUE if how == "postpone" else "2026-11-20T12:15:30.123Z"
    assert row == seen | {"gsi1sk": again}
    with saga.writes_nothing(), pytest.raises(StepFenced):
        saga.ledger.store.update(write)


def test_what_is_in_limbo_keeps_its_place_there_and_is_never_put_back_in_the_queue(saga: Saga) -> None:
    """Its place says since when it is in LIMBO; whoever listed it in flight has found it too late."""
    in_limbo(saga)
    seen = saga.row()

    for write in (recovery.postpone(seen, DUE, saga.terms), recovery.set_aside(seen, DUE)):
        with saga.writes_nothing(), pytest.raises(StepFenced):
            saga.ledger.store.update(write)


def test_what_has_a_status_that_nobody_knows_is_put_back_in_the_queue(saga: Saga) -> None:
    held(saga)
    saga.alter(status="unheard of")
    seen = saga.row()

    row = saga.ledger.store.update(recovery.set_aside(seen, DUE, 60))

    assert row == seen | {"gsi1sk": MINUTE_AFTER_DUE}


def test_what_is_left_to_a_review_at_the_very_instant_of_the_look_is_not_taken_over(saga: Saga) -> None:
    """Neither its number nor its place in the index tells: a review may end when it was due anyway."""
    held(saga)
    seen = saga.row()
    saga.alter(review="ver_1")

    with saga.writes_nothing(), pytest.raises(StepFenced):
        take_over(saga, seen, DUE)


def test_neither_makes_a_row_of_what_is_listed_but_gone(saga: Saga) -> None:
    listed = {"pk": f"SETTLEMENT#{KEY}", "sk": "SETTLEMENT", "gsi1sk": MINUTE_AFTER_DUE}

    with saga.writes_nothing(), pytest.raises(StepFenced):
        saga.ledger.store.update(recovery.set_aside(listed, DUE))
    with saga.writes_nothing(), pytest.raises(StepFenced):
        saga.ledger.store.update(recovery.postpone(listed | {"recoveries": 0}, DUE, saga.terms))


# Who drives it from then on


def test_the_execution_that_was_the_owner_before_reverses_nothing_and_the_new_one_does(saga: Saga) -> None:
    held(saga)
    take_over(saga, now=DUE)

    with saga.writes_nothing():
        assert saga.begin(owner="execution-1")["status"] == "PROCESSING"

    assert saga.begin(owner=f"{KEY}-r1")["status"] == "COMPENSATING"


def test_whoever_begins_to_reverse_or_reopens_is_the_owner(saga: Saga) -> None:
    held(saga)
    assert saga.begin()["owner"] == REVERSER

    other = saga.asking(key="order-2026-000202")
    other.claim()
    for step in Step:
        other.post(step)
    other.order()
    other.drive()
    assert (other.row()["owner"], other.row()["in_flight_since"]) == (REVERSER, "2026-11-20T12:00:00.123Z")


# At once


@THREADS
@pytest.mark.parametrize("start", ["released", "reversing", "in LIMBO"])
def test_of_many_takeovers_at_once_exactly_one_names_the_owner(saga: Saga, start: str) -> None:
    STARTS[start][0](saga)
    seen = saga.row()

    answers = at_once([partial(take_over, caller, seen, DUE) for caller in callers(saga, CALLERS)])

    assert sum(isinstance(answer, dict) for answer in answers) == 1
    assert sum(isinstance(answer, StepFenced) for answer in answers) == CALLERS - 1
    assert saga.row()["recoveries"] == 1


RIVALS: dict[str, tuple[Callable[[Saga], Any], Callable[[Saga], Any], str]] = {
    "park": (held, park, "review"),
    "decide": (parked, lambda saga: told(saga, now=ENDS - timedelta(milliseconds=1)), "verdict"),
    "leave": (in_limbo, lambda saga: saga.resolve(RETRY), "resolution"),
}


@THREADS
@pytest.mark.parametrize("rival", RIVALS)
def test_a_takeover_and_its_rival_at_once_leave_no_mixture_of_the_two(saga: Saga, rival: str) -> None:
    """Either may come first; a takeover that comes second must have found the row as it saw it."""
    start, move, mark = RIVALS[rival]
    start(saga)
    seen, now = saga.row(), ENDS if rival == "decide" else DUE

    taken, *_ = at_once(
        [partial(take_over, callers(saga, 1)[0], seen, now), partial(move, callers(saga, 1)[0])]
    )

    row = saga.row()
    if isinstance(taken, StepFenced):
        assert mark in row
        assert not str(row["owner"]).endswith(("-r1", "-compensate-1"))
    else:
        assert row["recoveries"] == 1
        decided = rival == "leave" and mark in row
        assert row["owner"] == (RESOLVER if decided else taken["owner"])
        assert rival != "decide" or mark not in row


@THREADS
def test_a_takeover_and_the_begin_of_a_reversal_at_once_and_one_of_them_is_the_owner(saga: Saga) -> None:
    """The reversal by the owner before: a takeover that came first has taken the right to it away."""
    held(saga)
    seen = saga.row()

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
