"""A request to RecoverStalled to resume one settlement now, and not at its next look.

The webhook sends it and does not wait. A request that is lost delays the settlement until the schedule finds
it due, and one that comes twice, or late, finds another owner and does nothing.
"""

from typing import Any

from settlement.aws import functions
from settlement.core.model.errors import StartUnavailable

_RECOVERY = "RECOVER_STALLED"


def ask(key: str, owner: str) -> None:
    """Ask for a settlement to be resumed, as long as `owner` is its owner. Raises StartUnavailable."""
    try:
        functions.send(_RECOVERY, {"key": key, "owner": owner})
    except StartUnavailable as error:
        raise StartUnavailable(f"{key}: not resumed yet: {error}") from None


def wait_for(key: str) -> dict[str, Any]:
    """Resume a settlement whose owner does not run; return recovery's answer. Raises StartUnavailable."""
    try:
        return functions.call(_RECOVERY, {"key": key})
    except StartUnavailable as error:
        raise StartUnavailable(f"{key}: not resumed yet: {error}") from None
