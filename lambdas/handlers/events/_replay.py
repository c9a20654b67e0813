from typing import Any

from settlement.aws import functions
from settlement.core.model.errors import StartUnavailable
from settlement.events.replay import REPLAY, parse_replay
from settlement.http.caller import Caller


def replay(body: object, caller: Caller) -> dict[str, Any]:
    """Have PublishEvents publish settlements. Return the published keys, and reasons for the others.

    A consumer that has the latest event drops the duplicate. Raises InvalidRequest and StartUnavailable.
    """
    try:
        return functions.call("PUBLISH_EVENTS", {"replay": parse_replay(body)})
    except StartUnavailable as error:
        raise StartUnavailable(f"replay: PublishEvents: {error}") from None


ORDERS = {REPLAY: (replay, None)}
