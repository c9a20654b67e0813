"""Several executions run one settlement: only the right one reverses it, and it ends."""

from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from handlers import recover_stalled
from tests.handlers.calls import KEY, WIRE
from tests.simulation import picture
from tests.simulation.cases import half_reversed, in_each, minutes_to_end, run_states, stop_all
from tests.simulation.decided import ENDS
from tests.simulation.outside import Invocation, Killed, Outside, killed
from tests.simulation.picture import STEPS, Picture
from tests.simulation.stuck import completed, decision, repay, retried, stuck, written_off
from tests.simulation.world import COMPENSATION, EXPRESS, ORDER, World
from tests.support.interpreter import Execution
from tests.support.kyc import IN_REVIEW

pytestmark = pytest.mark.parametrize("ledger", ["moto"], indirect=True)

SETTLED = picture.of("SETTLED", STEPS)
WITHIN = "within BeginCompensation"
PLACES = ["Compensate", "BeginCompensation", WITHIN]
FAILS = {"VerifyKyc": "KycUnavailable", "ReleaseFunds": "CapExceeded", "CollectFee": "StepFenced"}
"""The errors for which an execution asks for the reversal."""

LEFT_ALONE = ["BeginCompensation", "IsDecided", "ReportOutcome"]
DECISIONS: dict[str, Callable[[], Picture]] = {
    "retry": retried,
    "write-off": written_off,
    "complete": completed,
}


def owner_fails(
    world: World, outside: Outside, state: str, place: str, meanwhile: Callable[[Execution], object]
) -> tuple[Execution, Execution]:
    """Let recovery's execution take over from a slow one and fail; `meanwhile` the slow one continues."""
    slow = world.start(EXPRESS).run(until="VerifyKyc")
    world.pass_time(minutes=1)
    assert outside.recover() == []
    owner = world.machines.executions[-1]

    def act() -> None:
        world.faults.clear()
        meanwhile(slow)

    world.faults[state] = (FAILS[state], False, 10**6)
    world.before["BeginCompensation" if place == WITHIN else place] = (
        (lambda: world.meanwhile("update", act)) if place == WITHIN else act
    )
    owner.run()
    return slow, owner


@pytest.mark.parametrize("dies", [True, False])
def test_a_settlement_released_while_its_owner_fails_is_settled_and_not_reversed(
    world: World, outside: Outside, dies: bool
) -> None:
    def fail(case: tuple[str, str]) -> None:
        slow, owner = owner_fails(world, outside, *case, lambda slow: slow.run(until="CollectFee"))

        assert (owner.status, owner.data["status"]) == ("SUCCEEDED", "PROCESSING")
        assert world.picture() == picture.of("PROCESSING", STEPS[:3])
        (idle,) = (one for one in world.machines.executions if one.machine == COMPENSATION)
        assert (idle.name, idle.visited) == (f"{KEY}-compensate-1", LEFT_ALONE)
        if dies:
            slow.abort()
        world.drain()
        assert minutes_to_end(world, outside) <= 2 * dies
        assert world.picture() == SETTLED
        assert outside.machines.started == [f"{KEY}-r1", f"{KEY}-r2"][: 1 + dies]

    world.open_both()
    in_each(world, outside, product(FAILS, PLACES), fail)


def test_a_settlement_verified_while_its_owner_fails_is_reversed(world: World, outside: Outside) -> None:
    def fail(place: str) -> None:
        slow, owner = owner_fails(
            world, outside, "VerifyKyc", place, lambda slow: slow.run(until="ReleaseFunds")
        )
        world.drain()

        assert (owner.data["status"], slow.status) == ("COMPENSATED", "SUCCEEDED")
        assert world.picture() == picture.compensated(STEPS[:2])
        assert world.row()["owner"] == f"{KEY}-compensate-1"

    world.open_both()
    in_each(world, outside, PLACES, fail)


