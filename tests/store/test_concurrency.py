import random
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from settlement.core.ledger.keys import Row
from settlement.core.model.errors import AccountInLimbo, InsufficientFunds, NotReversible, StepFenced
from settlement.core.model.orders import Resolution
from settlement.core.model.state import SettlementState
from settlement.core.model.status import REVERSIBLE, Status, Step
from tests.store.rivals import at_once, callers
from tests.store.rows import REVERSED
from tests.world.books import assert_conserved
from tests.world.environment import NOW
from tests.world.journal import journal
from tests.world.saga import (
    COMPLETE,
    DECIDED,
    KEY,
    LATER,
    ON_CALL,
    RETRY,
    STALLED,
    WRITE_OFF,
    Saga,
    outcome_of,
    up_to,
)

pytestmark = pytest.mark.parametrize("engine", ["server"])

CALLERS = 16
ROUNDS = [0, *(pytest.param(number, marks=pytest.mark.long) for number in range(1, 8))]


@pytest.fixture
def funded(saga: Saga) -> Saga:
    saga.fund(payer=4820)
    return saga


def on_record(saga: Saga) -> dict[str, Row]:
    return journal(saga.ledger.rows(), KEY)


@pytest.mark.parametrize("step", Step)
def test_a_step_called_by_many_concurrent_clocks_is_one_entry(
    funded: Saga, step: Step, counted: list[str]
) -> None:
    funded.claim()
    for earlier in list(Step)[: list(Step).index(step)]:
        funded.commit(earlier)

    answers = at_once(
        [
            partial(caller.commit, step, NOW + timedelta(milliseconds=number))
            for number, caller in enumerate(callers(funded, CALLERS))
        ]
    )

    assert answers == [on_record(funded)[step]] * CALLERS
    settled = ["Settled"] if step is Step.FEE else []
    assert sorted(counted) == [*settled, *["StepReplayed"] * (CALLERS - 1)]
    assert list(funded.state().steps) == up_to(step)
    funded.books()


@pytest.mark.parametrize(("rivals", "affordable"), [(2, 1), (16, 5)])
def test_as_many_settlements_hold_as_the_payer_can_afford(funded: Saga, rivals: int, affordable: int) -> None:
    amount = 4820 // affordable
    racing = [
        caller.asking(key=f"order-2026-0002{number:02}", amount=amount)
        for number, caller in enumerate(callers(funded, rivals))
    ]
    for rival in racing:
        rival.claim()

    answers = at_once([partial(rival.commit, Step.HOLD) for rival in racing])

    assert sum(isinstance(answer, dict) for answer in answers) == affordable
    assert sum(isinstance(answer, InsufficientFunds) for answer in answers) == rivals - affordable
    assert funded.ledger.rows()[0]["available"] == 0
    assert [rival.row()["escrow"] for rival in racing] == [
        amount if isinstance(answer, dict) else 0 for answer in answers
    ]
    assert_conserved(funded.ledger.rows())


@pytest.mark.parametrize("seed", ROUNDS)
def test_concurrent_steps_out_of_order_leave_the_rows_consistent(funded: Saga, seed: int) -> None:
    """A verdict's evidence may precede the hold: it moves nothing, and no step builds on it."""
    funded.claim()
    shuffled = random.Random(seed)
    orders = [(caller, shuffled.sample(list(Step), len(Step))) for caller in callers(funded, 16)]

    def in_that_order(caller: Saga, order: list[Step]) -> list[Any]:
        return [outcome_of(partial(caller.commit, step)) for step in order]

    answers = at_once([partial(in_that_order, caller, order) for caller, order in orders])

    refusals = [answer for some in answers for answer in some if not isinstance(answer, dict)]
    assert {type(refusal) for refusal in refusals} <= {StepFenced}
    committed = list(funded.state().steps)
    assert committed == list(Step)[: len(committed)]
    assert {name for name, row in on_record(funded).items() if "debit" in row} == set(committed) - {"verify"}
    funded.books()

    for step in Step:
        funded.commit(step)

    row = funded.row()
    assert (row["status"], row["escrow"]) == (Status.SETTLED, 0)
    assert [found["available"] for found in funded.books()[:2]] == [0, 5272]


def test_a_hold_and_a_rejection_at_once_never_both_commit(funded: Saga) -> None:
    funded.claim()
    failure = {"step": "hold", "error": "StepFenced", "cause": ""}
    calls = [
        partial(caller.commit, Step.HOLD) if number % 2 else partial(caller.reject, failure)
        for number, caller in enumerate(callers(funded, CALLERS))
    ]

    answers = at_once(calls)

    rejected, held = answers[::2], answers[1::2]
    lost = funded.state().status is Status.REJECTED
    assert {type(answer) for answer in rejected} == {SettlementState if lost else StepFenced}
    assert {type(answer) for answer in held} == {StepFenced if lost else dict}
    assert set(on_record(funded)) == (set() if lost else {"hold"})
    funded.books()


# Reversals, LIMBO and decisions


def with_client_of(caller: Saga, other: Saga) -> Saga:
    return replace(other, ledger=caller.ledger)


