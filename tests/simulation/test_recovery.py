"""Recovery may run any time: it resumes stalled settlements and reverses overdue ones."""

from datetime import datetime, timedelta

import pytest

from settlement.core.model.saga import SAGA
from settlement.core.model.timestamps import timestamp
from tests.world import picture
from tests.world.constants import KEY, NONCE, WIRE
from tests.world.definitions import BOTH, COMPENSATION, EXPRESS, STANDARD
from tests.world.interpreter import Execution
from tests.world.picture import HOW_FAR, STEPS, after
from tests.world.services import Died, throttled, unanswered
from tests.world.world import STARTING, World

FORWARD = {facts.state: number for number, facts in enumerate(SAGA.values()) if number}
"""Number of steps committed before each state."""


def recover_each_minute(world: World) -> None:
    """Let a minute pass, and run recovery, before each state."""

    def recover(execution: Execution) -> None:
        world.pass_time(minutes=1)
        assert world.recover() == []

    world.always = recover


@pytest.mark.parametrize("machine", BOTH)
def test_recovery_between_every_two_states_still_settles_once(world: World, machine: str) -> None:
    world.open_both()
    recover_each_minute(world)

    first = world.settle(machine)

    assert world.picture() == picture.of("SETTLED", STEPS)
    assert first.data["status"] == "SETTLED"
    taken = range(1, world.row()["owner_epoch"] + 1)
    assert world.step_functions.names == [f"{KEY}-r{n}-{NONCE}" for n in taken]
    assert {one.data["status"] for one in world.machines.executions} == {"SETTLED"}
    assert len(world.provider.asked) == 1


@pytest.mark.parametrize("steps", HOW_FAR)
def test_recovery_between_every_two_states_leaves_a_compensation_alone(world: World, steps: int) -> None:
    order = world.commit(steps)
    execution = world.compensation(**order)
    started = len(world.step_functions.names)
    execution.advance()
    world.until_deadline()
    recover_each_minute(world)

    execution.run()

    assert execution.data["status"] == "COMPENSATED"
    assert world.picture() == picture.reversed_from(steps)
    assert len(world.step_functions.names) == started


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("state", FORWARD)
def test_an_overdue_settlement_expires_at_any_state_before_its_release(
    world: World, state: str, machine: str
) -> None:
    world.open_both()

    def too_late() -> None:
        world.until_deadline()
        assert world.recover() == []
        recover_each_minute(world)

    world.before[state] = too_late

    world.settle(machine)

    if state == "CollectFee":
        assert world.picture() == picture.of("SETTLED", STEPS)
        assert world.step_functions.names[0] == f"{KEY}-r1-{NONCE}"
        assert world.of(COMPENSATION) == []
    else:
        first = world.machines.executions[0]
        assert world.picture().status == "COMPENSATED"
        assert world.picture().steps == frozenset(STEPS[: FORWARD[state]])
        assert world.step_functions.names[0] == f"{KEY}-c1-{NONCE}"
        # It is no longer the owner, which reports the settlement's end.
        assert first.data["status"] == "PROCESSING"
        assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize(("early_ms", "started"), [(1, [f"{KEY}-r1-{NONCE}"]), (0, [f"{KEY}-c1-{NONCE}"])])
@pytest.mark.parametrize("in_review", [False, True])
def test_the_deadline_is_kept_to_the_millisecond(
    world: World, in_review: bool, early_ms: int, started: list[str]
) -> None:
    if in_review:
        world.in_review()
    else:
        world.commit(after("hold"))
    row = world.row()
    deadline = datetime.fromisoformat(row["deadline_at"])
    if not in_review:  # recovery has looked before, and is next due half a minute before the deadline
        world.ledger.put(row | {"gsi1sk": timestamp(deadline - timedelta(seconds=30))})
    world.now = deadline - timedelta(milliseconds=early_ms, seconds=1)

    world.recover_all()

    assert world.step_functions.names == ([] if in_review and early_ms else started)


@pytest.mark.parametrize("steps", HOW_FAR[: after("release")])
def test_a_settlement_recovered_long_after_its_deadline_still_settles(world: World, steps: int) -> None:
    """A dead or late recovery does not justify returning the money."""
    world.commit(steps)
    world.pass_time(days=1)

    world.recover_all()

    assert world.picture() == picture.of("SETTLED", STEPS)
    assert world.step_functions.names == [f"{KEY}-r1-{NONCE}"]


@pytest.mark.parametrize("steps", HOW_FAR[:-1])
def test_a_settlement_beyond_standards_quota_settles_on_express(world: World, steps: int) -> None:
    world.commit(steps)
    world.pass_time(minutes=1)
    world.step_functions.refusing[STANDARD] = throttled("StartExecution")

    world.recover_all()

    assert world.picture() == picture.of("SETTLED", STEPS)
    assert [one.name for one in world.of(EXPRESS)] == [f"{KEY}-r1-{NONCE}"]
    assert all(one.name != f"{KEY}-r1-{NONCE}" for one in world.of(STANDARD))


@pytest.mark.parametrize("state", ["HoldFunds", *FORWARD])
def test_a_settlement_whose_express_execution_died_resumes_on_standard(world: World, state: str) -> None:
    world.commit(0)
    world.pass_time(minutes=1)
    world.step_functions.refusing[STANDARD] = throttled("StartExecution")
    assert world.recover() == []
    (overflowed,) = world.of(EXPRESS)
    overflowed.run(until=state).abort()
    world.step_functions.refusing.clear()
    world.pass_time(minutes=1)

    world.recover_all()

    assert world.picture() == picture.of("SETTLED", STEPS)
    assert [(machine, name) for machine, name, _ in world.step_functions.started] == [
        (EXPRESS, f"{KEY}-r1-{NONCE}"),
        (STANDARD, f"{KEY}-r2-{NONCE}"),
    ]


