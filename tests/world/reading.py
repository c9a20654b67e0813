import json
from typing import Any, NamedTuple


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    content: Any


def asked(route: str, path: Any = None, query: Any = None, **headers: str) -> dict[str, Any]:
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
    return Answer(told["statusCode"], told["headers"], json.loads(told["body"]) if "body" in told else None)