@pytest.mark.parametrize("decides", ENDS)
def test_a_payment_that_enters_review_while_its_owner_fails_waits_for_the_reviews_end(
    world: World, outside: Outside, decides: str
) -> None:
    def fail(place: str) -> None:
        world.provider.answer = IN_REVIEW
        slow, owner = owner_fails(world, outside, "VerifyKyc", place, Execution.run)

        assert [one.data["status"] for one in (slow, owner)] == ["PROCESSING", "PROCESSING"]
        assert world.picture() == picture.of("PROCESSING", STEPS[:1])
        assert world.row()["review"] == "ver_1"
        assert world.machines.executions[-1].visited == LEFT_ALONE
        assert outside.webhook(decides) == 200
        world.drain()
        assert world.picture() == ENDS[decides]

    world.open_both()
    in_each(world, outside, PLACES, fail)


@pytest.mark.parametrize("pauses", [False, True])
@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_whose_execution_is_gone_is_completed_though_another_still_waits_for_one(
    world: World, outside: Outside, name: str, pauses: bool
) -> None:
    """The execution that alerted may wait or pause for a day: it does not own the decided settlement."""
    stuck(world)
    if name == "retry":
        repay(world)

    def die(states: int) -> None:
        waits = world.start(COMPENSATION, "alerts", {"settlement": WIRE}).run()
        if pauses:
            waits.fail("Nonsense")
            waits.run()
        resolution = decision(name, case=1)
        decided = world.start(COMPENSATION, "by-olga", {"settlement": WIRE, "resolution": resolution})
        decided.run(until="AnnounceResolution")
        for _ in range(states):
            decided.advance()
        was_over = world.row()["status"] in ("SETTLED", "COMPENSATED")
        assert was_over or world.row()["owner"] == "by-olga"
        decided.abort()
        assert waits.status == "RUNNING"

        assert minutes_to_end(world, outside) <= 2 * (not was_over)

        assert world.picture() == DECISIONS[name]()
        assert outside.machines.started == [f"{KEY}-compensate-1"] * (not was_over)
        before = world.ledger.rows()
        waits.time_out()
        world.drain()
        assert (waits.status, world.ledger.rows()) == ("SUCCEEDED", before)

    in_each(world, outside, range(4 if name == "complete" else 7), die)


def test_recovery_begins_a_reversal_that_stopped_right_after_its_order(
    world: World, outside: Outside
) -> None:
    """The order is on record, but its execution is not the owner yet."""
    world.commit(4)
    execution = world.compensation(reversal=ORDER)
    world.meanwhile("update", killed)
    with suppress(Killed):
        execution.run()
    assert (world.row()["status"], world.row()["owner"]) == ("COMPENSATING", "execution-1")
    stop_all(world)

    assert minutes_to_end(world, outside) <= 2

    assert world.picture() == picture.reversed_from(4)
    assert outside.machines.started == [f"{KEY}-compensate-1"]


def test_a_resumed_reversal_is_not_taken_over_until_its_execution_is_gone(
    world: World, outside: Outside
) -> None:
    half_reversed(world)

    def resume(states: int) -> None:
        resumed = world.start(COMPENSATION, "resume", {"settlement": WIRE})
        assert run_states(world, states)
        assert world.row()["owner"] == "resume"
        for _ in range(2):
            world.pass_time(minutes=20)
            assert outside.recover() == []
        assert outside.machines.started == []
        resumed.abort()

        assert minutes_to_end(world, outside) <= 16

        assert outside.machines.started == [f"{KEY}-compensate-1"]
        assert world.picture() == picture.reversed_from(4)

    in_each(world, outside, range(1, 5), resume)


def test_recovery_on_request_starts_a_reversal_once_however_often_it_is_requested(
    world: World, outside: Outside
) -> None:
    half_reversed(world)

    def ask() -> Any:
        return recover_stalled.handler({"key": KEY}, Invocation())

    name = f"{KEY}-compensate-1"
    nothing = {"key": KEY, "action": "none", "execution": None}

    assert ask() == {"key": KEY, "action": "compensate", "execution": name}
    running = world.machines.executions[-1]
    for state in ("BeginCompensation", "ReclaimFunds", "VoidHold", "ReportOutcome"):
        running.run(until=state)
        assert ask() == nothing
    world.drain()

    assert ask() == nothing
    assert outside.machines.started == [name]
    assert world.picture() == picture.reversed_from(4)
