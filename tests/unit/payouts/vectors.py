"""Vectors of the payouts' writes; `tests/unit/vectors.py` imports them, after what they use of it."""

from datetime import timedelta
from types import ModuleType

from settlement.payouts import destination, moves, writes
from settlement.payouts.moves import Move
from settlement.payouts.payout import Status
from tests.unit.payouts.rows import ADA, ADDED, BEA, GIVEN, LIMITS, LINE, NOTES, PAYABLE, PAYOUT, STATES
from tests.unit.vectors import Vector
from tests.world.environment import NOW

LATER = NOW + timedelta(hours=1)


def _move(move: Move, status: Status, *, to_suspense: bool = False) -> Vector:
    before = STATES[status]
    notes = NOTES.get(move, {}) | ({"trouble": "closed"} if to_suspense else {})
    after = moves.after(before, move, LATER, **notes)
    variant = f"{move}.{status.lower()}" + (".suspense" if to_suspense else "")
    return Vector(writes.move, (before, after, move, LATER), {"to_suspense": to_suspense}, variant)


_NOTED = STATES[Status.RETURNED]
_DEFERRED = STATES[Status.UNKNOWN]
_CASE = STATES[Status.LIMBO]
POSTERS: dict[ModuleType, tuple[Vector, ...]] = {
    writes: (
        Vector(writes.reserve, (PAYOUT, PAYABLE, LIMITS, NOW)),
        *(_move(move, status) for move, rule in moves.RULES.items() for status in rule.money),
        _move(Move.RETURN, Status.CONFIRMED, to_suspense=True),
        Vector(writes.note_line, (_NOTED, moves.noted(_NOTED, LATER, debit_line=LINE)), variant="debit"),
        Vector(writes.note_line, (_NOTED, moves.noted(_NOTED, LATER, return_line=LINE)), variant="return"),
        Vector(writes.note, (_DEFERRED, moves.noted(_DEFERRED, LATER, reason="500"), "defer")),
        Vector(
            writes.note,
            (_CASE, moves.noted(_CASE, LATER, proposed={"verdict": "paid"}), "decide"),
            variant="decide",
        ),
    ),
}
BUILDERS: dict[ModuleType, tuple[Vector, ...]] = {
    destination: (
        Vector(destination.add, (GIVEN, ADA, NOW)),
        Vector(destination.confirm, (ADDED, ADDED.iban, BEA, LIMITS.rest, NOW)),
        Vector(destination.freeze, ("landlord", BEA, NOW)),
    ),
}
