"""Golden vectors of the doors' writes, added to those of `tests/unit/vectors.py`."""

from types import ModuleType

from settlement.doors import cancellation
from tests.unit.vectors import SETTLEMENT, Vector
from tests.world.environment import NOW

BUILDERS: dict[ModuleType, tuple[Vector, ...]] = {
    cancellation: tuple(
        Vector(builder, (SETTLEMENT, NOW, seen), variant=variant)
        for builder in (cancellation.before_hold, cancellation.in_review)
        for seen, variant in ((None, ""), (1, "seen"))
    )
}
POSTERS: dict[ModuleType, tuple[Vector, ...]] = {}
