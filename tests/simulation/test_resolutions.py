"""Only a person's decision leads out of LIMBO, and interruptions do not repeat it."""

import pytest

from settlement.core.ledger import keys
from settlement.core.model.errors import NotReversible, StepFenced
from tests.simulation.stuck import (
    COMPLETED,
    completed,
    decision,
    in_limbo,
    repay,
    retried,
    stuck,
    written_off,
)
from tests.world.constants import KEY
from tests.world.picture import HOW_FAR, STEPS, Picture, after
from tests.world.services import Died
from tests.world.world import ORDER, Fault, World

DECISIONS = ["retry", "write-off", "complete"]
OTHERS = [(one, other) for one in DECISIONS for other in DECISIONS if one != other]


def end(name: str, steps: int = len(STEPS)) -> Picture:
    return {"retry": retried, "write-off": written_off, "complete": completed}[name](steps)


def balances(name: str) -> dict[str, int]:
    """Return the final balances; Carol has Bob's money unless she repaid it."""
    return {
        "retry": {"alice": 10_000, "bob": 500, "carol": 0, "fees:EUR": 0, "losses:EUR": 0},
        "write-off": {"alice": 10_000, "bob": 0, "carol": 5_272, "fees:EUR": 0, "losses:EUR": -4_772},
        "complete": {"alice": 5_180, "bob": 0, "carol": 5_272, "fees:EUR": 48, "losses:EUR": 0},
    }[name]


def assert_ended(world: World, name: str, steps: int = len(STEPS)) -> None:
    assert world.picture() == end(name, steps)
    assert {account: world.balance(account) for account in balances(name)} == balances(name)
    assert world.limbo_cases("bob") == 0
    row = world.row()
    assert (row["resolutions"], row["resolution"]["decision"], row["resolution"]["by"]) == (1, name, "olga")
    assert not row.keys() & {"stuck_step", "gsi1pk"}


def prepare(world: World, name: str) -> None:
    if name == "retry":
        repay(world)


@pytest.mark.parametrize("name", DECISIONS)
def test_money_is_conserved_between_every_two_states(world: World, name: str) -> None:
    """Other tests check the books only at rest."""
    looks = 0

    def look(_: object) -> None:
        nonlocal looks
        world.assert_conserved()
        looks += 1

    world.always = look
    stuck(world)
    prepare(world, name)
    world.decide(decision(name))
    world.drain()

    assert looks == sum(len(one.visited) for one in world.machines.executions)
    assert_ended(world, name)


@pytest.mark.parametrize("steps", HOW_FAR[after("release") :])
@pytest.mark.parametrize("name", DECISIONS)
def test_each_decision_ends_as_designed(world: World, name: str, steps: int) -> None:
    execution = stuck(world, steps)
    prepare(world, name)

    world.decide(decision(name))
    world.drain()

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", end(name).status)
    assert_ended(world, name, steps)
    (notice,) = world.events("LimboResolved")
    said = (
        notice["key"],
        notice["case"],
        notice["account"],
        notice["decision"],
        notice["reason"],
        notice["by"],
    )
    assert said == (KEY, 1, "bob", name, f"decided to {name}", "olga")
    assert world.row().get("failure", {}).get("error") == (
        None if name == "complete" else "ReversalRequested" if steps == 4 else "DeadlineExceeded"
    )


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_is_carried_out_though_its_announcement_fails(
    world: World, name: str, fault: Fault
) -> None:
    """Money does not wait for the announcement, which only a completed settlement retries."""
    execution = stuck(world)
    prepare(world, name)
    world.strike("ResolveLimbo", fault, world.tries("ResolveLimbo"))

    world.decide(decision(name))
    world.drain()

    assert execution.status == "SUCCEEDED"
    assert_ended(world, name)
    assert len(world.events("LimboResolved")) == (1 if name == "complete" else 0)


@pytest.mark.parametrize("fault", ["before the wake", "after it"])
@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_survives_the_death_of_its_function_before_waking(
    world: World, name: str, fault: str
) -> None:
    execution = stuck(world)
    prepare(world, name)
    world.step_functions.failing["send_task_success"] = Died()
    world.step_functions.loses_answers = fault == "after it"
    with pytest.raises(Died):
        world.decide(decision(name))
    world.step_functions.failing.clear()

    if name == "complete":
        if fault == "before the wake":
            execution.time_out()
        world.drain()
    else:
        if fault == "after it":
            world.drain()
        world.pass_time(minutes=1)
        world.recover_all()

    assert_ended(world, name)
    assert [notice["decision"] for notice in world.events("LimboResolved")] == [name]


