"""Several cases: two settlements of one account, and one settlement that gets stuck again."""

import pytest

from tests.handlers.calls import KEY, WIRE
from tests.simulation import picture
from tests.simulation.picture import ESCROW, STEPS, Move
from tests.simulation.stuck import (
    CASE_1,
    RETRIED,
    decision,
    in_limbo,
    repay,
    retried,
    spend,
    stuck,
    written_off,
)
from tests.simulation.world import ORDER, World
from tests.support.interpreter import Execution, TaskFailed

OTHER = "order-2026-000999"
OTHER_WIRE = WIRE | {"key": OTHER, "amount": "10.00", "fee": "0.10"}
AGAIN: dict[str, Move] = {"limbo:1": None, "resolve:1": None, "limbo:2": None}


def two_stuck(world: World) -> tuple[Execution, Execution]:
    """Let Alice pay Bob twice, 48.20 and 10.00, and reverse both payments after he has spent it all."""
    order = world.commit(4)
    assert world.settle(name="execution-2", data=OTHER_WIRE).data["status"] == "SETTLED"
    world.open("carol", 0)
    assert world.pay("bob", "carol", "62.62", "order-2026-spent-both").data["status"] == "SETTLED"
    first = world.compensate("first", **order)
    second = world.compensate("second", OTHER_WIRE, reversal=ORDER)
    assert world.limbo_keys("bob") == {KEY, OTHER}
    return first, second


def stuck_again(world: World) -> Execution:
    """Retry before Bob has funds: it gets stuck at the same step, as case 2."""
    execution = stuck(world)
    execution.succeed(decision("retry"))
    world.drain()
    assert execution.is_waiting
    assert world.picture() == in_limbo().having(entries=dict(in_limbo().entries) | AGAIN)
    assert world.row()["resolutions"] == 1
    return execution


@pytest.mark.parametrize("first_key", [KEY, OTHER])
@pytest.mark.parametrize("name", ["write-off", "complete"])
def test_an_account_leaves_limbo_only_with_its_last_settlement(
    world: World, name: str, first_key: str
) -> None:
    by_key = dict(zip((KEY, OTHER), two_stuck(world), strict=True))
    last_key = OTHER if first_key == KEY else KEY
    world.open("dave", 10_000)
    world.pay("dave", "bob", "10.00", "order-2026-from-dave-to-bob")

    by_key[first_key].succeed(decision(name))
    world.drain()

    assert world.limbo_keys("bob") == {last_key}
    blocked = world.pay("bob", "carol", "1.00", "order-2026-still-blocked")
    assert (blocked.data["status"], blocked.data["failure"]["error"]) == (
        "REJECTED",
        "AccountInLimbo",
    )
    assert world.picture(last_key).status == "LIMBO"

    by_key[last_key].succeed(decision("write-off"))
    world.drain()

    assert world.limbo_keys("bob") == set()
    assert world.pay("bob", "carol", "1.00", "order-2026-free-again").data["status"] == "SETTLED"
    assert world.picture(last_key).status == "COMPENSATED"
    losses = {KEY: 4_772, OTHER: 990}
    covered = losses.values() if name == "write-off" else [losses[last_key]]
    assert world.balance("losses:EUR") == -sum(covered)


def test_a_retry_that_is_stuck_again_is_a_new_case_with_its_own_alerts(world: World) -> None:
    execution = stuck_again(world)

    alerts = world.events("LimboEntered")
    assert [(alert["case"], alert["alert"]) for alert in alerts] == [(1, 1), (2, 1)]
    assert execution.wait_seconds == 1_800

    repay(world)
    execution.succeed(decision("retry"))
    world.drain()

    assert execution.data["status"] == "COMPENSATED"
    assert world.picture() == picture.reversed_from(4, AGAIN | {"resolve:2": None})
    assert [notice["case"] for notice in world.events("LimboResolved")] == [1, 2]
    assert world.limbo_keys("bob") == set()


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
def test_a_case_that_is_written_off_after_a_retry_covers_once(world: World) -> None:
    execution = stuck_again(world)

    execution.succeed(decision("write-off", case=2))
    world.drain()

    covered = AGAIN | picture.ordered(4) | {"resolve:2": ("losses:EUR", ESCROW, 4_772)}
    assert world.picture() == picture.compensated(STEPS, covered, covered=["release"])
    assert (world.available("alice"), world.balance("losses:EUR")) == (10_000, -4_772)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("how", ["to the waiting execution", "with a new execution"])
