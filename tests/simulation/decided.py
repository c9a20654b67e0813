"""How a settlement ends upon the provider's webhook."""

from settlement import rows
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
    """The execution that the webhook started has brought it to this end; it alone reverses, if anybody."""
    first, resumed = world.machines.executions[0], outside.resumed()
    assert (resumed.status, resumed.data["status"]) == ("SUCCEEDED", ENDS[decision].status)
    assert world.picture() == ENDS[decision]
    owner = f"{KEY}-compensate-1" if decision == "REJECTED" else resumed.name  # its own reversal, if any
    assert (world.row()["verdict"], world.row()["owner"]) == (decision, owner)
    numbers = [0] * ("Compensate" in first.visited) + [1] * (decision == "REJECTED")
    assert sorted(outside.compensations()) == [f"{KEY}-compensate-{number}" for number in numbers]
    balances = STARTING if decision == "REJECTED" else {"alice": 5_180, "bob": 5_272}
    assert {name: world.available(name) for name in STARTING} == balances
    assert_driven(world)


def assert_driven(world: World) -> None:
    """Before the deadline, money is held only where an execution lives, or where the provider reviews."""
    row = world.row()
    assert rows.timestamp(world.now) < row["deadline_at"]
    lives = any(one.status == "RUNNING" for one in world.machines.executions)
    assert lives or not row["escrow"] or (row["status"] == "PROCESSING" and "review" in row)
