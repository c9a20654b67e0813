"""Golden vectors of the payouts' writes, added to those of `tests/unit/vectors.py`."""

from dataclasses import replace
from datetime import timedelta
from types import ModuleType

from settlement.bank.matching import BankLine, Recorded
from settlement.bank.statement import Side
from settlement.payouts import decision, destination, lines, moves, writes
from settlement.payouts.decision import Decision, Verdict
from settlement.payouts.moves import Move
from settlement.payouts.payout import Status
from tests.unit.payouts.rows import (
    ADA,
    ADDED,
    BEA,
    CASES,
    GIVEN,
    LIMITS,
    LINE,
    NOTES,
    PAYABLE,
    PAYOUT,
    RETURN_LINE,
    STATES,
)
from tests.unit.vectors import Vector
from tests.world import bank_rows
from tests.world.environment import NOW

LATER = NOW + timedelta(hours=1)
DEBIT = bank_rows.LINE._replace(identity=LINE, side=Side.OUT, reference=PAYOUT.reference)
RETURN = bank_rows.LINE._replace(identity=RETURN_LINE, reference=PAYOUT.reference, returns="AC04")
RECORDED = Recorded(DEBIT, 0, frozenset({PAYOUT.reference}))


def _move(move: Move, status: Status, *, to_suspense: bool = False, line: BankLine | None = None) -> Vector:
    before = CASES["suspense"] if move is Move.GIVE_BACK else STATES[status]
    notes = NOTES.get(move, {}) | ({"trouble": "closed", "in_suspense": 1} if to_suspense else {})
    after = moves.after(before, move, LATER, **notes)
    variant = f"{move}.{status.lower()}" + (".suspense" if to_suspense else "") + (".line" if line else "")
    options = {"to_suspense": to_suspense, "line": line}
    return Vector(writes.move, (before, after, move, LATER), options, variant)


_NOTED = STATES[Status.RETURNED]
_DEFERRED = STATES[Status.UNKNOWN]
_CASE = STATES[Status.LIMBO]
_ORDER = Decision(
    key=PAYOUT.key, case=1, digest=_CASE.digest, verdict=Verdict.NOT_PAID, reason="the bank's letter of today"
)
_AGAINST = replace(_ORDER, contradicts=True)
_PROPOSED = decision.propose(_CASE, _ORDER, ADA, NOW).parameters["Item"]
POSTERS: dict[ModuleType, tuple[Vector, ...]] = {
    writes: (
        Vector(writes.reserve, (PAYOUT, PAYABLE, LIMITS, NOW)),
        *(_move(move, status) for move, rule in moves.RULES.items() for status in rule.money),
        _move(Move.RETURN, Status.CONFIRMED, to_suspense=True),
        _move(Move.CONFIRM, Status.PAID, line=DEBIT),
        _move(Move.RETURN, Status.CONFIRMED, to_suspense=True, line=RETURN),
        Vector(
            writes.note_line,
            (_NOTED, moves.counted(_NOTED, LATER, debit_line=LINE), DEBIT, LATER),
            variant="debit",
        ),
        Vector(
            writes.note_line,
            (_NOTED, moves.counted(_NOTED, LATER, return_line=RETURN_LINE), RETURN, LATER),
            variant="return",
        ),
        Vector(
            writes.known,
            (
                STATES[Status.RESERVED],
                moves.after(STATES[Status.RESERVED], Move.SEND, LATER, **NOTES[Move.SEND]),
            ),
        ),
        Vector(writes.note, (_DEFERRED, moves.noted(_DEFERRED, LATER, detail="500"), "defer")),
        Vector(
            writes.note,
            (
                CASES["paid"],
                moves.counted(CASES["paid"], LATER, decided={"verdict": "ask", "case": "1"}),
                "case",
            ),
            variant="case",
        ),
    ),
    destination: (
        Vector(destination.add, (GIVEN, ADA, NOW)),
        Vector(destination.confirm, (ADDED, GIVEN, BEA, LIMITS.rest, NOW)),
        Vector(destination.freeze, ("landlord", BEA, NOW)),
    ),
}
BUILDERS: dict[ModuleType, tuple[Vector, ...]] = {
    decision: (
        Vector(decision.propose, (_CASE, _ORDER, ADA, NOW)),
        Vector(decision.propose, (_CASE, _AGAINST, ADA, NOW), variant="contradicts"),
        Vector(decision.approve, (_CASE, _ORDER, _PROPOSED, BEA, NOW)),
    ),
    lines: (
        Vector(lines.listed, (RECORDED,)),
        Vector(lines.booked, (LINE,)),
        Vector(lines.refused, (LINE, DEBIT.booked, "line: a second debit of payout-2026-000101")),
    ),
}
