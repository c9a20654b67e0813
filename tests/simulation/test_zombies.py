"""A call that has timed out continues and commits late: after the fence it has no effect."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.handlers.calls import WIRE
from tests.simulation import picture
from tests.simulation.picture import STEPS
from tests.simulation.world import ERROR, ORDER, STANDARD, STARTING, World
from tests.support.interpreter import ARN, Execution, TaskFailed

CALLS = {"hold": "HoldFunds", "verify": "VerifyKyc", "release": "ReleaseFunds", "fee": "CollectFee"}
REVERSALS = {"RefundFee": "fee", "ReclaimFunds": "release", "VoidHold": "hold"}


def late_call(world: World, step: str) -> object:
    """Make the call of a forward step, as its execution made it long ago."""
    payload = {"settlement": WIRE, "execution": "execution-1", "claimed_at": "2026-11-20T12:00:00.123Z"}
    return world.invoke(CALLS[step], payload)


def error_of(call: Callable[[], object]) -> str:
    try:
        call()
    except TaskFailed as failed:
        return failed.output["Error"]
    return "committed"


@pytest.mark.parametrize("step", STEPS)
def test_a_late_step_is_fenced_between_every_two_states_of_the_compensation(
    world: World, fenced: Callable[[], int], step: str
) -> None:
    done = STEPS.index(step)
    order = world.commit(done)
    met: list[tuple[str, str]] = []

    def haunt(execution: Execution) -> None:
        if execution.state != "BeginCompensation":
            before = world.ledger.rows()
            met.append((execution.state, error_of(lambda: late_call(world, step))))
            assert world.ledger.rows() == before

    world.always = haunt
    fenced()

    world.compensate(**order)

    states = ["IsDecided", "RefundFee", "ReclaimFunds", "VoidHold", "ReportOutcome"]
    assert met == [(state, "StepFenced") for state in states]
    assert fenced() == len(states)
    assert error_of(lambda: late_call(world, step)) == "StepFenced"
    assert world.picture() == picture.reversed_from(done)
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("method", ["claim", "update"])
def test_a_late_step_that_comes_before_the_fence_is_reversed_too(
    world: World, step: str, method: str
) -> None:
    """The fence is BeginCompensation's update; the late call commits right before it or before the claim."""
    done = STEPS.index(step)
    order = world.commit(done)
    execution = world.compensation(**order)
    world.meanwhile(method, lambda: late_call(world, step))

    execution.run()

    if step == "fee":
        assert world.picture() == picture.of("SETTLED", STEPS)
        assert execution.data["status"] == "SETTLED"
    else:
        assert world.picture() == picture.compensated(STEPS[: done + 1])
        assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("step", STEPS)
def test_a_late_answer_of_a_step_that_did_commit_changes_nothing(world: World, step: str) -> None:
    order = world.commit(STEPS.index(step) + 1)
    first = late_call(world, step)

    def haunt(execution: Execution) -> None:
        if world.row()["status"] != "COMPENSATED":
            before = world.ledger.rows()
            assert late_call(world, step) == first
            assert world.ledger.rows() == before

    world.always = haunt

    world.compensate(**order)

    assert world.picture() == picture.reversed_from(STEPS.index(step) + 1)


def test_a_late_claim_of_a_key_with_a_tombstone_finds_it_finished(world: World) -> None:
    world.open_both()
    world.compensate(error=ERROR)

    names = {"execution": "execution-1", "execution_arn": f"{ARN}:execution:{STANDARD}:execution-1"}
    late = world.invoke("ClaimKey", {"settlement": WIRE, **names})

    assert late["replayed"] is True
    assert world.picture() == picture.of("REJECTED")
    assert error_of(lambda: late_call(world, "hold")) == "StepFenced"
    assert world.row()["failure"]["step"] == "claim"
    assert world.picture() == picture.of("REJECTED")


@pytest.mark.parametrize("state", REVERSALS)
@pytest.mark.parametrize("steps", [1, 3, 4])
def test_a_reversal_that_commits_late_counts_once(world: World, steps: int, state: str) -> None:
    """A call from before the first reversal, which knows of none, comes between every two states."""
    order = world.commit(steps)
    knows = {"settlement": WIRE, "execution": "by-hand", "steps": list(STEPS[:steps]), "reversed": []}
    called = 0

    def haunt(execution: Execution) -> None:
        nonlocal called
        if execution.state not in ("BeginCompensation", "IsDecided"):
            error_of(lambda: world.invoke(state, knows))
            called += 1

    world.always = haunt

    execution = world.compensate(**order)

    expected = picture.reversed_from(steps)
    if (steps, state) == (1, "VoidHold"):  # the settlement is finished, and no reversal is left to skip
        expected = replace(
            expected, entries={step: moved for step, moved in expected.entries.items() if moved}
        )
    assert called >= 1
    assert execution.data["status"] == "COMPENSATED"
    assert world.picture() == expected
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("method", ["claim", "update"])
def test_a_settlement_that_settles_before_the_fence_is_reported_and_not_changed(
    world: World, method: str
) -> None:
    order = world.commit(2)
    execution = world.compensation(**order)
    world.meanwhile(method, lambda: [late_call(world, step) for step in ("release", "fee")])

    execution.run()

    assert (execution.data["status"], execution.data["replayed"]) == ("SETTLED", False)
    assert world.picture() == picture.of("SETTLED", STEPS)


@pytest.mark.parametrize("step", STEPS)
def test_a_late_step_between_a_persons_read_and_their_order_counts(world: World, step: str) -> None:
    """An order to reverse a PROCESSING settlement is no order to reverse a SETTLED one."""
    done = STEPS.index(step)
    world.commit(done)
    execution = world.compensation(reversal=ORDER | {"expected_status": "PROCESSING"})
    world.meanwhile("transact", lambda: late_call(world, step))

    execution.run()

    if step == "fee":
        assert (execution.status, execution.error["Error"]) == ("FAILED", "NotReversible")
        assert world.picture() == picture.of("SETTLED", STEPS)
    else:
        assert world.picture() == picture.compensated(STEPS[: done + 1], {"reverse": None})
