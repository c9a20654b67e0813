"""The ends of a settlement after the provider's webhook."""

from settlement.model.timestamps import timestamp
from tests.handlers.calls import KEY
from tests.simulation import picture
from tests.simulation.outside import Outside
from tests.simulation.picture import STEPS, Picture
from tests.simulation.world import STARTING, World

VERDICT: dict[str, picture.Move] = {"verify": None}
ENDS: dict[str, Picture] = {
    "APPROVED": picture.of("SETTLED", STEPS),
    "REJECTED": picture.compensated(["hold"], VERDICT),
}


def assert_ended(world: World, outside: Outside, decision: str) -> None:
    """Assert that the execution started by the webhook has ended the settlement, and alone reverses it."""
    first, resumed = world.machines.executions[0], outside.resumed()
    assert (resumed.status, resumed.data["status"]) == ("SUCCEEDED", ENDS[decision].status)
    assert world.picture() == ENDS[decision]
    owner = f"{KEY}-compensate-1" if decision == "REJECTED" else resumed.name  # its own reversal, if any
    assert (world.row()["verdict"], world.row()["owner"]) == (decision, owner)
    numbers = [0] * ("Compensate" in first.visited) + [1] * (decision == "REJECTED")
    assert sorted(outside.compensations()) == [f"{KEY}-compensate-{number}" for number in numbers]
    balances = STARTING if decision == "REJECTED" else {"alice": 5_180, "bob": 5_272}
    assert {name: world.available(name) for name in STARTING} == balances
    assert_not_abandoned(world)


def assert_not_abandoned(world: World) -> None:
    """Assert that before the deadline money is held only while an execution runs or a review is open."""
    row = world.row()
    assert timestamp(world.now) < row["deadline_at"]
    lives = any(one.status == "RUNNING" for one in world.machines.executions)
    assert lives or not row["escrow"] or (row["status"] == "PROCESSING" and "review" in row)
