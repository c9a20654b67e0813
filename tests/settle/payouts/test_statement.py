"""An account's statement lists payouts when reserved and when given back."""

from datetime import timedelta

from settle.accounts import statement
from settlement.payouts import destination, moves, writes
from settlement.payouts.destination import Destination
from settlement.payouts.moves import Move
from settlement.payouts.payout import Payout
from settlement.payouts.writes import Limits
from tests.proof.payouts.life import ADA, BEA, IBANS
from tests.settle.desk import Desk
from tests.world.environment import NOW

GIVEN = {"id": "home", "account": "alice", "iban": IBANS[0], "holder": "Alice", "reason": "rent"}
PAYOUT = Payout(key="order-2026-000101", account="alice", amount=250, currency="EUR", destination="home")
LIMITS = Limits(payout={"EUR": 900}, day={"EUR": 900})


def test_a_statement_shows_a_payout_and_its_return(desk: Desk) -> None:
    """A settlement has the same key, but the shown reference is the payout's."""
    desk.pay(PAYOUT.key, reference="invoice 7")
    store = desk.stack.store
    added = Destination(
        **{name: GIVEN[name] for name in ("id", "account", "iban", "holder")}, added_by=ADA.by, added_at=""
    )
    store.transact((destination.add(GIVEN, ADA, NOW),))
    store.transact((destination.confirm(added, GIVEN, BEA, timedelta(), NOW),))
    store.transact(writes.reserve(PAYOUT, added, LIMITS, NOW))
    state = writes.reserved(PAYOUT, added, NOW)
    for move in (Move.SEND, Move.REFUSE):
        before, state = state, moves.after(state, move, NOW, sent_sha256="0" * 64)
        store.transact(writes.move(before, state, move, NOW))

    found = statement.show(desk.stack, "alice")["entries"]

    told = [(line["step"], line["change"], line["reference"]) for line in found if "payout" in line["step"]]
    assert sorted(told) == [
        ("payout-refuse", "2.50", PAYOUT.reference),
        ("payout-reserve", "-2.50", PAYOUT.reference),
    ]
    assert "invoice 7" in {line["reference"] for line in found}
