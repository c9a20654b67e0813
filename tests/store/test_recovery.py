from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from settlement.core.model.errors import DeadlineExceeded, StepFenced
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.policy import recovery
from tests.store.rivals import at_once, callers
from tests.store.rows import (
    ENDS,
    ENDS_AT,
    JUST_BEFORE,
    begin_review,
    held,
    in_review,
    markers,
    own,
    take_over,
    verdicts,
    webhook,
)
from tests.world.constants import NONCE
from tests.world.environment import NOW
from tests.world.provider import REJECTED
from tests.world.saga import (
    COMPLETE,
    DEADLINE,
    KEY,
    LATER,
    RESOLVER,
    RETRY,
    REVERSER,
    WRITE_OFF,
    Saga,
    outcome_of,
    state_of,
)

CALLERS = 16
THREADS = pytest.mark.parametrize("engine", ["server"])
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
"""Lag of a function's clock: it takes the time before it writes."""

LAGS = pytest.mark.parametrize("behind", [timedelta(), EARLY], ids=["late", "in time"])


def reach(last: Step | None) -> Callable[[Saga], None]:
    return lambda saga: saga.reach(last)


def late(last: Step | None) -> Callable[[Saga], None]:
    """Reach a step. Recovery has looked in time and looks again at the deadline."""

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
def test_a_takeover_sets_owner_and_next_look_once_per_look(
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
def test_every_transition_keeps_out_a_takeover_from_an_earlier_look(
    saga: Saga, start: Callable[[Saga], Any], move: Callable[[Saga], Any], now: datetime
) -> None:
    start(saga)
    seen = saga.state()
    move(saga)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^recover: the settlement has moved on$"):
        take_over(saga, seen, now)


def test_a_step_committed_meanwhile_keeps_no_takeover_out_and_replays(
    saga: Saga,
) -> None:
    """The former owner may be slow but alive: both find the committed step, and neither repeats it."""
    saga.reach(Step.VERIFY)
    seen = saga.state()
    first = saga.commit(Step.RELEASE, LATER)

    state = take_over(saga, seen, DUE)

    assert (state.owner, *sorted(state.steps)) == (f"{KEY}-r1-{NONCE}", "hold", "release", "verify")
    assert saga.commit(Step.RELEASE, DUE) == first
    saga.books()


def test_the_former_owner_reverses_nothing_and_the_new_one_does(saga: Saga) -> None:
    held(saga)
    take_over(saga, now=DUE)

    with saga.writes_nothing():
        assert saga.begin(owner="execution-1").status is Status.PROCESSING

    assert saga.begin(owner=f"{KEY}-r1-{NONCE}").status is Status.COMPENSATING


# Postponed and deferred


@pytest.mark.parametrize("how", ["postpone", "defer"])
def test_a_postponed_or_deferred_settlement_is_listed_later_unless_moved(saga: Saga, how: str) -> None:
    reversing(saga)
    seen = saga.row()
    write, again = (
        (recovery.postpone(state_of(seen), DUE, saga.config), MINUTE_AFTER_DUE)
        if how == "postpone"
        else (recovery.defer_unprocessable(seen, DUE), "2026-11-20T12:15:30.123Z")
    )

    state = saga.ledger.store.update(write)

    assert state == state_of(seen | {"gsi1sk": again})
    assert saga.row() == seen | {"gsi1sk": again}
    with saga.writes_nothing(), pytest.raises(StepFenced):
        saga.ledger.store.update(write)


# Expired


def test_an_expired_unreversed_settlement_is_taken_over_again(saga: Saga) -> None:
    late(Step.HOLD)(saga)
    own(saga, REJECTED)
    take_over(saga)

    state = take_over(saga, now=DEADLINE + timedelta(seconds=60))

    assert (state.owner, state.owner_epoch) == (f"{KEY}-c2-{NONCE}", 2)
    assert state.listed_at == "2026-11-20T12:18:00.123Z"


def test_a_review_does_not_expire_before_its_end(saga: Saga) -> None:
    in_review(saga)

    assert recovery.take_over(saga.state(), ENDS - EARLY, saga.config, NONCE) is None


@pytest.mark.parametrize(
    ("start", "end", "proceed"),
    [
        (late(None), DEADLINE, lambda saga, now: saga.commit(Step.HOLD, now)),
        (late(Step.HOLD), DEADLINE, lambda saga, now: saga.put_verdict(now=now)),
        (late(Step.HOLD), DEADLINE, begin_review),
        (late(Step.HOLD), DEADLINE, webhook),
        (in_review, ENDS, webhook),
        (late(Step.VERIFY), DEADLINE, lambda saga, now: saga.commit(Step.RELEASE, now)),
    ],
    ids=["hold", "own", "begin_review", "webhook", "webhook in review", "release"],
)
def test_an_expired_settlement_goes_no_further_by_an_earlier_clock(
    saga: Saga, start: Callable[[Saga], Any], end: datetime, proceed: Callable[..., Any]
) -> None:
    """A function takes the time when it begins and may write seconds later.

    By then a reversal refunds the money: a late verdict would be useless, a late release would have to be
    reclaimed.
    """
    start(saga)
    take_over(saga, now=end)

    with saga.writes_nothing():
        for now in (end - EARLY, end):
            with pytest.raises(DeadlineExceeded):
                proceed(saga, now=now)


def test_a_settlement_just_decided_by_a_webhook_does_not_expire(saga: Saga) -> None:
    in_review(saga)
    webhook(saga, now=ENDS - EARLY)

    assert take_over(saga, now=ENDS).owner == f"{KEY}-r2-{NONCE}"

    assert "expired_at" not in saga.row()


# At once


@THREADS
@pytest.mark.parametrize("start", ["released", "reversing", "in LIMBO", "late in review", "missed"])
def test_of_many_takeovers_at_once_exactly_one_names_the_owner(saga: Saga, start: str) -> None:
    begin, now, _ = STARTS[start]
    begin(saga)
    seen = saga.state()

    answers = at_once([partial(take_over, caller, seen, now) for caller in callers(saga, CALLERS)])

    assert sum(isinstance(answer, SettlementState) for answer in answers) == 1
    assert sum(isinstance(answer, StepFenced) for answer in answers) == CALLERS - 1
    assert saga.row()["owner_epoch"] == 1


RIVALS: dict[str, tuple[Callable[[Saga], Any], Callable[[Saga], Any], str]] = {
    "begin_review": (held, begin_review, "review"),
    "decide": (in_review, lambda saga: webhook(saga, now=ENDS - EARLY), "verdict"),
    "resolve": (in_limbo, lambda saga: saga.resolve(RETRY), "resolution"),
}


@THREADS
@pytest.mark.parametrize("rival", RIVALS)
def test_a_takeover_and_its_concurrent_rival_leave_no_mixture(saga: Saga, rival: str) -> None:
    """A takeover that comes second needs an unchanged row."""
    start, move, mark = RIVALS[rival]
    start(saga)
    seen, now = saga.state(), ENDS if rival == "decide" else DUE
    one, other = callers(saga, 2)

    taken, _ = at_once([partial(take_over, one, seen, now), partial(move, other)])

    row = saga.row()
    if isinstance(taken, StepFenced):
        assert mark in row
        assert not str(row["owner"]).endswith((f"-r1-{NONCE}", f"-c1-{NONCE}"))
    else:
        assert row["owner_epoch"] == 1
        decided = rival == "resolve" and mark in row
        assert row["owner"] == (RESOLVER if decided else taken.owner)
        assert rival != "decide" or mark not in row


@THREADS
def test_a_concurrent_takeover_and_begun_reversal_leave_one_owner(saga: Saga) -> None:
    """The former owner begins the reversal: an earlier takeover has fenced it off."""
    held(saga)
    seen = saga.state()
    one, other = callers(saga, 2)

    taken, _ = at_once([partial(take_over, one, seen, DUE), partial(other.begin, owner="execution-1")])

    row = saga.row()
    won = not isinstance(taken, StepFenced)
    assert (row["status"], row["owner"]) == (
        ("PROCESSING", f"{KEY}-r1-{NONCE}") if won else ("COMPENSATING", REVERSER)
    )


@THREADS
@LAGS
def test_a_concurrent_webhook_and_recovery_have_exactly_one_winner(saga: Saga, behind: timedelta) -> None:
    in_review(saga)
    seen = saga.state()
    calls = [
        partial(webhook, caller, now=ENDS - behind) if number % 2 else partial(take_over, caller, seen, ENDS)
        for number, caller in enumerate(callers(saga, CALLERS))
    ]

    answers = at_once(calls)

    recovered = sum(isinstance(answer, SettlementState) for answer in answers[::2])
    heard = answers[1::2].count(None)
    assert recovered + heard == 1
    assert behind or recovered
    assert heard == len(verdicts(saga)) == len(markers(saga))
    row = saga.row()
    assert ("verdict" in row, "expired_at" in row) == (bool(heard), bool(recovered))
    assert (row["owner_epoch"], row["owner"]) == (
        1,
        f"{KEY}-c1-{NONCE}" if recovered else f"{KEY}-decided",
    )


@THREADS
@LAGS
def test_a_concurrent_release_and_expiry_have_exactly_one_winner(saga: Saga, behind: timedelta) -> None:
    late(Step.VERIFY)(saga)
    seen = saga.state()
    calls = [
        partial(caller.commit, Step.RELEASE, DEADLINE - behind)
        if number % 2
        else partial(take_over, caller, seen, DEADLINE)
        for number, caller in enumerate(callers(saga, CALLERS))
    ]

    answers = at_once(calls)

    recovered = sum(isinstance(answer, SettlementState) for answer in answers[::2])
    refused = sum(isinstance(answer, DeadlineExceeded) for answer in answers[1::2])
    assert refused == (CALLERS // 2 if recovered else 0)
    assert recovered == ("release_at" not in saga.row())
    assert behind or recovered
    assert isinstance(outcome_of(partial(take_over, saga, seen, DEADLINE)), StepFenced)
    saga.books()
