"""A reversal that meets a fault ends as one entry, or in LIMBO, and a retry then makes the payer whole."""

import pytest

from tests.simulation import picture
from tests.simulation.picture import MONEY, MOVES, STEPS, Picture
from tests.simulation.world import ORDER, STARTING, Fault, World

STATES = {"RefundFee": "fee", "ReclaimFunds": "release", "VoidHold": "hold"}
RETRY = {"decision": "retry", "reason": "the store is back", "by": "olga"}


def stuck_in_limbo(steps: int, state: str, fault: Fault) -> Picture:
    """What a fault that stays makes of a settlement of so many steps."""
    undone = MONEY[: MONEY.index(STATES[state]) + fault.commits]
    return picture.reversing("LIMBO", STEPS[:steps], undone, picture.ordered(steps) | {"limbo:1": None})


@pytest.mark.parametrize("steps", range(5))
def test_exactly_the_steps_that_committed_are_reversed(world: World, steps: int) -> None:
    order = world.commit(steps)

    execution = world.compensate(**order)

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "COMPENSATED")
    assert world.picture() == picture.reversed_from(steps)
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("first_only", [True, False])
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("state", [*STATES, "BeginCompensation", "ReportOutcome"])
def test_a_fault_that_passes_leaves_one_reversal_of_each_step(
    world: World, state: str, fault: Fault, first_only: bool
) -> None:
    order = world.commit(4)
    world.strike(state, fault, 1 if first_only else world.tries(state) - 1)

    execution = world.compensate(**order)

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "COMPENSATED")
    assert world.picture() == picture.reversed_from(4)
    assert "EnterLimbo" not in execution.visited


MATRIX = [(steps, state, fault) for steps in range(5) for state in STATES for fault in Fault]
UNHEARD = [
    (steps, state, fault)
    for steps, state, fault in MATRIX
    if fault.commits and (STATES[state] in STEPS[:steps] or state == "VoidHold")
]
"""Where a reversal commits and only its answer is lost. The last one finishes the settlement in any case."""

STUCK = [case for case in MATRIX if case not in UNHEARD]


@pytest.mark.parametrize(("steps", "state", "fault"), STUCK)
def test_a_fault_that_stays_leads_into_limbo_and_a_retry_out_of_it(
    world: World, steps: int, state: str, fault: Fault
) -> None:
    order, step = world.commit(steps), STATES[state]
    world.strike(state, fault)

    execution = world.compensate(**order)

    assert execution.is_waiting
    assert world.picture() == stuck_in_limbo(steps, state, fault)
    assert world.row()["stuck_step"] == f"compensate:{step}"
    assert (world.row()["failure"]["error"], world.row()["resolutions"]) == (fault.value[0], 0)
    moved = step in STEPS[:steps]
    barred = {"fee": [], "release": ["bob"], "hold": ["alice"]}[step] if moved else []
    assert [name for name in STARTING if world.limbo_keys(name)] == barred
    (page,) = world.events("LimboEntered")
    assert (page["stuck_step"], page["page"], page["case"]) == (f"compensate:{step}", 1, 1)
    amounts = {"fee": "0.48", "release": "47.72", "hold": "48.20"}
    assert page["amount_at_risk"] == (amounts[step] if moved else "0.00")

    world.faults.clear()
    execution.succeed(RETRY)
    world.drain()

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "COMPENSATED")
    assert world.picture() == picture.reversed_from(steps, {"limbo:1": None, "resolve:1": None})
    assert {name: world.available(name) for name in STARTING} == STARTING
    assert not any(world.limbo_keys(name) for name in STARTING)


@pytest.mark.parametrize(("steps", "state", "fault"), UNHEARD)
def test_a_reversal_that_committed_is_no_case_though_nobody_heard_of_it(
    world: World, steps: int, state: str, fault: Fault
) -> None:
    order = world.commit(steps)
    world.strike(state, fault, world.tries(state))

    execution = world.compensate(**order)

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "COMPENSATED")
    assert world.picture() == picture.reversed_from(steps)
    assert world.machines.events == []


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("steps", "state", "fault"), UNHEARD)
def test_a_reversal_of_which_nobody_ever_hears_does_not_go_round_in_circles(
    world: World, steps: int, state: str, fault: Fault
) -> None:
    """Its function does its work and never answers, not even where there is nothing left to do."""
    order = world.commit(steps)
    world.strike(state, fault)

    execution = world.compensate(**order)

    assert execution.is_waiting or execution.status != "RUNNING"
    assert world.picture().reversed >= {STATES[state]} & set(STEPS[:steps])


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

    world.compensate(reversal=ORDER | {"seen": "PROCESSING"})

    assert world.picture() == picture.compensated(STEPS[:3], {"reverse": None})


@pytest.mark.parametrize(("steps", "seen"), [(3, "SETTLED"), (4, "PROCESSING")])
def test_an_order_for_what_is_not_as_it_was_seen_writes_nothing(world: World, steps: int, seen: str) -> None:
    world.commit(steps)
    before = world.ledger.rows()

    execution = world.compensate(reversal=ORDER | {"seen": seen})

    assert (execution.status, execution.error["Error"]) == ("FAILED", "NotReversible")
    assert world.ledger.rows() == before


@pytest.mark.parametrize("steps", range(4))
def test_what_is_under_way_is_not_reversed_without_a_reason(world: World, steps: int) -> None:
    world.commit(steps)
    before = world.ledger.rows()

    execution = world.drive_on()

    assert (execution.status, execution.error["Error"]) == ("FAILED", "InvalidRequest")
    assert world.ledger.rows() == before


@pytest.mark.parametrize("state", STATES)
def test_what_is_being_reversed_is_driven_on_without_a_reason(world: World, state: str) -> None:
    world.compensation(**world.commit(4)).run(until=state).abort()

    execution = world.drive_on()

    assert execution.data["status"] == "COMPENSATED"
    assert world.picture() == picture.reversed_from(4)


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
