"""Calls of the readers' API, as API Gateway passes them on."""

import json
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What a reader gets."""

    status: int
    headers: dict[str, str]
    content: Any


def asked(route: str, path: Any = None, query: Any = None, **headers: str) -> dict[str, Any]:
    """Return the event of a call (payload format 2.0)."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return {
        "version": "2.0",
        "routeKey": f"GET {route}",
        "headers": named,
        "requestContext": {},
        **({"pathParameters": path} if path else {}),
        **({"queryStringParameters": query} if query else {}),
    }


def outcome(key: str, query: Any = None, **headers: str) -> dict[str, Any]:
    return asked("/settlements/{key}", {"key": key}, query, **headers)


def entries(account: str, **query: str) -> dict[str, Any]:
    named = {name.rstrip("_"): text for name, text in query.items()}
    return asked("/accounts/{id}/entries", {"id": account}, named)


def listing(**query: str) -> dict[str, Any]:
    return asked("/settlements", None, query)


def journal(**query: str) -> dict[str, Any]:
    return asked("/journal", None, query)


def answer(told: dict[str, Any]) -> Answer:
    """Return an answer of the function, read."""
    return Answer(told["statusCode"], told["headers"], json.loads(told["body"]) if "body" in told else None)
