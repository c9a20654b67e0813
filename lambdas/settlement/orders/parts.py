"""Writes of a reversal in part.

The order's evidence is the idempotency check. Its name has the part's number. One transaction writes the
evidence and the effect.
"""

from datetime import datetime

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import (
    NEVER_RESOLVED,
    NO_PARTS,
    parts_are,
    same_request,
    status_is,
    within_rest,
)
from settlement.core.ledger.failure_reasons import fenced
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write, put, update_with_event
from settlement.core.model.errors import (
    IdempotencyConflict,
    NotReversible,
    PartRefused,
    SettlementError,
)
from settlement.core.model.layout import PARTS_COUNTED_BY_NAME
from settlement.core.model.orders import REVERSE
from settlement.core.model.settlement import Settlement
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.core.model.timestamps import timestamp
from settlement.orders.requests import PartialReversal, part_name

ABOVE_REST = "amount: is more than what is left of what was released"


def refusal_of(state: SettlementState) -> NotReversible | None:
    if state.status is Status.SETTLED and state.resolution is None:
        return None
    completed = " and was completed out of LIMBO" if state.resolution is not None else ""
    return NotReversible(
        f"a part needs a SETTLED settlement, and it is {state.status}{completed}", state.status
    )


def ensure_next(state: SettlementState, order: PartialReversal) -> None:
    """Check that the order is the next part and within the rest. Raises NotReversible or PartRefused."""
    if refusal := refusal_of(state):
        raise refusal
    if refused := _misfit(state, order):
        raise refused


def _misfit(state: SettlementState, order: PartialReversal) -> PartRefused | None:
    if state.next_part != order.part:
        return PartRefused(f"part: the next one is number {state.next_part}")
    return PartRefused(ABOVE_REST) if order.amount > state.settlement.net - state.reversed_in_part else None


def record(settlement: Settlement, order: PartialReversal, now: datetime) -> Write:
    def meaning(found: Row | None) -> SettlementError | AlreadyApplied:
        if not found or found["request_hash"] != settlement.request_hash:
            return IdempotencyConflict.of_key(settlement.key)
        if field := order.differs_from(found):
            return PartRefused(
                f"part: number {order.part} is on record since {found['posted_at']} with another {field}"
            )
        return AlreadyApplied(found)

    posted_at = timestamp(now)
    row = {
        **keys.evidence(settlement.key, part_name(order.part)),
        **keys.orders_index(posted_at),
        "step": part_name(order.part),
        "posted_at": posted_at,
        "request_hash": settlement.request_hash,
        "amount": order.amount,
        **order.evidence(),
    }
    return put(row, on_failure=meaning)


def count(settlement: Settlement, order: PartialReversal, layout: int) -> Write:
    """Count a reversed part on the settlement's row, which stays SETTLED and gets the `layout`."""

    def explain(name: str, state: SettlementState) -> SettlementError:
        if refusal := refusal_of(state):
            return refusal
        return _misfit(state, order) or PartRefused(ABOVE_REST)

    values = {":part": order.part, ":amount": order.amount}
    conditions = [status_is(Status.SETTLED), same_request(settlement), NEVER_RESOLVED]
    if order.part == 1:
        total = ":amount"
        conditions += [NO_PARTS]
    else:
        total = "reversed_in_part + :amount"
        conditions += [parts_are(order.part - 1), within_rest(settlement.net - order.amount)]
    if layout >= PARTS_COUNTED_BY_NAME:
        form = "reversals_in_part = :part, layout = :layout REMOVE parts"
        values |= {":layout": layout}
    else:
        form = "parts = :part REMOVE reversals_in_part, layout"
    expression = f"SET reversed_in_part = {total}, {form}"
    return update_with_event(
        keys.settlement(settlement.key),
        expression,
        values=values,
        conditions=conditions,
        on_failure=fenced(settlement, REVERSE, explain=explain),
    )
