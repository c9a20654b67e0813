"""Events of the bank bring a payout's next look forward. They prove nothing, and move no money."""

from contextlib import suppress
from datetime import datetime

from settlement.core.ledger import keys
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.errors import PayoutNotFound
from settlement.core.model.stored import MalformedRow
from settlement.core.store.dynamodb import Store
from settlement.payouts import moves, writes
from settlement.payouts.payout import REFERENCE, State, Status, reference_in, reference_of


def key_of(store: Store, reference: str) -> str | None:
    """The key of the payout with this reference. Raises MalformedRow."""
    row = store.read(keys.payout_reference(reference)) if REFERENCE.fullmatch(reference) else None
    if row is None:
        return None
    key = row.get("key")
    if not isinstance(key, str) or reference_of(key) != reference:
        raise MalformedRow(f"{row['pk']}: key is not that of its reference")
    return key


def state_of(store: Store, key: str) -> State:
    """Read a payout. Raises PayoutNotFound, MalformedRow."""
    row = store.read(keys.payout(key))
    if row is None:
        raise PayoutNotFound(f"key: {key} has no payout")
    return State.from_row(row)


def bring_forward(store: Store, reference: str, now: datetime) -> State:
    """Bring a payout's next look forward. `reference` may be in small letters.

    Raises PayoutNotFound, PayoutFenced, MalformedRow.
    """
    key = key_of(store, reference_in(reference) or "")
    if key is None:
        raise PayoutNotFound("event: no payout has the reference that it names")
    state = state_of(store, key)
    if state.is_at_rest or state.trouble is not None or state.status is Status.RETURNED:
        return state
    after = moves.brought_forward(state, now)
    if after != state:
        with suppress(AlreadyApplied):
            store.transact(writes.note(state, after, "hint"))
    return after