@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_reversal_called_by_many_concurrent_clocks_is_one_entry(
    saga: Saga, step: Step, counted: list[str]
) -> None:
    saga.begun(Step.FEE)
    for earlier in REVERSIBLE[: REVERSIBLE.index(step)]:
        saga.reverse(earlier)

    answers = at_once(
        [
            partial(caller.reverse, step, LATER + timedelta(milliseconds=number))
            for number, caller in enumerate(callers(saga, CALLERS))
        ]
    )

    assert answers == [on_record(saga)[step.reversal]] * CALLERS
    assert moves(answers[0]) == moves(REVERSED[step])
    outcomes = ["Compensated"] * (step is Step.HOLD) + ["Settled"]
    assert sorted(counted) == [*outcomes, *["StepReplayed"] * (CALLERS - 1)]
    saga.books()


def moves(entry: Row) -> Row:
    return {name: entry[name] for name in ("debit", "credit", "amount")}


def test_an_unheld_settlement_is_finished_by_many_at_once(saga: Saga) -> None:
    saga.begun(None)

    answers = at_once([caller.finish_unheld for caller in callers(saga, CALLERS)])

    assert answers == [saga.state()] * CALLERS
    assert saga.row()["status"] == Status.COMPENSATED
    saga.books()


def test_a_hold_and_its_concurrent_reversals_end_never_both_commit(saga: Saga) -> None:
    saga.reach(None)
    calls: list[Any] = []
    for number, caller in enumerate(callers(saga, CALLERS)):
        calls.append(partial(caller.commit, Step.HOLD) if number % 2 else partial(begin_and_finish, caller))

    at_once(calls)

    held = Step.HOLD in saga.state().steps
    assert saga.row()["status"] == (Status.COMPENSATING if held else Status.COMPENSATED)
    saga.books()


def begin_and_finish(caller: Saga) -> None:
    caller.begin()
    caller.finish_unheld()


def test_whole_reversals_at_once_reverse_each_step_once(saga: Saga) -> None:
    saga.begun(Step.FEE)

    def reverse(caller: Saga) -> None:
        for step in REVERSIBLE:
            caller.reverse(step)

    answers = at_once([partial(reverse, caller) for caller in callers(saga, CALLERS)])

    assert answers == [None] * CALLERS
    assert (saga.row()["status"], list(saga.state().reversed)) == ("COMPENSATED", ["hold", "release", "fee"])
    assert [row["available"] for row in saga.books()[:2]] == [10_000, 500]


@pytest.mark.parametrize("last", [None, Step.HOLD, Step.VERIFY, Step.RELEASE])
def test_a_concurrent_step_commits_before_the_fence_or_never(saga: Saga, last: Step | None) -> None:
    saga.reach(last)
    step = list(Step)[list(Step).index(last) + 1 if last else 0]
    calls = [
        partial(caller.commit, step) if number % 2 else caller.begin
        for number, caller in enumerate(callers(saga, CALLERS))
    ]

    answers = at_once(calls)

    committed = step in saga.state().steps
    assert {type(answer) for answer in answers[1::2]} == {dict if committed else StepFenced}
    settled = step is Step.FEE and committed
    assert saga.row()["status"] == (Status.SETTLED if settled else Status.COMPENSATING)
    begun = {answer.status for answer in answers[::2]}
    assert begun == {saga.row()["status"]}
    if settled:
        saga.order()
    saga.unwind()
    assert [row["available"] for row in saga.books()[:2]] == [10_000, 500]


@pytest.mark.parametrize("_round", ROUNDS)
def test_a_stalled_settlements_order_and_last_step_never_both_commit(saga: Saga, _round: int) -> None:
    saga.reach(Step.RELEASE)
    one, other = callers(saga, 2)

    ordered, collected = at_once([partial(one.order, STALLED), partial(other.commit, Step.FEE)])

    settled = saga.row()["status"] == Status.SETTLED
    assert saga.row()["status"] in (Status.SETTLED, Status.COMPENSATING)
    assert (type(ordered), type(collected)) == ((NotReversible, dict) if settled else (dict, StepFenced))
    assert ("reverse" in on_record(saga)) != settled
    saga.books()


@pytest.mark.parametrize("_round", ROUNDS)
def test_a_concurrent_reclaim_and_spend_never_take_the_same_money(saga: Saga, _round: int) -> None:
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
def test_a_concurrent_hold_commits_before_the_block_or_never(saga: Saga, _round: int) -> None:
    saga.begun(Step.RELEASE)
    spending = saga.spent(5000)
    one, other = callers(saga, 2)

    entered, held = at_once([one.enter, partial(with_client_of(other, spending).commit, Step.HOLD)])

    assert isinstance(entered, dict)
    assert isinstance(held, dict | AccountInLimbo)
    bob = saga.books()[1]
    assert (bob["available"], bob["limbo_cases"]) == (272 if isinstance(held, dict) else 5272, 1)


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
    assert (bob["available"], bob.get("limbo_cases", 0) > 0) == ((5272, True) if stuck else (500, False))


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
    assert saga.books()[1]["limbo_cases"] == 0


def test_one_decision_by_many_people_at_once_names_one_person(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    case = saga.case()
    people = [
        Resolution(decision=WRITE_OFF.decision, reason="agreed", by=f"{ON_CALL}-{n}", case=1)
        for n in range(CALLERS)
    ]

    answers = at_once(
        [
            partial(caller.resolve, by_one, DECIDED, case)
            for caller, by_one in zip(callers(saga, CALLERS), people, strict=True)
        ]
    )

    assert [by_one.by == answers[0]["by"] for by_one in people].count(True) == 1
    assert assert_conserved(saga.ledger.rows())["losses:EUR"] == -4772
