"""Builds complete rows of settlements and accounts, and the states read from them."""

from datetime import timedelta
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.settlement import Settlement
from settlement.core.model.state import AccountState, SettlementState
from settlement.core.model.status import Status
from settlement.core.model.timestamps import timestamp
from settlement.core.policy.outcome import next_action
from tests.unit.vectors import EXECUTION, SETTLEMENT
from tests.world.environment import NOW


def row(settlement: Settlement = SETTLEMENT, **changes: Any) -> Row:
    """Return the row of a claimed settlement without committed steps, with changes."""
    base = {
        **keys.settlement(settlement.key),
        **settlement.to_row(),
        "status": Status.PROCESSING,
        "escrow": 0,
        "owner": EXECUTION,
        "owner_epoch": 0,
        "sequence": 1,
        "claimed_at": timestamp(NOW),
        "deadline_at": timestamp(NOW + timedelta(minutes=15)),
    }
    return base | changes


def state(settlement: Settlement = SETTLEMENT, **changes: Any) -> SettlementState:
    return SettlementState.from_row(row(settlement, **changes))


def next_of(status: Status, failure: dict[str, str] | None = None) -> dict[str, str]:
    changes: dict[str, Any] = {"failure": failure} if failure else {}
    return next_action(state(status=status, **changes))


def account_row(account: str, available: int, currency: str = "EUR", **changes: Any) -> Row:
    return {**keys.account(account), "available": available, "currency": currency, **changes}


def found(row: Row | None) -> Any:
    """Return a row as `Write.on_failure` takes it: its state, an entry's row itself, or None."""
    if row is None or not (keys.is_settlement(row) or keys.is_account(row)):
        return row
    return SettlementState.from_row(row) if keys.is_settlement(row) else AccountState.from_row(row)
