import json
import os
from functools import cache
from typing import Any

from handlers import _dependencies
from settlement.core.model.errors import PayoutRefused
from settlement.payouts.reservation import Reservations
from settlement.payouts.writes import Limits
from settlement.signing.stage import row_keys


@cache
def config() -> dict[str, Any]:
    """The room's settings. Raises PayoutRefused if the room is off: TakeOrder also runs without it."""
    if "PAYOUTS" not in os.environ:
        raise PayoutRefused("payouts: this stage has none")
    found: dict[str, Any] = json.loads(os.environ["PAYOUTS"])
    return found


def limits() -> Limits:
    return Limits(**config()["limits"])


def reservations() -> Reservations:
    return Reservations(_dependencies.store, limits(), row_keys.is_proven, _dependencies.now)


def signing_secret() -> str:
    """The id of the secret that the bank signs its events with."""
    return os.environ["BANK_SIGNING_SECRET"]
