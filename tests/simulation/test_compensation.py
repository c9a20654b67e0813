"""A reversal with a fault writes each entry once, at the latest after recovery."""

import pytest

from tests.world import picture
from tests.world.picture import HOW_FAR, MONEY, MOVES, STEPS, Picture, after
from tests.world.world import ORDER, STARTING, Fault, World

STATES = {"RefundFee": "fee", "ReclaimFunds": "release", "VoidHold": "hold"}


def stalled(steps: int, state: str, fault: Fault) -> Picture:
    undone = MONEY[: MONEY.index(STATES[state]) + fault.commits]
    return picture.reversing("COMPENSATING", STEPS[:steps], undone, picture.ordered(steps))


@pytest.mark.parametrize("steps", HOW_FAR)
def test_exactly_the_steps_that_committed_are_reversed(world: World, steps: int) -> None:
    order = world.commit(steps)

    execution = world.compensate(**order)

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "COMPENSATED")
    assert world.picture() == picture.reversed_from(steps)
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("first_only", [True, False])
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("state", [*STATES, "BeginCompensation", "ReportOutcome"])
def test_a_transient_fault_leaves_one_reversal_of_each_step(
    world: World, state: str, fault: Fault, first_only: bool
) -> None:
    order = world.commit(after("fee"))
    world.strike(state, fault, 1 if first_only else world.tries(state) - 1)

    execution = world.compensate(**order)

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "COMPENSATED")
    assert world.picture() == picture.reversed_from(after("fee"))
    assert "EnterLimbo" not in execution.visited


MATRIX = [
    (steps, state, fault)
    for steps in HOW_FAR
    for state in STATES
    for fault in Fault
    if STATES[state] in STEPS[:steps] or state == "VoidHold"
]

UNHEARD = [(steps, state, fault) for steps, state, fault in MATRIX if fault.commits]
"""Cases in which a step's reversal commits without an answer. The last reversal still finishes it."""

STUCK = [case for case in MATRIX if case not in UNHEARD]


@pytest.mark.parametrize(("steps", "state", "fault"), STUCK)
def test_a_lasting_fault_stalls_a_reversal_until_recovery_resumes_it(
    world: World, steps: int, state: str, fault: Fault
) -> None:
    """It does not enter LIMBO, because only a refusal needs a person."""
    order = world.commit(steps)
    world.strike(state, fault)

    execution = world.compensate(**order)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "CompensationStalled")
    assert world.picture() == stalled(steps, state, fault)
    assert not any(world.limbo_cases(name) for name in STARTING)

    world.faults.clear()
    world.pass_time(seconds=60)
    world.recover_all()

    assert world.picture() == picture.reversed_from(steps)
    assert {name: world.available(name) for name in STARTING} == STARTING
    assert world.machines.events == []


@pytest.mark.parametrize(("steps", "state", "fault"), UNHEARD)
def test_a_reversal_whose_answers_are_lost_counts_once(
    world: World, steps: int, state: str, fault: Fault
) -> None:
    order = world.commit(steps)
    world.strike(state, fault, world.tries(state))

    execution = world.compensate(**order)
    world.pass_time(seconds=60)
    world.recover_all()

    assert (execution.status, execution.error["Error"]) == ("FAILED", "CompensationStalled")
    assert world.picture() == picture.reversed_from(steps)
    assert world.machines.events == []


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("steps", [0, after("release"), after("fee")])
def test_a_compensation_that_cannot_begin_stalls_and_may_restart(
    world: World, steps: int, fault: Fault
) -> None:
    order = world.commit(steps)
    world.strike("BeginCompensation", fault)

    execution = world.compensate(**order)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "CompensationStalled")
    is_begun = fault.commits or "reversal" in order  # an order begins it before the start of its execution
    entries = picture.ordered(steps) if is_begun else {}
    expected = picture.of("COMPENSATING" if is_begun else "PROCESSING", STEPS[:steps], entries)
    assert world.picture() == expected

    world.faults.clear()
    world.compensate("again", **({"order": "reverse"} if "reversal" in order else order))
    assert world.picture() == picture.reversed_from(steps)


@pytest.mark.parametrize("fault", Fault)
def test_an_execution_whose_report_is_lost_fails_after_refunding(world: World, fault: Fault) -> None:
    order = world.commit(after("release"))
    world.strike("ReportOutcome", fault)

    execution = world.compensate(**order)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "CompensationStalled")
    assert world.picture() == picture.reversed_from(after("release"))


def test_only_a_persons_order_reverses_a_settled_settlement(world: World) -> None:
    world.commit(after("fee"))

    without = world.compensate("without")
    settled = world.picture()
    world.compensate("with", reversal=ORDER)

    assert without.data["status"] == settled.status == "SETTLED"
    assert settled == picture.of("SETTLED", STEPS)
    assert world.picture() == picture.reversed_from(after("fee"))


def test_a_settlement_without_a_fee_is_reversed_like_any_other(world: World) -> None:
    world.open_both()
    wire = {"key": "order-2026-000777", "payer": "alice", "payee": "bob", "amount": "48.20"}
    wire |= {"currency": "EUR", "fee": "0.00"}
    world.settle(data=wire)

    world.compensate(data=wire, reversal=ORDER)

    found = world.picture("order-2026-000777")
    assert (found.status, found.reversed) == ("COMPENSATED", frozenset(MONEY))
    assert found.entries.keys() == {*MOVES, "reverse"}
    assert {name: world.available(name) for name in STARTING} == STARTING
