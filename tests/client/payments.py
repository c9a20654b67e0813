"""Payments and outcomes from the published contracts' examples."""

import json
from typing import Any

from settlement_client import Request
from tests.unit.contracts import EVENT, OUTCOME, REQUEST, SCHEMAS

REQUESTS: list[dict[str, Any]] = SCHEMAS[REQUEST]["examples"]
OUTCOMES: list[dict[str, Any]] = SCHEMAS[OUTCOME]["examples"]
EVENTS: list[dict[str, Any]] = SCHEMAS[EVENT]["examples"]
SETTLED = OUTCOMES[0]
PROCESSING = SETTLED | {
    "status": "PROCESSING",
    "finished_at": None,
    "next": {"action": "same_key", "reason": "It may still go through."},
}
PAYMENT = REQUESTS[0]
KEY = PAYMENT["key"]


def request(**changes: Any) -> Request:
    return Request(**PAYMENT | changes)


def told(outcome: dict[str, Any]) -> str:
    return json.dumps(outcome)
