"""Requests and responses of the HTTP APIs (payload format 2.0)."""

import base64
import json
from collections.abc import Callable
from typing import Any

from settlement.core.model import strict_json
from settlement.core.model.errors import InvalidRequest, RowDamaged, SettlementError
from settlement.core.model.stored import MalformedRow
from settlement.http.statuses import status_of

BODY_BYTES_MAX = 16_384

Response = dict[str, Any]


def answered(
    answer: Callable[[dict[str, Any], Any], Response], event: dict[str, Any], context: Any
) -> Response:
    try:
        return answer(event, context)
    except SettlementError as error:
        refusal = error
    except MalformedRow as malformed:
        refusal = RowDamaged.of(malformed)
    said = {"error": type(refusal).__name__, "message": str(refusal)}
    return response(status_of(refusal), said)


def body(event: dict[str, Any]) -> dict[str, Any]:
    text = event.get("body") or ""
    try:
        content = base64.b64decode(text, validate=True) if event.get("isBase64Encoded") else text.encode()
        if len(content) > BODY_BYTES_MAX:
            raise InvalidRequest(f"body: must be at most {BODY_BYTES_MAX} bytes, and has {len(content)}")
        found = strict_json.parse(content)
    except strict_json.Malformed as fault:
        raise InvalidRequest(f"body: {fault}") from None
    except ValueError:
        raise InvalidRequest("body: must be text") from None
    if not isinstance(found, dict):
        raise InvalidRequest("body: must be a JSON object")
    return found


def response(status: int, content: dict[str, Any], **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {
        "statusCode": status,
        "headers": {"content-type": "application/json", **named},
        "body": json.dumps(content),
    }