@pytest.mark.parametrize("steps", HOW_FAR[: after("release")])
def test_a_reversal_waits_for_quota_and_never_uses_express(world: World, steps: int) -> None:
    world.commit(steps)
    world.until_deadline()
    world.step_functions.refusing[COMPENSATION] = throttled("StartExecution")
    world.recover_all()
    assert (world.of(EXPRESS), world.row()["status"]) == ([], "PROCESSING")
    world.step_functions.refusing.clear()

    world.recover_all()

    assert world.picture() == (picture.compensated(STEPS[:steps]) if steps else picture.of("REJECTED"))


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("state", FORWARD)
def test_an_execution_that_wakes_after_a_takeover_is_harmless(world: World, state: str, machine: str) -> None:
    """The woken execution commits the new owner's steps, each once, and cannot begin a reversal."""
    world.open_both()

    def sleep_for_long() -> None:
        world.pass_time(hours=1)
        assert world.recover() == []

    world.before[state] = sleep_for_long

    world.settle(machine)

    assert world.picture() == picture.of("SETTLED", STEPS)
    assert world.step_functions.names == [f"{KEY}-r1-{NONCE}"]
    assert world.of(COMPENSATION) == []


def test_a_released_settlement_never_expires(world: World) -> None:
    """However late it is, its fee is collected, and the payee keeps the amount."""
    world.commit(after("release"))
    world.pass_time(days=30)

    world.recover_all()

    assert world.picture() == picture.of("SETTLED", STEPS)
    assert world.step_functions.names == [f"{KEY}-r1-{NONCE}"]


@pytest.mark.parametrize("steps", HOW_FAR[: after("release")])
def test_each_step_of_an_abandoned_settlement_is_refunded(world: World, steps: int) -> None:
    world.commit(steps)
    world.until_deadline()

    world.recover_all()

    assert world.picture() == (picture.compensated(STEPS[:steps]) if steps else picture.of("REJECTED"))
    assert world.row()["failure"]["cause"] == "recover: the time to settle is over"
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("befalls", [unanswered(), Died()], ids=["unreachable", "killed"])
@pytest.mark.parametrize("starts", [False, True])
def test_a_failed_start_is_repeated_at_the_next_listing(
    world: World, starts: bool, befalls: BaseException
) -> None:
    world.commit(after("verify"))
    world.until_deadline()
    world.step_functions.failing["start_execution"] = befalls
    world.step_functions.loses_answers = starts
    if isinstance(befalls, Died):
        with pytest.raises(Died):
            world.recover()
    else:
        assert world.recover() == ["StartUnavailable"]
    world.step_functions.failing.clear()
    world.recover()
    assert world.row()["owner_epoch"] == 1, "it is not due again yet"
    world.pass_time(seconds=60)

    world.recover_all()

    assert world.step_functions.names == [f"{KEY}-c{1 if starts else 2}-{NONCE}"], "one is enough"
    assert world.picture() == picture.compensated(STEPS[: after("verify")])


def test_a_settlement_that_cannot_start_delays_no_others(world: World) -> None:
    world.commit(after("hold"))
    others = [WIRE | {"key": f"order-2026-other-{n:02}", "amount": "1.00", "fee": "0.00"} for n in range(12)]
    for other in others:
        world.start(STANDARD, other["key"], other).run(until="VerifyKyc").abort()
    for other in others:
        row = world.row(other["key"])
        world.ledger.put(row | {"gsi1sk": row["deadline_at"]})
    world.until_deadline()

    def fail_once(operation: str) -> None:
        world.step_functions.before = lambda operation: None
        raise unanswered()

    world.step_functions.before = fail_once

    assert world.recover() == ["StartUnavailable"]
    world.drain()

    statuses = [world.row(other["key"])["status"] for other in [WIRE, *others]]
    assert sorted(statuses) == ["COMPENSATED"] * len(others) + ["PROCESSING"]


def test_two_concurrent_recoveries_start_one_compensation(world: World) -> None:
    world.commit(after("hold"))
    world.until_deadline()
    inner: list[list[str]] = []
    world.meanwhile("update", lambda: inner.append(world.recover()))

    world.recover_all()

    assert inner == [[]]
    assert world.step_functions.names == [f"{KEY}-c1-{NONCE}"]
    assert (world.row()["owner_epoch"], world.picture()) == (1, picture.compensated(["hold"]))


@pytest.mark.parametrize("steps", HOW_FAR)
def test_recovery_finishes_a_compensation_killed_before_each_state(world: World, steps: int) -> None:
    order = world.commit(steps)
    died: set[str] = set()

    def kill(execution: Execution) -> None:
        if execution.state not in died:
            died.add(execution.state)
            execution.abort()

    world.compensation(**order).advance()
    world.always = kill
    for _ in range(20):
        world.drain()
        world.pass_time(minutes=16)
        world.recover()

    reversals = {"fee": "RefundFee", "release": "ReclaimFunds", "hold": "VoidHold"}
    assert {reversals[step] for step in STEPS[:steps] if step in reversals} <= died
    assert world.picture() == picture.reversed_from(steps)
