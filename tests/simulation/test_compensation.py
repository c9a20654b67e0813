"""A reversal that meets a fault ends as one entry, or in LIMBO, and a retry then makes the payer whole."""

import pytest

from tests.simulation import picture
from tests.simulation.picture import MONEY, MOVES, STEPS, Picture
from tests.simulation.world import ORDER, STARTING, Fault, World

STATES = {"RefundFee": "fee", "ReclaimFunds": "release", "VoidHold": "hold"}
RETRY = {"decision": "retry", "reason": "the store is back", "by": "olga"}


def stuck_in_limbo(steps: int, state: str, fault: Fault) -> tuple[Picture, str]:
    """What a fault that stays makes of a settlement of so many steps, and the step that is stuck."""
    undone = MONEY[: MONEY.index(STATES[state]) + fault.commits]
    committed = STEPS[:steps]
    left = [step for step in MONEY if step in committed and step not in undone]
    more = picture.ordered(steps) | {"limbo:1": None}
    return picture.reversing("LIMBO", committed, undone, more), (left or ["hold"])[0]


@pytest.mark.parametrize("steps", range(5))
def test_exactly_the_steps_that_committed_are_reversed(world: World, steps: int) -> None:
    order = world.commit(steps)

    execution = world.compensate(**order)

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "COMPENSATED")
    assert world.picture() == picture.reversed_from(steps)
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("times", [1, 8])
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("state", [*STATES, "BeginCompensation", "ReportOutcome"])
def test_a_fault_that_passes_leaves_one_reversal_of_each_step(
    world: World, state: str, fault: Fault, times: int
) -> None:
    order = world.commit(4)
    world.strike(state, fault, times)

    execution = world.compensate(**order)

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "COMPENSATED")
    assert world.picture() == picture.reversed_from(4)


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("state", STATES)
def test_a_fault_that_stays_leads_into_limbo_and_a_retry_out_of_it(
    world: World, state: str, fault: Fault, steps: int
) -> None:
    order = world.commit(steps)
    world.strike(state, fault)

    execution = world.compensate(**order)

    if state == "VoidHold" and fault.commits:
        assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "COMPENSATED")
        assert world.picture() == picture.reversed_from(steps)
        return
    expected, stuck = stuck_in_limbo(steps, state, fault)
    assert execution.is_waiting
    assert world.picture() == expected
    assert world.row()["stuck_step"] == f"compensate:{stuck}"
    assert (world.row()["failure"]["error"], world.row()["resolutions"]) == (fault.value[0], 0)
    barred = {"fee": None, "release": "bob", "hold": "alice"}[stuck]
    assert [name for name in STARTING if world.limbo_keys(name)] == [barred] * (barred is not None)
    (page,) = world.events("LimboEntered")
    assert (page["stuck_step"], page["page"], page["case"]) == (f"compensate:{stuck}", 1, 1)

    world.faults.clear()
    execution.succeed(RETRY)
    world.drain()

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "COMPENSATED")
    assert world.picture() == picture.reversed_from(steps, {"limbo:1": None, "resolve:1": None})
    assert {name: world.available(name) for name in STARTING} == STARTING
    assert not any(world.limbo_keys(name) for name in STARTING)


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("steps", [0, 3, 4])
def test_a_compensation_that_cannot_begin_is_stalled_and_may_be_started_again(
    world: World, steps: int, fault: Fault
) -> None:
    order = world.commit(steps)
    world.strike("BeginCompensation", fault)

    execution = world.compensate(**order)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "CompensationStalled")
    before = "SETTLED" if steps == 4 else "PROCESSING"
    entries = picture.ordered(steps) if fault.commits else {}
    expected = picture.of("COMPENSATING" if fault.commits else before, STEPS[:steps], entries)
    assert world.picture() == expected

    world.faults.clear()
    world.compensate("again", **order)
    assert world.picture() == picture.reversed_from(steps)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("fault", Fault)
def test_a_report_that_is_lost_is_never_green_though_the_payer_is_whole(world: World, fault: Fault) -> None:
    order = world.commit(3)
    world.strike("ReportOutcome", fault)

    execution = world.compensate(**order)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "CompensationStalled")
    assert world.picture() == picture.reversed_from(3)


def test_what_has_settled_is_reversed_on_a_persons_order_only(world: World) -> None:
    world.commit(4)

    without = world.compensate("without")
    settled = world.picture()
    world.compensate("with", reversal=ORDER)

    assert without.data["status"] == settled.status == "SETTLED"
    assert settled == picture.of("SETTLED", STEPS)
    assert world.picture() == picture.reversed_from(4)


def test_an_order_to_reverse_that_is_given_twice_reverses_once(world: World) -> None:
    world.commit(4)
    world.compensate("first", reversal=ORDER)

    again = world.compensate("second", reversal=ORDER | {"by": "piet"})

    assert (again.status, again.data["status"]) == ("SUCCEEDED", "COMPENSATED")
    assert world.picture() == picture.reversed_from(4)


def test_a_settlement_that_is_stuck_on_the_way_can_be_given_up_by_a_person(world: World) -> None:
    world.commit(3)

    world.compensate(reversal=ORDER)

    assert world.picture() == picture.compensated(STEPS[:3], {"reverse": None})


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("order", [{"reason": " ", "by": "olga"}, {"reason": "x"}, None, "please"])
def test_an_order_that_says_too_little_writes_nothing(world: World, order: object) -> None:
    world.commit(4)

    execution = world.compensate(reversal=order)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "InvalidRequest")
    assert world.picture() == picture.of("SETTLED", STEPS)


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
