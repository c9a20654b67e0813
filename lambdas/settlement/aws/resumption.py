"""Requests to the function RecoverStalled. Its schedule makes up for lost requests."""

from typing import Any

from settlement.aws import functions
from settlement.core.model.errors import StartUnavailable

_RECOVERY = "RECOVER_STALLED"


def ask(key: str, owner: str) -> None:
    """Ask recovery to resume a settlement, without waiting. Raises StartUnavailable.

    Recovery does nothing if the settlement's owner is no longer `owner`.
    """
    try:
        functions.send(_RECOVERY, {"key": key, "owner": owner})
    except StartUnavailable as error:
        raise StartUnavailable(f"{key}: not resumed yet: {error}") from None


def wait_for(key: str) -> dict[str, Any]:
    """Have recovery resume a settlement, and return its answer. Raises StartUnavailable."""
    try:
        return functions.call(_RECOVERY, {"key": key})
    except StartUnavailable as error:
        raise StartUnavailable(f"{key}: not resumed yet: {error}") from None
