import json

from handlers.orders import take_order
from settlement.bank import record
from settlement.bank.matching import Recorded
from settlement.core.ledger.keys import Row
from tests.unit import states
from tests.world import orders
from tests.world.bank_rows import FILE, LINE
from tests.world.functions import Context

_PUT = record.line(Recorded(LINE, 0, frozenset()), FILE)
ROWS: tuple[Row, ...] = (_PUT.parameters["Item"], states.account_row("alice", 0))
"""Rows in the table before each scene (see `tests/infra/observed.py`)."""


def _books_a_line() -> None:
    ada, grace = (f"arn:aws:iam::123456789012:user/{name}" for name in ("ada", "grace"))
    proposal = {"key": "bank-of-the-day-0001", "lines": {LINE.identity: "alice"}, "reason": "top-ups"}
    answer = take_order.handler(orders.request("propose-lines", proposal, ada), Context())
    booking = {"key": proposal["key"], "digest": json.loads(answer["body"])["digest"]}
    take_order.handler(orders.request("book-lines", booking, grace), Context())


SCENES = (("TakeOrder", _books_a_line),)
