"""Costs of payouts: cases of `tests/store/test_cost.py`."""

from collections.abc import Callable
from typing import Any

from settlement.bank import record
from settlement.bank.matching import Recorded
from settlement.bank.statement import Side
from settlement.core.ledger.transaction import Write
from settlement.payouts import lines, moves, writes
from settlement.payouts.moves import Move
from settlement.payouts.payout import State, Status
from tests.unit.payouts.rows import LIMITS, NOTES, PAYABLE, PAYOUT, SAID, STATES, destination_rows, rows_of
from tests.world.bank_rows import FILE
from tests.world.bank_rows import LINE as BANK_LINE
from tests.world.environment import NOW
from tests.world.saga import LATER, Saga

Call = Callable[[Saga], Any]
TRANSACT = "TransactWriteItems"

LINE = BANK_LINE._replace(side=Side.OUT, amount=PAYOUT.amount, reference=PAYOUT.reference)
RECORDED = Recorded(LINE, 0, frozenset({PAYOUT.reference}))


def payee(saga: Saga) -> None:
    saga.fund()
    for row in destination_rows():
        saga.ledger.put(row)


def at(status: Status) -> Call:
    def start(saga: Saga) -> None:
        payee(saga)
        for row in rows_of(STATES[status]):
            saga.ledger.put(row)

    return start


def listed(saga: Saga) -> None:
    at(Status.PAID)(saga)
    saga.ledger.store.transact(listing())


def listing() -> tuple[Write, ...]:
    listed = lines.listed(RECORDED)
    assert listed
    return record.line(RECORDED, FILE), listed


def moved(move: Move, status: Status, **more: Any) -> Call:
    before = STATES[status]
    noted = NOTES.get(move, {}) | (SAID if move is Move.ACCEPT else {})
    after: State = moves.after(before, move, LATER, **noted)
    return lambda saga: saga.ledger.store.transact(writes.move(before, after, move, LATER, **more))


CASES = {
    "reserve a payout": (
        payee,
        lambda saga: saga.ledger.store.transact(writes.reserve(PAYOUT, PAYABLE, LIMITS, NOW)),
        [TRANSACT],
        *(11, 6),
    ),
    "record a payout's send": (at(Status.RESERVED), moved(Move.SEND, Status.RESERVED), [TRANSACT], 6, 8),
    "a bank accepts a payout": (at(Status.SENDING), moved(Move.ACCEPT, Status.SENDING), [TRANSACT], 4, 6),
    "a bank is in doubt about a payout": (
        at(Status.SENDING),
        moved(Move.DOUBT, Status.SENDING),
        [TRANSACT],
        *(4, 6),
    ),
    "a bank pays a payout": (at(Status.ACCEPTED), moved(Move.PAY, Status.ACCEPTED), [TRANSACT], 6, 8),
    "list a payout's line": (payee, lambda saga: saga.ledger.store.transact(listing()), [TRANSACT], 6, 4),
    "a line confirms a payout": (
        listed,
        moved(Move.CONFIRM, Status.PAID, line=LINE),
        [TRANSACT],
        *(5, 6),
    ),
    "a booked line leaves the list": (
        listed,
        lambda saga: saga.ledger.store.transact((lines.booked(LINE.identity),)),
        [TRANSACT],
        *(3, 4),
    ),
    "a bank refuses a payout": (at(Status.SENDING), moved(Move.REFUSE, Status.SENDING), [TRANSACT], 7, 6),
}
