import json
from enum import StrEnum


class Machine(StrEnum):
    EXPRESS = "express"
    STANDARD = "standard"


def explain(cause: str) -> str:
    """Return an error cause's message. Lambda wraps it in JSON, and a stalled settlement wraps it again."""
    try:
        content = json.loads(cause)
        if "errorMessage" in content:
            return str(content["errorMessage"])
        return f"{content['Error']}: {explain(content.get('Cause', ''))}"
    except (ValueError, TypeError, KeyError):
        return cause
