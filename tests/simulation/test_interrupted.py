"""A compensation that is killed and restarted, or that runs twice at once, reverses each step once."""

import pytest

from tests.simulation import picture
from tests.simulation.world import STARTING, World

PATH = ["BeginCompensation", "IsDecided", "RefundFee", "ReclaimFunds", "VoidHold", "ReportOutcome"]
CROSSINGS = [(first, second) for first in range(len(PATH)) for second in range(len(PATH))]


@pytest.mark.parametrize("steps", [1, 4])
def test_a_compensation_that_is_aborted_before_each_state_in_turn_reaches_its_end(
    world: World, steps: int
) -> None:
    order = world.commit(steps)

    for state in PATH:
        execution = world.compensation(f"until-{state}", **order)
        execution.run(until=state)
        if execution.status == "RUNNING":
            execution.abort()
    last = world.compensate("last", **order)

    assert (last.status, last.data["status"]) == ("SUCCEEDED", "COMPENSATED")
    assert world.picture() == picture.reversed_from(steps)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("first", "second"), CROSSINGS)
def test_two_compensations_that_cross_anywhere_reverse_each_step_once(
    world: World, first: int, second: int
) -> None:
    """The first runs up to a state, the other up to a state, then the first to its end, then the other."""
    order = world.commit(4)
    one, other = world.compensation("one", **order), world.compensation("other", **order)

    one.run(until=PATH[first])
    other.run(until=PATH[second])
    one.run()
    other.run()

    assert [one.data["status"], other.data["status"]] == ["COMPENSATED", "COMPENSATED"]
    assert world.picture() == picture.reversed_from(4)
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("steps", range(5))
def test_two_compensations_in_step_reverse_each_step_once(world: World, steps: int) -> None:
    order = world.commit(steps)
    both = [world.compensation("one", **order), world.compensation("other", **order)]

    while any(one.status == "RUNNING" for one in both):
        for one in both:
            if one.status == "RUNNING":
                one.advance()

    assert [one.data["status"] for one in both] == ["COMPENSATED", "COMPENSATED"]
    assert world.picture() == picture.reversed_from(steps)
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("state", PATH[2:5])
def test_a_compensation_that_starts_while_another_runs_does_the_rest(world: World, state: str) -> None:
    order = world.commit(3)
    world.before[state] = lambda: world.compensation("other").run()

    execution = world.compensate(**order)

    assert [one.status for one in world.machines.executions[1:]] == ["SUCCEEDED", "SUCCEEDED"]
    assert execution.data["status"] == "COMPENSATED"
    assert world.picture() == picture.reversed_from(3)


@pytest.mark.parametrize("decides", ["the one that is stuck", "the other"])
@pytest.mark.parametrize("fault_before", ["RefundFee", "ReclaimFunds", "VoidHold"])
def test_a_compensation_that_gets_stuck_beside_another_ends_in_the_same_state(
    world: World, fault_before: str, decides: str
) -> None:
    order = world.commit(4)
    stuck, other = world.compensation("stuck", **order), world.compensation("other", **order)
    for one in (stuck, other):
        one.run(until=fault_before)
    world.faults[fault_before] = ("StoreUnavailable", False, world.tries(fault_before))
    stuck.advance()
    if decides == "the other":
        other.advance()
    world.faults.clear()
    stuck.run()
    other.run()
    limbo = world.row()["status"] == "LIMBO"
    assert "EnterLimbo" not in other.visited

    if limbo:
        token = world.row()["waiting"]["token"]
        world.machines.waiter(token).succeed({"decision": "retry", "reason": "again", "by": "olga"})
        world.drain()
    for one in (stuck, other):
        if one.is_waiting:
            one.time_out()
    world.drain()

    assert [stuck.data["status"], other.data["status"]] == ["COMPENSATED", "COMPENSATED"]
    entries = {"limbo:1": None, "resolve:1": None} if limbo else {}
    assert world.picture() == picture.reversed_from(4, entries)
    assert limbo is (decides == "the one that is stuck")
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("state", PATH[2:5])
def test_a_step_that_another_execution_reverses_meanwhile_makes_no_case(world: World, state: str) -> None:
    """EnterLimbo has read the row and is about to write when the other execution reverses that step."""
    order = world.commit(4)
    stuck, other = world.compensation("stuck", **order), world.compensation("other", **order)
    for one in (stuck, other):
        one.run(until=state)
    world.faults[state] = ("StoreUnavailable", False, world.tries(state))
    stuck.advance()
    world.meanwhile("commit", other.advance)

    stuck.run()
    world.drain()

    assert [stuck.data["status"], other.data["status"]] == ["COMPENSATED", "COMPENSATED"]
    assert "EnterLimbo" in stuck.visited
    assert world.picture() == picture.reversed_from(4)
    assert world.machines.events == []
