"""A settlement whose executions are stopped at any state still ends: the clock and recovery are enough."""

import pytest

from settlement.model.errors import KycUnavailable
from tests.handlers.calls import KEY
from tests.simulation import picture
from tests.simulation.cases import has_ended, in_each, is_whole, minutes_to_end, run_states, stop_all
from tests.simulation.outside import Outside
from tests.simulation.picture import STEPS
from tests.simulation.stuck import in_limbo, spend
from tests.simulation.world import EXPRESS, STANDARD, Fault, World
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED

pytestmark = pytest.mark.parametrize("ledger", ["moto"], indirect=True)

ANSWERS = {
    "approved": (APPROVED, picture.of("SETTLED", STEPS)),
    "rejected": (REJECTED, picture.compensated(["hold"], {"verify": None})),
    "unavailable": (KycUnavailable("kyc: down"), picture.compensated(["hold"])),
    "in review": (IN_REVIEW, picture.compensated(["hold"])),
}
STATES_MAX = 25
"""More states than any settlement has, with the reversal that it starts."""

MINUTES_MAX = 2
REVIEW_MINUTES = 24 * 60
TASKS = ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee")
KILLED = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER)


PATHS = [(STANDARD, "approved"), (EXPRESS, "rejected"), (STANDARD, "rejected"), (EXPRESS, "unavailable")]
PATHS += [(STANDARD, "in review")]
"""The two machines differ only in how they start the compensation."""


@pytest.mark.parametrize(("machine", "answer"), PATHS)
def test_a_settlement_whose_executions_are_gone_after_any_state_ends_by_itself(
    world: World, outside: Outside, machine: str, answer: str
) -> None:
    verdict, ends = ANSWERS[answer]
    in_time = MINUTES_MAX + (answer == "in review") * REVIEW_MINUTES
    stopped: list[int] = []

    def stop(states: int) -> None:
        world.provider.answer = verdict
        world.start(machine)
        if not run_states(world, states):
            return
        was_over, asked = has_ended(world), len(world.provider.asked)
        stop_all(world)
        stopped.append(states)

        minutes = minutes_to_end(world, outside)

        assert world.picture() == ends
        assert minutes <= in_time
        assert bool(outside.machines.started) is not was_over
        if answer != "unavailable":  # which leaves no record
            assert len(world.provider.asked) == 1 >= asked
        assert is_whole(world) or answer == "approved"

    world.open_both()
    in_each(world, outside, range(1, STATES_MAX), stop)

    assert stopped == list(range(1, len(stopped) + 1))
    assert len(stopped) >= {"approved": 7, "in review": 6}.get(answer, 12)


def test_a_refusal_whose_execution_is_gone_after_any_state_ends_by_itself(
    world: World, outside: Outside
) -> None:
    def stop(states: int) -> None:
        world.start(EXPRESS)
        assert run_states(world, states)
        stop_all(world)

        assert minutes_to_end(world, outside) <= MINUTES_MAX

        assert world.picture() == picture.of("REJECTED")
        assert world.row()["failure"]["error"] == "InsufficientFunds"

    world.open("alice", 10)
    world.open("bob", 500)
    in_each(world, outside, range(1, 5), stop)


@pytest.mark.parametrize("steps", range(5))
def test_a_compensation_that_is_gone_after_any_state_is_finished_by_recovery(
    world: World, outside: Outside, steps: int
) -> None:
    order = world.commit(steps)

    def stop(states: int) -> None:
        world.compensation(**order)
        assert run_states(world, states)
        stop_all(world)

        assert minutes_to_end(world, outside) <= MINUTES_MAX

        assert world.picture() == picture.reversed_from(steps)
        assert is_whole(world)

    in_each(world, outside, range(1, 7), stop)


@pytest.mark.parametrize("steps", [3, 4])
def test_a_case_whose_execution_is_gone_after_any_state_is_alerted_and_waited_for(
    world: World, outside: Outside, steps: int
) -> None:
    """On call is alerted again, by an execution that waits for the decision."""
    order = world.commit(steps)
    spend(world)

    def stop(states: int) -> None:
        execution = world.compensation(**order)
        assert run_states(world, states)
        paged = len(world.events("LimboEntered"))
        assert paged == ("PageOnCall" in execution.visited)
        stop_all(world)

        assert minutes_to_end(world, outside) <= MINUTES_MAX

        assert world.picture() == in_limbo(steps)
        assert len(world.events("LimboEntered")) == paged + 1
        waits = [one for one in world.machines.executions if one.status == "RUNNING"]
        assert [one.name for one in waits] == outside.machines.started == [f"{KEY}-compensate-1"]
        assert world.row()["waiting"] == {"token": waits[0].token, "execution": waits[0].arn}

    in_each(world, outside, range(1, 10), stop)


def test_a_function_that_dies_until_its_execution_has_failed_is_called_again_by_recovery(
    world: World, outside: Outside
) -> None:
    def die(case: tuple[str, Fault]) -> None:
        world.strike(*case)
        execution = world.settle(EXPRESS)
        assert (execution.status, execution.error["Error"]) == ("FAILED", "SettlementStalled")
        world.faults.clear()

        assert minutes_to_end(world, outside) <= MINUTES_MAX

        assert world.picture() == picture.of("SETTLED", STEPS)

    world.open_both()
    # A claim that never committed has left no row: its caller repeats it.
    cases = [(state, fault) for state in TASKS for fault in KILLED if state != "ClaimKey" or fault.commits]
    in_each(world, outside, cases, die)
