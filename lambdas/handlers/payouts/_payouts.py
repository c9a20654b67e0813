import json
import os
from functools import cache
from typing import Any

from handlers import _dependencies
from settlement.payouts.reservation import Reservations
from settlement.payouts.writes import Limits
from settlement.signing.stage import row_keys


@cache
def config() -> dict[str, Any]:
    """The room's settings. TakeOrder runs without them where the room is off."""
    found: dict[str, Any] = json.loads(os.environ["PAYOUTS"])
    return found


def limits() -> Limits:
    return Limits(**config()["limits"])


def reservations() -> Reservations:
    return Reservations(_dependencies.store, limits(), row_keys.is_proven, _dependencies.now)
