import json

from handlers.orders import take_order
from settlement.bank import record
from settlement.bank.matching import BankLine, Recorded
from settlement.bank.record import File
from settlement.bank.statement import Side
from settlement.core.ledger.keys import Row
from tests.unit import states
from tests.world import orders
from tests.world.constants import CLAIMED_AT
from tests.world.functions import Context

_LINE = BankLine(
    *("5c" * 32, "DE89370400440532013000", "EUR", 4820, Side.IN, "2026-11-20", "2026-11-20", "B-1"),
    *("INV-7", "", "S-1", "day.xml", 9),
)
_PUT = record.line(Recorded(_LINE, 0, frozenset()), File("9f" * 32, "day.xml", CLAIMED_AT))
ROWS: tuple[Row, ...] = (_PUT.parameters["Item"], states.account_row("alice", 0))
"""Rows of the table in each scene."""


def _books_a_line() -> None:
    """Make TakeOrder take a proposal of one person, and the booking of another."""
    ada, grace = (f"arn:aws:iam::123456789012:user/{name}" for name in ("ada", "grace"))
    proposal = {"key": "bank-of-the-day-0001", "lines": {_LINE.identity: "alice"}, "reason": "top-ups"}
    answer = take_order.handler(orders.request("propose-lines", proposal, ada), Context())
    booking = {"key": proposal["key"], "digest": json.loads(answer["body"])["digest"]}
    take_order.handler(orders.request("book-lines", booking, grace), Context())


SCENES = (("TakeOrder", _books_a_line),)
