"""Vectors of the bank's rows; `tests/unit/vectors.py` imports them, after what they use of it."""

from dataclasses import replace
from types import ModuleType

from settlement.bank import record
from settlement.bank.matching import BankLine, Recorded
from settlement.bank.record import File, Match
from settlement.bank.statement import Side, Statement
from tests.unit.vectors import Vector

FILE = File("9f" * 32, "day.xml", "2026-11-28T06:00:00.000Z")
LINE = BankLine(
    identity="5c" * 32,
    account="DE89370400440532013000",
    currency="EUR",
    amount=4820,
    side=Side.IN,
    booked="2026-11-27",
    valued="2026-11-28",
    bank_reference="B-1",
    reference="INV-7",
    returns="",
    statement="S-1",
    file="day.xml",
    at=9,
)
STATEMENT = Statement(
    account=LINE.account,
    currency="EUR",
    name="S-1",
    created="2026-11-27T22:00:00+01:00",
    number=7,
    page=(1, True),
    first="2026-11-27",
    last="2026-11-27",
    opening=0,
    closing=4820,
    lines=1,
    credits=4820,
    debits=0,
)
MATCH = Match(LINE.identity, "order-of-the-books", "alice", "EUR", 4820, Side.IN, FILE.read_at)
POSTERS: dict[ModuleType, tuple[Vector, ...]] = {
    record: (
        Vector(record.line, (Recorded(LINE, 0, frozenset({"INV-7", "thank you"})), FILE)),
        Vector(record.match, (MATCH,)),
        Vector(record.statement, (STATEMENT, 0, FILE)),
        Vector(record.statement, (replace(STATEMENT, number=None, page=None), 1, FILE), variant="bare"),
        Vector(record.file, (FILE, 1, 1)),
    )
}
BUILDERS: dict[ModuleType, tuple[Vector, ...]] = {}