@pytest.mark.parametrize("name", ["write-off", "complete"])
def test_a_decision_on_an_earlier_case_does_not_apply_to_this_case(world: World, name: str, how: str) -> None:
    execution = stuck_again(world)
    before = world.picture()

    if how == "to the waiting execution":
        execution.succeed(decision(name, case=1))
        world.drain()
    else:
        late = world.compensate("late", resolution=decision(name, case=1))
        assert late.is_waiting

    assert execution.is_waiting
    assert world.picture() == before
    assert [notice["case"] for notice in world.events("LimboResolved")] == [1]


def test_a_decision_on_a_case_that_is_not_open_yet_is_refused(world: World) -> None:
    execution = stuck(world)

    refused = world.compensate("early", resolution=decision("write-off", case=2))
    execution.succeed(decision("write-off", case=2))
    world.drain()

    assert (refused.status, refused.error["Error"]) == ("FAILED", "ResolutionRefused")
    assert execution.is_waiting
    assert "number 1, not 2" in world.events("LimboEntered")[1]["refused"]
    assert world.picture() == in_limbo()


@pytest.mark.parametrize("opened", ["before its read", "between its read and its write"])
def test_a_machine_from_before_the_decision_cannot_put_it_into_limbo_again(world: World, opened: str) -> None:
    """It met the empty account too, but is slower: the case is decided, and the money is back."""
    order = world.commit(4)
    spend(world)
    slow = world.compensation("slow", **order).run(until="EnterLimbo")
    quick = world.compensation("quick").run()
    repay(world)

    def decide() -> None:
        quick.succeed(decision("retry"))
        quick.run(until="RefundFee")

    if opened == "before its read":
        decide()
    else:
        world.before["EnterLimbo"] = lambda: world.meanwhile("commit", decide)
    slow.run()
    world.drain()

    assert [slow.data["status"], quick.data["status"]] == ["COMPENSATED", "COMPENSATED"]
    assert world.picture() == retried()
    assert world.limbo_keys("bob") == set()


def test_a_reclaim_that_commits_late_finds_the_case_covered(world: World) -> None:
    """It was sent before the write-off, and commits between every two states after it."""
    execution = stuck(world)
    repay(world)
    knows = {"settlement": WIRE, "execution": "by-hand", "steps": list(STEPS), "reversed": ["fee"]}
    errors: list[str] = []

    def reclaim_late(one: Execution) -> None:
        try:
            world.invoke("ReclaimFunds", knows)
        except TaskFailed as failed:
            errors.append(failed.output["Error"])

    world.before["AnnounceResolution"] = lambda: setattr(world, "always", reclaim_late)

    execution.succeed(decision("write-off"))
    world.drain()

    assert errors == ["StepFenced"] * len(execution.visited[execution.visited.index("AnnounceResolution") :])
    assert world.picture() == written_off()
    assert world.available("bob") == 5_272


def test_two_machines_that_are_stuck_make_one_case(world: World) -> None:
    order = world.commit(4)
    spend(world)
    both = [world.compensation("one", **order), world.compensation("other", **order)]

    while not all(one.is_waiting for one in both):
        for one in both:
            if not one.is_waiting:
                one.advance()

    assert world.picture() == in_limbo()
    assert world.row()["waiting"]["token"] == both[1].token
    repay(world)
    both[1].succeed(decision("retry"))
    world.drain()
    both[0].time_out()
    world.drain()
    assert [one.data["status"] for one in both] == ["COMPENSATED", "COMPENSATED"]
    assert world.picture() == picture.reversed_from(4, CASE_1 | RETRIED)


@pytest.mark.parametrize("name", ["write-off", "complete"])
def test_no_execution_waits_for_a_decision_that_was_made_while_it_alerted(world: World, name: str) -> None:
    order = world.commit(4)
    spend(world)
    world.before["AwaitResolution"] = lambda: world.compensate("by-olga", resolution=decision(name))

    execution = world.compensate(**order)

    assert execution.status == "SUCCEEDED"
    assert "waiting" not in world.row()
    assert execution.data["status"] == world.row()["status"]
    assert world.row()["resolution"]["decision"] == name
