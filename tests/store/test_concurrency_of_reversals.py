"""Reversals, LIMBO and decisions, called by many threads at once, against AWS's own engine."""

from dataclasses import replace
from functools import partial

import pytest

from settlement.model.errors import AccountInLimbo, InsufficientFunds, NotReversible, StepFenced
from settlement.model.orders import Resolution
from settlement.model.status import REVERSIBLE, Status, Step
from tests.store.books import assert_conserved
from tests.store.reversal import REVERSED, SKIPPED
from tests.store.rivals import at_once, callers
from tests.store.saga import COMPLETE, DECIDED, KEY, ON_CALL, RETRY, STALLED, WRITE_OFF, Saga

pytestmark = pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)

CALLERS, DUPLICATES = 16, 64
ROUNDS = range(4)
"""The repetitions of a race of two: either may win, and both outcomes must be right."""


def with_client_of(caller: Saga, other: Saga) -> Saga:
    """Return another settlement, called with this caller's client."""
    return replace(other, ledger=caller.ledger)


@pytest.mark.parametrize("step", REVERSIBLE)
@pytest.mark.parametrize("last", [None, Step.FEE])
def test_a_reversal_called_by_many_at_once_is_one_entry_and_one_movement(
    saga: Saga, step: Step, last: Step | None, counted: list[str]
) -> None:
    saga.begun(last)
    for earlier in REVERSIBLE[: REVERSIBLE.index(step)]:
        saga.reverse(earlier)

    answers = at_once([partial(caller.reverse, step) for caller in callers(saga, DUPLICATES)])

    assert answers == [(SKIPPED if last is None else REVERSED)[step]] * DUPLICATES
    outcomes = ["Compensated"] * (step is Step.HOLD) + ["Settled"] * (last is Step.FEE)
    assert sorted(counted) == [*outcomes, *["StepReplayed"] * (DUPLICATES - 1)]
    saga.books()


def test_whole_reversals_at_once_reverse_each_step_once(saga: Saga) -> None:
    saga.begun(Step.FEE)

    def reverse(caller: Saga) -> None:
        for step in REVERSIBLE:
            caller.reverse(step)

    answers = at_once([partial(reverse, caller) for caller in callers(saga, CALLERS)])

    assert answers == [None] * CALLERS
    assert (saga.row()["status"], saga.row()["reversed"]) == ("COMPENSATED", {"fee", "release", "hold"})
    assert [row["available"] for row in saga.books()[:2]] == [10_000, 500]


@pytest.mark.parametrize("last", [None, Step.HOLD, Step.VERIFY, Step.RELEASE])
def test_a_step_and_the_fence_at_once_either_commits_before_it_or_never(
    saga: Saga, last: Step | None
) -> None:
    saga.reach(last)
    step = list(Step)[list(Step).index(last) + 1 if last else 0]
    calls = [
        partial(caller.commit, step) if number % 2 else caller.begin
        for number, caller in enumerate(callers(saga, CALLERS))
    ]

    answers = at_once(calls)

    committed = step in saga.row().get("steps", ())
    assert {type(answer) for answer in answers[1::2]} == {dict if committed else StepFenced}
    settled = step is Step.FEE and committed
    assert saga.row()["status"] == (Status.SETTLED if settled else Status.COMPENSATING)
    begun = {answer.status for answer in answers[::2]}
    assert begun == {saga.row()["status"]}
    if settled:
        saga.order()
    for each in REVERSIBLE:
        saga.reverse(each)
    assert [row["available"] for row in saga.books()[:2]] == [10_000, 500]


@pytest.mark.parametrize("_round", ROUNDS)
def test_an_order_on_a_stalled_settlement_and_the_last_step_at_once_never_both_commit(
    saga: Saga, _round: int
) -> None:
    saga.reach(Step.RELEASE)
    one, other = callers(saga, 2)

    ordered, collected = at_once([partial(one.order, STALLED), partial(other.commit, Step.FEE)])

    settled = saga.row()["status"] == Status.SETTLED
    assert saga.row()["status"] in (Status.SETTLED, Status.COMPENSATING)
    assert (type(ordered), type(collected)) == ((NotReversible, dict) if settled else (dict, StepFenced))
    assert [row["sk"] == f"{KEY}:reverse" for row in saga.books()].count(True) == (0 if settled else 1)


