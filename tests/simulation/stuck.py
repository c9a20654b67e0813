"""A settlement whose payee spent the money, so its clawback is stuck."""

from typing import Any

from tests.world import picture
from tests.world.interpreter import Execution
from tests.world.picture import ESCROW, STEPS, Move, Picture
from tests.world.world import World

SPENT, REPAID = "order-2026-spent-it", "order-2026-repaid-it"
CASE_1: dict[str, Move] = {"limbo:1": None}
WRITTEN_OFF: dict[str, Move] = {"resolve:1": ("losses:EUR", ESCROW, 4772)}
COMPLETED: dict[str, Move] = {"resolve:1": (ESCROW, "fees:EUR", 48)}
RETRIED: dict[str, Move] = {"resolve:1": None}


def decision(name: str, **more: Any) -> dict[str, Any]:
    return {"decision": name, "reason": f"decided to {name}", "by": "olga", **more}


def spend(world: World) -> None:
    """Bob spends his whole balance, 52.72 EUR."""
    world.open("carol", 0)
    assert world.pay("bob", "carol", "52.72", SPENT).data["status"] == "SETTLED"


def repay(world: World) -> None:
    """Carol repays Bob, whose blocked account can receive."""
    assert world.pay("carol", "bob", "52.72", REPAID).data["status"] == "SETTLED"


def stuck(world: World, steps: int = len(STEPS)) -> Execution:
    """Reverse a payment that Bob has spent, so it waits in LIMBO."""
    order = world.commit(steps)
    spend(world)
    execution = world.compensate("by-hand", **order)
    assert execution.is_waiting
    assert world.picture() == in_limbo(steps)
    assert world.limbo_cases("bob") == 1
    return execution


def in_limbo(steps: int = len(STEPS)) -> Picture:
    return picture.reversing("LIMBO", STEPS[:steps], ["fee"], picture.ordered(steps) | CASE_1)


def written_off(steps: int = len(STEPS)) -> Picture:
    entries = picture.ordered(steps) | CASE_1 | WRITTEN_OFF
    return picture.compensated(STEPS[:steps], entries, covered=["release"])


def completed(steps: int = len(STEPS)) -> Picture:
    entries = picture.ordered(steps) | CASE_1 | COMPLETED
    return picture.reversing("SETTLED", STEPS[:steps], ["fee"], entries)


def retried(steps: int = len(STEPS)) -> Picture:
    return picture.reversed_from(steps, CASE_1 | RETRIED)
