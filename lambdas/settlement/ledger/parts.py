"""Writes of a reversal in part, which gives the payer an amount of what was released to the payee.

The order's evidence is the idempotency check: it has the number of the part, and is in one transaction with
the effect. The money passes through the escrow, as all of a settlement's does, and leaves nothing in it.
"""

from datetime import datetime

from settlement.ledger import balances, entries, keys
from settlement.ledger.conditions import (
    NEVER_RESOLVED,
    NO_PARTS,
    parts_are,
    same_request,
    status_is,
    within_rest,
)
from settlement.ledger.keys import Row
from settlement.ledger.transaction import AlreadyApplied, Transfer, Write, put, update
from settlement.model import accounts
from settlement.model.errors import IdempotencyConflict, NotReversible, PartRefused, SettlementError
from settlement.model.orders import PartialReversal, part_name
from settlement.model.settlement import Settlement
from settlement.model.state import SettlementState
from settlement.model.status import Status
from settlement.model.timestamps import timestamp

REFUND_PART = "refund-part"
"""The name of the entry in the payer's account, before the number of the part."""


def record(settlement: Settlement, order: PartialReversal, now: datetime) -> Write:
    """Record the order. The same part again is a replay, another one of its number a conflict."""

    def meaning(found: Row | None) -> SettlementError | AlreadyApplied:
        if not found or found["request_hash"] != settlement.request_hash:
            return IdempotencyConflict.of_key(settlement.key)
        if field := order.differs_from(found):
            return PartRefused(
                f"part: number {order.part} is on record since {found['posted_at']} with another {field}"
            )
        return AlreadyApplied(found)

    row = {
        **keys.evidence(settlement.key, part_name(order.part)),
        "step": part_name(order.part),
        "posted_at": timestamp(now),
        "request_hash": settlement.request_hash,
        "amount": order.amount,
        **order.evidence(),
    }
    return put(row, on_failure=meaning)


def count(settlement: Settlement, order: PartialReversal) -> Write:
    """Count the part on the settlement's row, whose status stays SETTLED, up to all that was released."""

    def meaning(state: SettlementState | None) -> SettlementError:
        if state is None:
            return NotReversible(f"the key {settlement.key} was never claimed")
        if not state.same_request(settlement):
            return IdempotencyConflict.of_key(settlement.key)
        if state.status is not Status.SETTLED or state.resolution is not None:
            completed = " and was completed out of LIMBO" if state.resolution is not None else ""
            return NotReversible(
                f"a part needs a SETTLED settlement, and it is {state.status}{completed}", state.status
            )
        if state.next_part != order.part:
            return PartRefused(f"part: the next one is number {state.next_part}")
        return PartRefused(ABOVE_REST)

    values = {":part": order.part, ":amount": order.amount}
    conditions = [status_is(Status.SETTLED), same_request(settlement), NEVER_RESOLVED]
    if order.part == 1:
        expression = "SET parts = :part, reversed_in_part = :amount"
        conditions += [NO_PARTS]
    else:
        expression = "SET parts = :part, reversed_in_part = reversed_in_part + :amount"
        conditions += [parts_are(order.part - 1), within_rest(settlement.net - order.amount)]
    return update(
        keys.settlement(settlement.key),
        expression,
        values=values,
        conditions=conditions,
        on_failure=meaning,
    )


def move(settlement: Settlement, order: PartialReversal, now: datetime) -> tuple[Write, Write, Write, Write]:
    """Take the amount from the payee and give it to the payer: both entries, and both balances."""
    escrow, amount = accounts.escrow(settlement.key), order.amount
    taken = Transfer(debit=settlement.payee, credit=escrow, amount=amount)
    given = Transfer(debit=escrow, credit=settlement.payer, amount=amount)
    return (
        entries.transfer(settlement, part_name(order.part), taken, now),
        entries.transfer(settlement, f"{REFUND_PART}:{order.part}", given, now),
        balances.debit_part(settlement, amount),
        balances.credit_part(settlement, amount),
    )


ABOVE_REST = "amount: is more than what is left of what was released"
"""The message of a part that is too large."""
