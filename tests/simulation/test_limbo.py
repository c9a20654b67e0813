"""A stuck reversal blocks the account, and alerts until a person decides."""

import pytest

from settlement.core.ledger import keys
from tests.simulation.stuck import (
    CASE_1,
    RETRIED,
    decision,
    in_limbo,
    spend,
    stuck,
    written_off,
)
from tests.world import picture
from tests.world.constants import KEY
from tests.world.definitions import BOTH, EXPRESS
from tests.world.picture import HOW_FAR, STEPS, after
from tests.world.world import Fault, World


@pytest.mark.parametrize("steps", HOW_FAR[after("release") :])
def test_the_alert_has_all_facts_of_the_case(world: World, steps: int) -> None:
    execution = stuck(world, steps)

    (alert,) = world.events("LimboEntered")

    row = world.row()
    said = {
        name: value for name, value in alert.items() if name not in ("summary", "runbook", "next_command")
    }
    assert said == {
        "key": KEY,
        "case": 1,
        "account": "bob",
        "stuck_step": "compensate:release",
        "amount_at_risk": "47.72",
        "currency": "EUR",
        "failure": row["failure"],
        "since": row["gsi1sk"],
        "alert": 1,
        "execution_arn": execution.arn,
    }
    assert (alert["failure"]["error"], alert["failure"]["step"]) == (
        "InsufficientFunds",
        "compensate:release",
    )
    waiting = world.waiting()
    assert (waiting["token"], waiting["execution"], waiting["case"]) == (execution.token, execution.arn, 1)


def test_a_blocked_account_receives_payments_but_places_no_hold(world: World) -> None:
    stuck(world)
    assert world.pay("carol", "bob", "10.00", "order-2026-helps-bob").data["status"] == "SETTLED"

    refused = world.pay("bob", "carol", "1.00", "order-2026-by-a-blocked")
    others = world.pay("alice", "carol", "1.00", "order-2026-by-another")

    assert (refused.data["status"], refused.data["failure"]["error"]) == ("REJECTED", "AccountInLimbo")
    assert others.data["status"] == "SETTLED"


@pytest.mark.parametrize("machine", BOTH)
def test_a_payee_who_spends_before_the_compensation_causes_limbo(world: World, machine: str) -> None:
    world.open_both()

    def spend_and_fence() -> None:
        spend(world)
        world.compensation("another").advance()
        world.machines.executions[-1].abort()

    world.before["CollectFee"] = spend_and_fence

    execution = world.settle(machine)

    assert world.picture() == in_limbo(3)
    if machine == EXPRESS:
        assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "COMPENSATING")
    else:
        assert execution.status == "RUNNING"
        assert execution.is_waiting
    world.decide(decision("write-off"))
    world.drain()
    assert execution.status == "SUCCEEDED"
    assert world.picture() == written_off(3)


def test_alerts_repeat_after_doubled_waits_until_a_decision(world: World) -> None:
    execution = stuck(world)
    waits = []

    for _ in range(8):
        waits.append(execution.wait_seconds)
        execution.time_out()
        world.drain()

    assert waits == [1_800, 3_600, 7_200, 14_400, 28_800, 57_600, 86_400, 86_400]
    assert [alert["alert"] for alert in world.events("LimboEntered")] == list(range(1, 10))
    assert {alert["since"] for alert in world.events("LimboEntered")} == {world.row()["gsi1sk"]}
    assert world.waiting()["token"] == execution.token
    assert world.picture() == in_limbo()


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("state", ["EnterLimbo", "PrepareAlert"])
def test_another_execution_repairs_one_that_fails_entering_limbo(
    world: World, state: str, fault: Fault
) -> None:
    order = world.commit(after("fee"))
    spend(world)
    world.strike(state, fault)

    execution = world.compensate(**order)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "CompensationStalled")
    is_in = state == "PrepareAlert" or fault.commits
    begun = picture.reversing("COMPENSATING", STEPS, ["fee"], picture.ordered(after("fee")))
    assert world.picture() == (in_limbo() if is_in else begun)
    assert world.limbo_cases("bob") == is_in
    assert world.events("LimboEntered") == []

    world.faults.clear()
    again = world.compensate("again")
    assert again.is_waiting
    assert world.picture() == in_limbo()
    assert [alert["alert"] for alert in world.events("LimboEntered")] == [1]


