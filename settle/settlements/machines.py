"""The settlement machines that a request can be sent to."""

import json
from enum import StrEnum


class Machine(StrEnum):
    """The two deployments of the settlement machine."""

    EXPRESS = "express"
    STANDARD = "standard"


def explain(cause: str) -> str:
    """Return the message in an error's cause: Lambda wraps it in JSON, a stalled settlement once more."""
    try:
        content = json.loads(cause)
        if "errorMessage" in content:
            return str(content["errorMessage"])
        return f"{content['Error']}: {explain(content.get('Cause', ''))}"
    except (ValueError, TypeError, KeyError):
        return cause
