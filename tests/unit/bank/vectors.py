"""Golden vectors of the bank's rows, added to those of `tests/unit/vectors.py`."""

from dataclasses import replace
from types import ModuleType

from settlement.bank import booking, record
from settlement.bank.matching import Recorded
from settlement.core.ledger.transaction import AlreadyApplied
from tests.unit.vectors import Vector
from tests.world.bank_rows import CALLER, FILE, LINE, MATCH, PROPOSED, STATEMENT
from tests.world.environment import NOW

POSTERS: dict[ModuleType, tuple[Vector, ...]] = {
    record: (
        Vector(record.line, (Recorded(LINE, 0, frozenset({"INV-7", "thank you"})), FILE)),
        Vector(record.match_line, (MATCH, AlreadyApplied)),
        Vector(record.match, (MATCH,)),
        Vector(record.statement, (STATEMENT, 0, FILE)),
        Vector(record.statement, (replace(STATEMENT, number=None, page=None), 1, FILE), variant="bare"),
        Vector(record.file, (FILE, 1, 1)),
    ),
    booking: (
        Vector(booking.propose, (PROPOSED, CALLER, NOW)),
        Vector(booking.approve, (PROPOSED, PROPOSED.digest, CALLER, NOW)),
    ),
}
BUILDERS: dict[ModuleType, tuple[Vector, ...]] = {}