@pytest.mark.parametrize("state", ["ResolveLimbo", "AnnounceResolution", "BeginCompensation", "VoidHold"])
@pytest.mark.parametrize("name", DECISIONS)
def test_a_new_execution_completes_an_interrupted_decision(world: World, name: str, state: str) -> None:
    execution = stuck(world)
    prepare(world, name)
    world.decide(decision(name))
    execution.run(until=state)
    if execution.status == "RUNNING":
        execution.abort()
    world.assert_conserved()

    again = world.compensate("again", order="resolve:1")

    assert (again.status, again.data["status"]) == ("SUCCEEDED", end(name).status)
    assert_ended(world, name)


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_is_carried_out_although_no_execution_waits(world: World, name: str) -> None:
    stuck(world).abort()
    prepare(world, name)

    execution = world.compensate("by-olga", resolution=decision(name))

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", end(name).status)
    assert_ended(world, name)


@pytest.mark.parametrize("name", DECISIONS)
def test_the_waiting_execution_ends_although_another_resolved_the_case(world: World, name: str) -> None:
    waiting = stuck(world)
    prepare(world, name)
    world.ledger.delete(keys.waiting(KEY))
    world.compensate("by-olga", resolution=decision(name))

    waiting.time_out()
    world.drain()

    assert (waiting.status, waiting.data["status"]) == ("SUCCEEDED", end(name).status)
    assert_ended(world, name)
    assert len(world.events("LimboEntered")) == 1


@pytest.mark.parametrize("late", ["after the decision", "between its read and its write"])
@pytest.mark.parametrize(("first", "second"), OTHERS)
def test_a_second_and_different_decision_on_a_case_is_refused(
    world: World, first: str, second: str, late: str
) -> None:
    waiting = stuck(world)
    prepare(world, first)

    def decide_first() -> None:
        world.decide(decision(first))

    if late == "after the decision":
        decide_first()
    else:
        world.meanwhile("commit", decide_first)
    with pytest.raises(StepFenced, match=f"^resolve: case 1 was decided otherwise: {first} "):
        world.decide(decision(second) | {"by": "piet"})
    world.drain()

    assert (waiting.status, waiting.data["status"]) == ("SUCCEEDED", end(first).status)
    assert_ended(world, first)
    assert [(notice["decision"], notice["by"]) for notice in world.events("LimboResolved")] == [
        (first, "olga")
    ]


@pytest.mark.parametrize("forged", [decision("write-off"), decision("complete", case=1), {}, "yes", None])
def test_a_stolen_token_decides_nothing(world: World, forged: object) -> None:
    execution = stuck(world)

    execution.succeed(forged)
    world.drain()

    assert execution.is_waiting
    assert world.picture() == in_limbo()
    assert world.events("LimboResolved") == []


@pytest.mark.parametrize("steps", HOW_FAR[after("release") :])
def test_a_settlement_that_a_person_completed_is_never_reversed(world: World, steps: int) -> None:
    stuck(world, steps)
    world.decide(decision("complete"))
    world.drain()

    with pytest.raises(NotReversible):
        world.order("reverse", {"key": KEY, **ORDER})
    unordered = world.compensate("unordered")

    assert unordered.data["status"] == "SETTLED"
    assert world.picture() == completed(steps)
    assert world.picture().entries["resolve:1"] == COMPLETED["resolve:1"]


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_is_carried_out_although_its_notice_is_refused(world: World, name: str) -> None:
    execution = stuck(world)
    prepare(world, name)
    world.faults["AnnounceResolution"] = ("EventBridge.FailedEntry", False, 10**6)

    world.decide(decision(name))
    world.drain()

    assert (execution.status, world.events("LimboResolved")) == ("SUCCEEDED", [])
    assert_ended(world, name)

    world.faults.clear()
    world.compensate("told-again", order="resolve:1")

    assert [notice["decision"] for notice in world.events("LimboResolved")] == [name]
    assert_ended(world, name)
