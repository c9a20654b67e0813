"""Many cases over one table, and a stage without executions: only the clock and recovery's schedule run."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from settlement.ledger.keys import Row
from tests.conftest import NOW
from tests.simulation.outside import Outside
from tests.simulation.stuck import in_limbo, spend
from tests.simulation.world import STARTING, World
from tests.support.kyc import APPROVED

HOURS_MAX = 30
"""The longest that a settlement may take to end, a review included."""


def in_each(world: World, outside: Outside, cases: Iterable[Any], act: Callable[[Any], object]) -> None:
    """Act on each case from the same start: with the present rows, and without executions.

    One table serves all cases, as a new one costs more than most cases do. There must be at least one case.
    """
    before = world.ledger.rows()
    case = None
    for case in cases:
        rewind(world, outside, before)
        try:
            act(case)
            world.assert_conserved()
        except BaseException as error:
            error.add_note(f"in the case {case!r}")
            raise
    assert case is not None


def rewind(world: World, outside: Outside, before: list[Row]) -> None:
    """Restore the rows, and forget every execution, fault and alert."""
    found = {(row["pk"], row["sk"]): row for row in world.ledger.rows()}
    for row in before:
        if found.pop((row["pk"], row["sk"]), None) != row:
            world.ledger.put(row)
    for pk, sk in found:
        world.ledger.client.delete_item(
            TableName=world.ledger.table_name, Key={"pk": {"S": pk}, "sk": {"S": sk}}
        )
    world.now, world.always = NOW, lambda execution: None
    world.provider.answer, world.provider.meanwhile = APPROVED, lambda: None
    for kept in (world.faults, world.before, world.provider.asked, world.called):
        kept.clear()
    for kept in (world.machines.executions, world.machines.events, outside.machines.started):
        kept.clear()
    outside.machines.before = outside.machines.after = outside.machines.describing = lambda: None
    outside.watch.forget()
    outside.watch.look()


def run_states(world: World, states: int) -> bool:
    """Run the executions for so many states, one after the other; return whether so many were left."""
    for _ in range(states):
        live = [one for one in world.machines.executions if one.status == "RUNNING" and not one.is_waiting]
        if not live:
            return False
        live[0].advance()
    return True


def stop_all(world: World) -> None:
    """Abort every execution that runs or waits, without notice."""
    for one in world.machines.executions:
        if one.status == "RUNNING":
            one.abort()


def has_ended(world: World) -> bool:
    """Return whether the settlement is finished, or an execution waits for a person's decision."""
    row = world.row()
    waits = {one.arn for one in world.machines.executions if one.status == "RUNNING" and one.is_waiting}
    if row["status"] == "LIMBO":
        return row.get("waiting", {}).get("execution") in waits
    return row["status"] in ("SETTLED", "REJECTED", "COMPENSATED")


def minutes_to_end(
    world: World, outside: Outside, fails: Callable[[int], object] = lambda minute: None
) -> int:
    """Run only the clock and recovery until the settlement ends; return how many minutes it took.

    Minutes in which nothing is due are skipped. `fails` is called with each minute before recovery.
    """
    began = world.now
    while not has_ended(world):
        row = world.row()
        due = row.get("recover_at", "") if row["status"] == "LIMBO" else row["gsi1sk"]
        world.now += timedelta(minutes=1)
        if due:
            world.now = max(world.now, datetime.fromisoformat(due))
        minute = round((world.now - began).total_seconds() / 60)
        assert minute <= 60 * HOURS_MAX, f"recovery has not ended it: {row}"
        fails(minute)
        outside.recover()
        world.drain()
    return round((world.now - began).total_seconds() / 60)


def half_settled(world: World) -> None:
    world.commit(2)


def released(world: World) -> None:
    world.commit(3)


def overdue(world: World) -> None:
    """Hold money up to the deadline."""
    world.commit(2)
    world.now = datetime.fromisoformat(world.row()["deadline_at"])


def half_reversed(world: World) -> None:
    world.compensation(**world.commit(4)).run(until="ReclaimFunds").abort()


def unattended(world: World) -> None:
    """Enter LIMBO, and abort the execution that has alerted on call."""
    order = world.commit(4)
    spend(world)
    world.compensate(**order).abort()
    assert world.picture() == in_limbo()


STOPPED: dict[str, Callable[[World], None]] = {
    "SETTLED": half_settled,
    "SETTLED in the end": released,
    "COMPENSATED": overdue,
    "COMPENSATED in the end": half_reversed,
    "LIMBO": unattended,
}
"""Settlements without an execution, by the status that they end in."""


def is_whole(world: World) -> bool:
    """Return whether both parties have their opening balances."""
    return {name: world.available(name) for name in STARTING} == STARTING