@pytest.mark.parametrize("error", ["EventBridge.FailedEntry", "EventBridge.AccessDeniedException"])
def test_a_refused_alert_fails_the_execution_but_limbo_stays(world: World, error: str) -> None:
    order = world.commit(after("fee"))
    spend(world)
    world.faults["PageOnCall"] = (error, False, 10**6)

    execution = world.compensate(**order)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "PagerUnreachable")
    assert world.picture() == in_limbo()
    assert world.limbo_cases("bob") == 1


def test_an_alert_that_the_bus_refuses_fails_the_execution(world: World) -> None:
    order = world.commit(after("fee"))
    spend(world)
    execution = world.compensation(**order).run(until="IsPaged")
    execution.data["put"]["FailedEntryCount"] = 1

    execution.run()

    assert (execution.status, execution.error["Error"]) == ("FAILED", "PagerUnreachable")


NOT_LATE = [Fault.REFUSED_BY_STORE, Fault.KILLED_BEFORE, Fault.KILLED_AFTER]


@pytest.mark.parametrize("fault", NOT_LATE)
def test_failed_attempts_to_begin_the_wait_have_no_effect(world: World, fault: Fault) -> None:
    world.strike("AwaitResolution", fault, world.tries("AwaitResolution") - 1)

    execution = stuck(world)

    assert len(world.events("LimboEntered")) == 1
    assert world.waiting()["token"] == execution.token


@pytest.mark.parametrize("end", [*NOT_LATE, "the task is failed by hand"])
def test_a_wait_that_cannot_begin_alerts_only_on_schedule(world: World, end: Fault | str) -> None:
    if isinstance(end, Fault):
        world.strike("AwaitResolution", end, world.tries("AwaitResolution"))
    execution = stuck(world)
    if isinstance(end, str):
        for _ in range(world.tries("AwaitResolution")):
            execution.fail("Nonsense")
            execution.run()
    assert (execution.state, execution.wait_seconds) == ("PauseBetweenAlerts", 1_800)
    assert len(world.events("LimboEntered")) == 1

    execution.time_out()
    world.drain()

    assert [alert["alert"] for alert in world.events("LimboEntered")] == [1, 2]
    assert (execution.state, execution.wait_seconds) == ("AwaitResolution", 3_600)
    assert world.waiting()["token"] == execution.token
    world.decide(decision("write-off"))
    world.drain()
    assert world.picture() == written_off()


@pytest.mark.parametrize("gone", ["payee", "payer"])
def test_a_missing_account_leads_to_limbo_without_a_block(world: World, gone: str) -> None:
    order = world.commit(after("fee"))
    name, step = {"payee": ("bob", "release"), "payer": ("alice", "hold")}[gone]
    undone = ["fee"] if gone == "payee" else ["fee", "release"]

    with world.without(name):
        execution = world.compensate(**order)
        assert execution.is_waiting
        assert world.picture() == picture.reversing(
            "LIMBO", STEPS, undone, picture.ordered(after("fee")) | CASE_1
        )
        assert world.row()["stuck_step"] == f"compensate:{step}"
        assert world.row()["failure"]["error"] == "AccountNotFound"
    assert world.limbo_cases(name) == 0
    world.ledger.put((world.ledger.row(keys.account(name)) or {}) | {"limbo_cases": 1})  # restored by hand
    world.decide(decision("retry"))
    world.drain()

    assert execution.data["status"] == "COMPENSATED"
    assert world.picture() == picture.reversed_from(after("fee"), CASE_1 | RETRIED)
