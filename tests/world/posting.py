"""Calls of `POST /settlements` and `/cancel` as API Gateway delivers them."""

import json
from typing import Any

from tests.world.constants import KEY, WIRE

NAMELESS = {name: value for name, value in WIRE.items() if name != "key"}
"""A request whose key is in the header."""


def asked(body: Any = NAMELESS, key: str | None = KEY, **headers: str) -> dict[str, Any]:
    return {
        "version": "2.0",
        "routeKey": "POST /settlements",
        "headers": {**({} if key is None else {"idempotency-key": key}), **headers},
        "requestContext": {},
        "body": body if isinstance(body, str) else json.dumps(body),
    }


def cancel(body: Any = NAMELESS, key: str = KEY, **headers: str) -> dict[str, Any]:
    """Return a cancellation's event; `if_match` is its header."""
    return {
        "version": "2.0",
        "routeKey": "POST /settlements/{key}/cancel",
        "pathParameters": {"key": key},
        "headers": {name.replace("_", "-"): text for name, text in headers.items()},
        "requestContext": {},
        "body": body if isinstance(body, str) else json.dumps(body),
    }
