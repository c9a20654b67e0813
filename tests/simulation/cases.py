"""Many cases over one table, and what is left when everybody is gone: the clock, and recovery's schedule."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from settlement.rows import Row
from tests.conftest import NOW
from tests.simulation.outside import Outside
from tests.simulation.stuck import in_limbo, spend
from tests.simulation.world import STARTING, World
from tests.support.kyc import APPROVED

HOURS_MAX = 30
"""No settlement may take longer to end, a review included."""


def in_each(world: World, outside: Outside, cases: Iterable[Any], act: Callable[[Any], object]) -> None:
    """Act on each case as if it were the first: with the rows that there are now, and no execution known.

    A table of its own for each would cost more than most cases do. At least one case there must be.
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
    """Make the rows what they were, and forget every execution, fault and page."""
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


def goes_on(world: World, states: int) -> bool:
    """Let the executions go on by so many states, one after the other; return whether so many were left."""
    for _ in range(states):
        live = [one for one in world.machines.executions if one.status == "RUNNING" and not one.is_waiting]
        if not live:
            return False
        live[0].advance()
    return True


def stop_all(world: World) -> None:
    """Everything that runs is gone, also what only waits: nobody hears of it."""
    for one in world.machines.executions:
        if one.status == "RUNNING":
            one.abort()


def has_ended(world: World) -> bool:
    """Whether no more is to come by itself: it is finished, or an execution waits for a person's decision."""
    row = world.row()
    waits = {one.arn for one in world.machines.executions if one.status == "RUNNING" and one.is_waiting}
    if row["status"] == "LIMBO":
        return row.get("waiting", {}).get("execution") in waits
    return row["status"] in ("SETTLED", "REJECTED", "COMPENSATED")


def minutes_to_end(
    world: World, outside: Outside, fails: Callable[[int], object] = lambda minute: None
) -> int:
    """Let only the clock and recovery run, from minute to minute; return how many minutes it took.

    Minutes in which nothing is due are leapt over. `fails` is told of each minute ahead of recovery.
    """
    began = world.now
    while not has_ended(world):
        row = world.row()
        due = row.get("recover_at", "") if row["status"] == "LIMBO" else row["gsi1sk"]
        world.now += timedelta(minutes=1)
        if due:
            world.now = max(world.now, datetime.fromisoformat(due))
        minute = round((world.now - began).total_seconds() / 60)
        assert minute <= 60 * HOURS_MAX, f"nobody has ended it: {row}"
        fails(minute)
        outside.recover()
        world.drain()
    return round((world.now - began).total_seconds() / 60)


def half_settled(world: World) -> None:
    world.commit(2)


def released(world: World) -> None:
    world.commit(3)


def overdue(world: World) -> None:
    """It holds money at its deadline."""
    world.commit(2)
    world.now = datetime.fromisoformat(world.row()["deadline_at"])


def half_reversed(world: World) -> None:
    world.compensation(**world.commit(4)).run(until="ReclaimFunds").abort()


def unattended(world: World) -> None:
    """It is in LIMBO, and the execution that has paged is gone."""
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
"""A settlement of each kind that nobody drives, by what becomes of it."""


def is_whole(world: World) -> bool:
    """Whether both parties have what they had at first."""
    return {name: world.available(name) for name in STARTING} == STARTING
