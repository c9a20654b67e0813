"""The KYC provider's webhook that ends a review; behind a function URL."""

import base64
import hashlib
import json
import re
from datetime import datetime
from typing import Any

from handlers import _dependencies, rooms
from settlement.aws import resumption
from settlement.core.ledger.kyc_review import WebhookEvent
from settlement.core.ledger.transaction import AlreadyApplied
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
from settlement.core.model.request import KEY
from settlement.core.model.settlement import Settlement
from settlement.core.model.stored import MalformedRow
from settlement.core.model.verdict import KycDecision, Verdict, parse_verdict
from settlement.core.policy import steps
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
"""The provider repeats a call only after 401 or 503."""

_FIELDS = ("decision", "idempotency_key", "reason", "reference")
_EVENT = re.compile(r"[!-~]{1,200}", re.ASCII)
_SUFFIX = ":verify"


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer a function URL or an HTTP API (payload format 2.0)."""
    try:
        return _response(200, _decided(event, context))
    except SettlementError as error:
        refusal = error
    except MalformedRow as malformed:
        refusal = RowDamaged.of(malformed)
    return _response(STATUSES[type(refusal)], {"error": type(refusal).__name__, "message": str(refusal)})


@observed("decide")
def _decided(event: dict[str, Any], context: object) -> dict[str, str]:
    """Record the verdict and ask recovery to resume the settlement; a repeated event only asks.

    An oversized, unsigned or stale call is refused before any AWS call, and a wrong signature before the
    content is read. Strangers can call this function, so it starts nothing: recovery reads the row.
    """
    now, body = _dependencies.now(), _body(event)
    event_id = _verified(event, body, now)
    key, verdict = _parse(event_id, body)
    logger.append_keys(key=key)
    state = _dependencies.store.settlement(key)
    if state is None:
        raise SettlementNotFound("idempotency_key: no request has claimed its settlement")
    if state.checks and verdict.decision is KycDecision.APPROVED:
        rooms.before_approval(state)
    received = WebhookEvent(event_id, hashlib.sha256(body).hexdigest())
    _record(state.settlement, verdict, received, now)
    resumption.ask(key, executions.decided(key))
    return {"idempotency_key": key + _SUFFIX, "decision": verdict.decision}


def _verified(event: dict[str, Any], body: bytes, now: datetime) -> str:
    headers = {name.lower(): value for name, value in event["headers"].items()}
    check_headers(headers, now)
    return verify(headers, body, shared_secrets.signing_secrets(now), now)


def _record(settlement: Settlement, verdict: Verdict, received: WebhookEvent, now: datetime) -> None:
    owner, config = executions.decided(settlement.key), _dependencies.config
    writes = steps.record_webhook_verdict(settlement, verdict, received, owner, now, config)
    try:
        _dependencies.store.transact(writes)
    except AlreadyApplied:
        logger.info("replayed")
    except IdempotencyConflict:  # the first verdict counts, but the conflict must be seen
        count("KycVerdictConflict")
        logger.warning("conflict", reference=verdict.reference)
        raise


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


def _parse(event_id: str, body: bytes) -> tuple[str, Verdict]:
    try:
        content = strict_json.parse(body)
    except strict_json.Malformed as fault:
        raise InvalidRequest(f"body: {fault}") from None
    try:
        if not isinstance(content, dict) or not content.keys() <= set(_FIELDS):
            raise ValueError(f"body: must be a JSON object with the fields {', '.join(_FIELDS)}")
        verdict = parse_verdict(content, "webhook")
        name = content.get("idempotency_key")
        if verdict.decision is KycDecision.REVIEW:
            raise ValueError("decision: must be APPROVED or REJECTED")
        if not (isinstance(name, str) and name.endswith(_SUFFIX) and KEY.fullmatch(name[: -len(_SUFFIX)])):
            raise ValueError("idempotency_key: must be the one that the verification was asked with")
        if not _EVENT.fullmatch(event_id):
            raise ValueError("webhook-id: must be at most 200 printable characters of ASCII")
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    return name[: -len(_SUFFIX)], verdict


def _response(status: int, content: dict[str, str]) -> dict[str, Any]:
    return {
        "statusCode": status,
        "headers": {"content-type": "application/json"},
        "body": json.dumps(content),
    }
