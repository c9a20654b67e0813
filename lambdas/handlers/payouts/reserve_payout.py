"""Reserve a payout: claim the key, and move the amount from the customer to transit."""

from typing import Any

from handlers import _dependencies
from handlers.payouts import _payouts
from settlement.core.telemetry import about, count, observed
from settlement.payouts.reservation import parse_payout


@observed("reserve")
def handler(event: dict[str, Any], context: object) -> dict[str, str]:
    """Return the payout's key and status. A repeated call is a replay.

    Raises the errors of `Reservations.reserve`, and InvalidRequest. A refusal leaves nothing on record.
    """
    raw = event.get("payout")
    about(raw.get("key") if isinstance(raw, dict) else None)
    state, is_replay = _payouts.reservations().reserve(parse_payout(raw, _dependencies.config))
    count("StepReplayed" if is_replay else "PayoutReserved")
    return {"key": state.key, "status": state.status.value}
