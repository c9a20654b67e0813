"""A person's order to tell of settlements again, as they are now."""

from typing import Any

from settlement.aws import functions
from settlement.core.model.errors import StartUnavailable
from settlement.events.replay import REPLAY, parse_replay
from settlement.http.caller import Caller


def replay(body: object, caller: Caller) -> dict[str, Any]:
    """Let PublishEvents tell of settlements; return which it has told, and why it has not told the others.

    Nothing is recorded: no settlement changes, and a reader who knows the latest event drops the second one.
    Raises InvalidRequest, StartUnavailable.
    """
    try:
        return functions.call("PUBLISH_EVENTS", {"replay": parse_replay(body)})
    except StartUnavailable as error:
        raise StartUnavailable(f"replay: PublishEvents: {error}") from None


ORDERS = {REPLAY: (replay, None)}
"""The orders of this room."""
