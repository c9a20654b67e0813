"""People's orders as API Gateway delivers them: AWS sets the identity."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from settlement.core.model import errors
from settlement.core.model.errors import SettlementError

PROOF = {"user_id": "AIDAADA", "request_id": "req-1", "source_ip": "192.0.2.7"}
"""The recorded proof of identity, apart from the ARN."""


def request(decision: str, body: Any, by: str, **proof: str) -> dict[str, Any]:
    known = PROOF | proof
    return {
        "version": "2.0",
        "routeKey": f"POST /orders/{decision}",
        "rawPath": f"/orders/{decision}",
        "headers": {"content-type": "application/json"},
        "requestContext": {
            "requestId": known["request_id"],
            "http": {"method": "POST", "path": f"/orders/{decision}", "sourceIp": known["source_ip"]},
            "authorizer": {"iam": {"userArn": by, "userId": known["user_id"]}},
        },
        "body": body if isinstance(body, str) else json.dumps(body),
        "isBase64Encoded": False,
    }


def given(order: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    return {name: value for name, value in order.items() if name != "by"}, order["by"]


def taken(take: Callable[[Any], Any], decision: str, order: Mapping[str, Any]) -> dict[str, Any]:
    """Give an order in the name of its `by`; return the answer. Raises a refusal."""
    return answered(take(request(decision, *given(order))))


def answered(answer: Any) -> dict[str, Any]:
    """Return an answer's content. Raises its refusal."""
    assert answer["headers"] == {"content-type": "application/json"}
    content: dict[str, Any] = json.loads(answer["body"])
    if answer["statusCode"] != 200:
        raise refusal(content)
    return content


def refusal(content: Mapping[str, str]) -> SettlementError:
    kind: type[SettlementError] = getattr(errors, content["error"])
    told = kind.__new__(kind)
    told.args = (content["message"],)
    return told
