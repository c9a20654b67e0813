"""KycDecided: the webhook by which the KYC provider tells how a review has ended; behind a function URL."""

import base64
import hashlib
import json
import re
from typing import Any

from handlers import _machines, _runtime, _secrets
from settlement import rows, steps
from settlement.errors import (
    DeadlineExceeded,
    IdempotencyConflict,
    InvalidRequest,
    KycUnavailable,
    SettlementError,
    SettlementNotFound,
    SignatureRefused,
    StartUnavailable,
    StepFenced,
    StoreUnavailable,
)
from settlement.request import KEY, Settlement
from settlement.reviews import Event
from settlement.signature import verify
from settlement.telemetry import count, logger, observed
from settlement.verdict import KycDecision, Verdict, parse_verdict
from settlement.writes import Standing

BODY_BYTES_MAX = 16_384
STATUSES = {
    InvalidRequest: 400,
    SignatureRefused: 401,
    SettlementNotFound: 404,
    DeadlineExceeded: 409,
    IdempotencyConflict: 409,
    StepFenced: 409,
    KycUnavailable: 503,
    StartUnavailable: 503,
    StoreUnavailable: 503,
}
"""How the provider is told. It repeats a call that is answered with 401 or 503, or not at all."""

_FIELDS = ("decision", "idempotency_key", "reason", "reference")
_EVENT = re.compile(r"[!-~]{1,200}", re.ASCII)
_SUFFIX = ":verify"


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer an HTTP request as a function URL hands it over (payload format 2.0)."""
    try:
        return _response(200, _decided(event, context))
    except SettlementError as refusal:
        return _response(STATUSES[type(refusal)], {"error": type(refusal).__name__, "message": str(refusal)})


@observed("decide")
def _decided(event: dict[str, Any], context: object) -> dict[str, str]:
    """Put the verdict on record and let the settlement go on; the same event again does the latter only.

    Nothing that is not signed is looked at, and nothing is written before all of it has been checked.
    """
    now, body = _runtime.now(), _body(event)
    secrets = _secrets.signing_secrets()
    try:
        event_id = verify(event["headers"], body, secrets, now)
    except KycUnavailable:  # it is our own secret that is not fit to sign with
        count("KycSecretUnreadable")
        raise
    key, verdict = _parse(event_id, body)
    logger.append_keys(key=key)
    row = _runtime.store.read(rows.settlement_key(key))
    if row is None:
        raise SettlementNotFound("idempotency_key: nobody has claimed its settlement")
    settlement, owner = Settlement.of_row(row), f"{key}-decided"
    received = Event(event_id, hashlib.sha256(body).hexdigest())
    try:
        _runtime.store.transact(
            steps.verdict_received(settlement, verdict, received, owner, now, _runtime.terms)
        )
    except Standing:
        logger.info("replayed")
    except IdempotencyConflict:  # what is on record stands, but somebody should know
        count("KycVerdictConflict")
        logger.warning("conflict", reference=verdict.reference)
        raise
    _machines.start(_machines.arn("SETTLEMENT_MACHINE"), owner, settlement.to_wire(_runtime.terms))
    return {"idempotency_key": key + _SUFFIX, "decision": verdict.decision}


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
    """The settlement's key and the verdict. Raises InvalidRequest, naming the field at fault."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequest("body: must be JSON") from None
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
