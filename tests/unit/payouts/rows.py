"""Builds a payout's rows in each status."""

from datetime import timedelta
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller
from settlement.payouts import destination, follow, moves, writes
from settlement.payouts.destination import Destination
from settlement.payouts.moves import Move
from settlement.payouts.payout import Payout, State, Status, Word
from settlement.payouts.writes import Limits
from settlement.signing.signature import RowKeys
from tests.world import bank_rows
from tests.world.environment import NOW

PAYOUT = Payout(
    key="payout-2026-000101", account="alice", amount=4_820, currency="EUR", destination="landlord"
)
ADA, BEA = (
    Caller(
        by=f"arn:aws:iam::123456789012:user/{name}", user_id=f"AIDA{name}", request_id="1", source_ip="::1"
    )
    for name in ("ada", "bea")
)
GIVEN = {
    "id": "landlord",
    "account": "alice",
    "iban": "DE89370400440532013000",
    "holder": "Ada Example",
    "reason": "the rent",
}
ADDED = Destination(
    id="landlord",
    account="alice",
    iban=GIVEN["iban"],
    holder=GIVEN["holder"],
    added_by=ADA.by,
    added_at=timestamp(NOW - timedelta(days=3)),
)
PAYABLE = Destination(
    **vars(ADDED) | {"confirmed_by": BEA.by, "payable_from": timestamp(NOW - timedelta(days=1))}
)
LIMITS = Limits(payout={"EUR": 5_000}, day={"EUR": 9_000})
KEYS = RowKeys({"1": b"the-key-of-the-tests"})
ACCOUNTS = frozenset({bank_rows.LINE.account})
"""The stage's accounts at the bank."""

SHA256, LINE, RETURN_LINE = "5c" * 32, "6d" * 32, "7e" * 32
SAID: dict[str, Any] = {"said": Word.ACCEPTED, "said_at": timestamp(NOW)}

NOTES: dict[Move, dict[str, Any]] = {
    Move.SEND: {"sent_sha256": SHA256},
    Move.CONFIRM: {"debit_line": LINE},
    Move.STICK: {"trouble": "the bank has given no final answer"},
}
"""Attributes that each move writes besides the status."""


def on_the_way(*path: Move) -> State:
    """Return the state of a payout after these moves."""
    state = writes.reserved(PAYOUT, PAYABLE, NOW)
    for move in path:
        more = dict(SAID) if move is Move.ACCEPT else NOTES.get(move, {})
        state = moves.after(state, move, NOW, **more)
    return state


PATHS: dict[Status, tuple[Move, ...]] = {
    Status.RESERVED: (),
    Status.SENDING: (Move.SEND,),
    Status.UNKNOWN: (Move.SEND, Move.DOUBT),
    Status.ACCEPTED: (Move.SEND, Move.ACCEPT),
    Status.PAID: (Move.SEND, Move.ACCEPT, Move.PAY),
    Status.CONFIRMED: (Move.SEND, Move.ACCEPT, Move.PAY, Move.CONFIRM),
    Status.REFUSED: (Move.SEND, Move.REFUSE),
    Status.RETURNED: (Move.SEND, Move.ACCEPT, Move.PAY, Move.RETURN),
    Status.LIMBO: (Move.SEND, Move.DOUBT, Move.STICK),
}
STATES = {status: on_the_way(*path) for status, path in PATHS.items()}

CASES: dict[str, State] = {
    "limbo": STATES[Status.LIMBO],
    "paid": moves.counted(STATES[Status.PAID], NOW, trouble=follow.NO_DEBIT),
    "returned": moves.counted(
        moves.counted(STATES[Status.RETURNED], NOW, debit_line=LINE), NOW, trouble=follow.NO_RETURN
    ),
    "suspense": moves.after(
        STATES[Status.CONFIRMED],
        Move.RETURN,
        NOW,
        trouble=follow.SUSPENSE,
        in_suspense=1,
        return_line=RETURN_LINE,
    ),
}
"""Payouts with an open case, one for each kind of case."""


def destination_rows() -> tuple[Row, Row]:
    added = destination.add(GIVEN, ADA, NOW - timedelta(days=3)).parameters["Item"]
    second = destination.confirm(ADDED, GIVEN, BEA, LIMITS.rest, NOW - timedelta(days=2))
    return KEYS.signed(added), KEYS.signed(second.parameters["Item"])


def rows_of(state: State) -> tuple[Row, ...]:
    """Return a payout's row, its reference's row and its reservation's signed entry."""
    named = {**keys.payout_reference(state.payout.reference), "key": state.key}
    *_, entry = writes.reserve(state.payout, PAYABLE, LIMITS, NOW)
    return state.to_row(), named, KEYS.signed(entry.parameters["Item"])
