"""A signed webhook: its body, statuses and answer. Strangers can call it."""

import base64
import json
from collections.abc import Callable
from typing import Any

from settlement.core.model import strict_json
from settlement.core.model.errors import (
    DeadlineExceeded,
    IdempotencyConflict,
    InvalidRequest,
    KycUnavailable,
    PayoutFenced,
    PayoutNotFound,
    RowDamaged,
    SettlementError,
    SettlementNotFound,
    SignatureRefused,
    StartUnavailable,
    StepFenced,
    StoreUnavailable,
)
from settlement.core.model.stored import MalformedRow

BODY_BYTES_MAX = 16_384
STATUSES = {
    InvalidRequest: 400,
    SignatureRefused: 401,
    PayoutNotFound: 404,
    SettlementNotFound: 404,
    DeadlineExceeded: 409,
    IdempotencyConflict: 409,
    PayoutFenced: 409,
    StepFenced: 409,
    KycUnavailable: 503,
    RowDamaged: 503,
    StartUnavailable: 503,
    StoreUnavailable: 503,
}
"""HTTP statuses of refusals. A sender repeats a call only after 401 or 503."""


def answer(
    decided: Callable[[dict[str, Any], object], dict[str, str]], event: dict[str, Any], context: object
) -> dict[str, Any]:
    """Answer a call of a function URL or an HTTP API (payload format 2.0)."""
    try:
        return _response(200, decided(event, context))
    except SettlementError as error:
        refusal = error
    except MalformedRow as malformed:
        refusal = RowDamaged.of(malformed)
    return _response(STATUSES[type(refusal)], {"error": type(refusal).__name__, "message": str(refusal)})


def headers_of(event: dict[str, Any]) -> dict[str, str]:
    return {name.lower(): value for name, value in event["headers"].items()}


def body_of(event: dict[str, Any]) -> bytes:
    """The call's body. Raises InvalidRequest."""
    text = event.get("body") or ""
    if len(text) > BODY_BYTES_MAX * 4 // 3 + 4:  # it may be in base64
        raise InvalidRequest(f"body: must be at most {BODY_BYTES_MAX} bytes")
    try:
        body = base64.b64decode(text, validate=True) if event.get("isBase64Encoded") else text.encode()
    except ValueError:
        raise InvalidRequest("body: must be text") from None
    if len(body) > BODY_BYTES_MAX:
        raise InvalidRequest(f"body: must be at most {BODY_BYTES_MAX} bytes")
    return body


def content_of(body: bytes) -> object:
    """The body's JSON. Raises InvalidRequest."""
    try:
        return strict_json.parse(body)
    except strict_json.Malformed as fault:
        raise InvalidRequest(f"body: {fault}") from None


def _response(status: int, content: dict[str, str]) -> dict[str, Any]:
    return {
        "statusCode": status,
        "headers": {"content-type": "application/json"},
        "body": json.dumps(content),
    }