@pytest.mark.parametrize("_round", ROUNDS)
def test_a_reclaim_and_a_spend_at_once_never_take_the_same_money(saga: Saga, _round: int) -> None:
    saga.begun(Step.FEE)
    saga.reverse(Step.FEE)
    spending = saga.spent(5272)
    one, other = callers(saga, 2)

    reclaimed, spent = at_once(
        [partial(one.reverse, Step.RELEASE), partial(with_client_of(other, spending).commit, Step.HOLD)]
    )

    losers = [answer for answer in (reclaimed, spent) if isinstance(answer, InsufficientFunds)]
    assert len(losers) == 1
    assert saga.books()[1]["available"] == (0 if losers == [reclaimed] else 500)


@pytest.mark.parametrize("_round", ROUNDS)
def test_a_hold_and_the_block_at_once_leave_a_hold_from_before_it_or_none(saga: Saga, _round: int) -> None:
    saga.begun(Step.RELEASE)
    spending = saga.spent(5000)
    one, other = callers(saga, 2)

    entered, held = at_once([one.enter, partial(with_client_of(other, spending).commit, Step.HOLD)])

    assert isinstance(entered, dict)
    assert isinstance(held, dict | AccountInLimbo)
    bob = saga.books()[1]
    assert (bob["available"], bob["limbo_keys"]) == (272 if isinstance(held, dict) else 5272, {KEY})


def test_limbo_entered_by_many_at_once_is_one_case(saga: Saga) -> None:
    saga.begun(Step.RELEASE)

    answers = at_once([caller.enter for caller in callers(saga, CALLERS)])

    assert {answer["step"] for answer in answers} == {"limbo:1"}
    assert [row["step"] for row in saga.books() if ":limbo:" in row["sk"]] == ["limbo:1"]


def test_a_reclaim_and_limbo_at_once_never_both_commit(saga: Saga) -> None:
    saga.begun(Step.RELEASE)
    seen = saga.case(Step.RELEASE)
    calls = [
        partial(caller.reverse, Step.RELEASE) if number % 2 else partial(caller.enter, seen)
        for number, caller in enumerate(callers(saga, CALLERS))
    ]

    answers = at_once(calls)

    stuck = saga.row()["status"] == Status.LIMBO
    assert {type(answer) for answer in answers[::2]} == {dict if stuck else StepFenced}
    assert {type(answer) for answer in answers[1::2]} == {StepFenced if stuck else dict}
    bob = saga.books()[1]
    assert (bob["available"], "limbo_keys" in bob) == ((5272, True) if stuck else (500, False))


@pytest.mark.parametrize("_round", ROUNDS)
def test_of_many_decisions_at_once_one_is_carried_out(saga: Saga, _round: int) -> None:
    saga.stuck(Step.RELEASE)
    case = saga.case()
    decisions = [RETRY, WRITE_OFF, COMPLETE] * 4

    answers = at_once(
        [
            partial(caller.resolve, decision, DECIDED, case)
            for caller, decision in zip(callers(saga, len(decisions)), decisions, strict=True)
        ]
    )

    won = answers[0]
    assert answers == [won] * len(decisions)
    assert [decision.is_on(won) for decision in decisions].count(True) == 4
    escrow = {"retry": (48, "COMPENSATING"), "write-off": (4820, "COMPENSATING"), "complete": (0, "SETTLED")}
    assert (saga.row()["escrow"], saga.row()["status"]) == escrow[won["decision"]]
    assert "limbo_keys" not in saga.books()[1]


def test_one_decision_by_two_people_at_once_is_the_decision_of_one(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    case = saga.case()
    people = [
        Resolution(decision=WRITE_OFF.decision, reason="agreed", by=f"{ON_CALL}-{n}") for n in range(CALLERS)
    ]

    answers = at_once(
        [
            partial(caller.resolve, by_one, DECIDED, case)
            for caller, by_one in zip(callers(saga, CALLERS), people, strict=True)
        ]
    )

    assert [by_one.is_on(answers[0]) for by_one in people].count(True) == 1
    assert assert_conserved(saga.ledger.rows())["losses:EUR"] == -4772
