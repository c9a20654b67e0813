"""Golden vectors of merchants' sweeps, added to those of `tests/unit/vectors.py`."""

from types import ModuleType

from settlement.merchants import sweep
from settlement.merchants.sweep import Span
from tests.unit.vectors import Vector

SPAN = Span("ENTRIES#merchant.shop#3", "2026-11-22T06:04")
SWEPT = {**SPAN.swept, "version": 4, "folded": {"07": 5}}
POSTERS: dict[ModuleType, tuple[Vector, ...]] = {
    sweep: (
        Vector(sweep.credit, ("merchant.shop", 4772, "EUR")),
        Vector(sweep.fold, (SPAN, None, {"57": 4772}, "EUR"), variant="first"),
        Vector(sweep.fold, (SPAN, SWEPT, {"07": 3, "57": 4772}, "EUR"), variant="again"),
    )
}
BUILDERS: dict[ModuleType, tuple[Vector, ...]] = {}
