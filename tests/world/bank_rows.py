"""Test data: a bank's file, line, statement, match and proposal."""

from settlement.bank.booking import Proposed
from settlement.bank.matching import BankLine
from settlement.bank.record import File, Match
from settlement.bank.statement import Side, Statement
from settlement.http.caller import Caller

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
PROPOSED = Proposed("bank-of-the-day-0001", {LINE.identity: "alice"}, "top-ups", "arn:aws:iam::1:user/ada")
CALLER = Caller(by="arn:aws:iam::1:user/grace", user_id="AIDA", request_id="r", source_ip="192.0.2.7")
