"""The KYC provider's webhook. It ends a review."""

import hashlib
import re
from datetime import datetime
from typing import Any

from handlers import _dependencies, rooms
from handlers.kyc import _webhook
from settlement.aws import resumption
from settlement.core.ledger.kyc_review import WebhookEvent
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model import executions
from settlement.core.model.errors import (
    IdempotencyConflict,
    InvalidRequest,
    SettlementNotFound,
)
from settlement.core.model.request import KEY
from settlement.core.model.settlement import Settlement
from settlement.core.model.verdict import KycDecision, Verdict, parse_verdict
from settlement.core.policy import steps
from settlement.core.telemetry import count, logger, observed
from settlement.kyc import shared_secrets
from settlement.kyc.webhook_signature import check_headers, verify

_FIELDS = ("decision", "idempotency_key", "reason", "reference")
_EVENT = re.compile(r"[!-~]{1,200}", re.ASCII)
_SUFFIX = ":verify"


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    return _webhook.answer(_decided, event, context)


@observed("decide")
def _decided(event: dict[str, Any], context: object) -> dict[str, str]:
    """Record the verdict, and ask recovery to resume the settlement. A repeated event only asks recovery.

    An oversized, unsigned or stale call is refused before any AWS call. A wrong signature is refused before
    the content is read. Strangers can call this function, so it starts nothing: recovery reads the row.
    """
    now, body = _dependencies.now(), _webhook.body_of(event)
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
    headers = _webhook.headers_of(event)
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


def _parse(event_id: str, body: bytes) -> tuple[str, Verdict]:
    content = _webhook.content_of(body)
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
