"""The signed callback that ends a check's wait; behind a function URL, whose path names the check."""

import base64
import json
from datetime import datetime
from typing import Any

from handlers import _dependencies
from handlers.checks import _record
from settlement.aws import resumption
from settlement.checks import answers, of_stage
from settlement.checks.check import Declared
from settlement.core.model import executions, strict_json
from settlement.core.model.errors import (
    DeadlineExceeded,
    IdempotencyConflict,
    InvalidRequest,
    KycUnavailable,
    RowDamaged,
    SettlementError,
    SettlementNotFound,
    SignatureRefused,
    StartUnavailable,
    StepFenced,
    StoreUnavailable,
)
from settlement.core.model.stored import MalformedRow
from settlement.core.telemetry import count, logger, observed
from settlement.kyc import shared_secrets
from settlement.kyc.webhook_signature import check_headers, verify

BODY_BYTES_MAX = 16_384
STATUSES = {
    InvalidRequest: 400,
    SignatureRefused: 401,
    SettlementNotFound: 404,
    DeadlineExceeded: 409,
    IdempotencyConflict: 409,
    StepFenced: 409,
    KycUnavailable: 503,
    RowDamaged: 503,
    StartUnavailable: 503,
    StoreUnavailable: 503,
}
"""A sender repeats a call after 401 or 503."""


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer a function URL (payload format 2.0)."""
    try:
        return _response(200, _decided(event, context))
    except SettlementError as error:
        refusal = error
    except MalformedRow as malformed:
        refusal = RowDamaged.of(malformed)
    return _response(STATUSES[type(refusal)], {"error": type(refusal).__name__, "message": str(refusal)})


@observed("decide")
def _decided(event: dict[str, Any], context: object) -> dict[str, str]:
    """Record a check's decision and ask recovery to resume the payment; repeated, it only asks.

    Another decision than the first is a conflict. Each check has its own path and secret.
    """
    now, body = _dependencies.now(), _body(event)
    check = _named(event)
    _verify(event, check, body, now)
    key, content = _parse(body, check)
    logger.append_keys(key=key)
    state = _dependencies.store.settlement(key)
    if state is None:
        raise SettlementNotFound("token: no request has claimed its settlement")
    on_record = _record.record(state, check, content, now)
    if any(on_record.get(name) != content[name] for name in ("decision", "reason")):
        count("CheckConflict")
        raise IdempotencyConflict(f"decision: {on_record.get('decision')} is on record, for good")
    resumption.ask(key, executions.decided(key))
    return {"check": check.name, "decision": content["decision"], "key": key}


def _named(event: dict[str, Any]) -> Declared:
    check = of_stage.declared().get(str(event.get("rawPath", "")).strip("/"))
    if check is None or not check.wait_seconds:
        raise SettlementNotFound("path: names no check of this stage that waits")
    return check


def _verify(event: dict[str, Any], check: Declared, body: bytes, now: datetime) -> None:
    headers = {name.lower(): value for name, value in event["headers"].items()}
    check_headers(headers, now)
    secrets = shared_secrets.signing_secrets(now, of_stage.signing_secret(check.name))
    verify(headers, body, secrets, now)


def _parse(body: bytes, check: Declared) -> tuple[str, dict[str, str]]:
    try:
        content = strict_json.parse(body)
    except strict_json.Malformed as fault:
        raise InvalidRequest(f"body: {fault}") from None
    return answers.parse_callback(content, check)


def _body(event: dict[str, Any]) -> bytes:
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


def _response(status: int, content: dict[str, str]) -> dict[str, Any]:
    return {
        "statusCode": status,
        "headers": {"content-type": "application/json"},
        "body": json.dumps(content),
    }
