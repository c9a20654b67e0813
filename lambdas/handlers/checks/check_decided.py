"""The signed callback that ends a check's wait; behind a function URL, whose path names the check."""

import base64
import json
from contextlib import suppress
from datetime import datetime
from typing import Any

from handlers import _dependencies
from settlement.aws import resumption
from settlement.checks import answers, of_stage, waits
from settlement.checks.check import Declared
from settlement.core.ledger.keys import Row
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
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp
from settlement.core.telemetry import count, logger, observed
from settlement.kyc import shared_secrets
from settlement.kyc.webhook_signature import check_headers, verify

BODY_BYTES_MAX = 16_384
SECRET_CACHE_SECONDS = 10
TRIES_MAX = 5
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
    on_record = _record(state, check, content, now)
    if any(on_record.get(name) != content[name] for name in ("decision", "reason")):
        count("CheckConflict")
        raise IdempotencyConflict(f"decision: {on_record.get('decision')} is on record, for good")
    resumption.ask(key, executions.decided(key))
    return {"check": check.name, "decision": content["decision"], "key": key}


def _record(state: SettlementState, check: Declared, content: dict[str, str], now: datetime) -> Row:
    """Record the decision, unless one is on record, and end the wait for it. Return the evidence.

    A refusal ends the wait for another check, too.
    Evidence and row change in one transaction, so no wait begins behind an answer. If a wait begins or ends
    meanwhile, the transaction is built again. Raises StoreUnavailable after some tries.
    """
    settlement, store, config = state.settlement, _dependencies.store, _dependencies.config
    for _ in range(TRIES_MAX):
        found, awaited = store.evidence(settlement.key, answers.step_of(check.name)), waits.waited_for(state)
        if found:
            if awaited == check.name:
                since = found["posted_at"]
                store.update(waits.end(settlement, check, awaited, since=since, now=now, config=config))
            return found
        _ensure_open(state, check)
        if awaited and (awaited == check.name or content["decision"] == answers.REFUSED):
            row = waits.end(settlement, check, awaited, since=timestamp(now), now=now, config=config)
        else:
            row = waits.keep(settlement, check, awaited)
        with suppress(AlreadyApplied):
            store.transact((waits.evidence(settlement, check, content, now), row))
            count(answers.metric_of(check.name, content["decision"].lower()))
        state = store.settlement(settlement.key) or state
    raise StoreUnavailable(f"{settlement.key}: its row has changed during each of {TRIES_MAX} tries")


def _ensure_open(state: SettlementState, check: Declared) -> None:
    if check.name not in state.checks:
        raise SettlementNotFound("token: its settlement does not demand this check")
    is_open = state.status is Status.PROCESSING and Step.HOLD in state.steps and state.verdict is None
    if not is_open:
        raise StepFenced.at("check", state.status, state.steps)


def _named(event: dict[str, Any]) -> Declared:
    check = of_stage.declared().get(str(event.get("rawPath", "")).strip("/"))
    if check is None or not check.wait_seconds:
        raise SettlementNotFound("path: names no check of this stage that waits")
    return check


def _verify(event: dict[str, Any], check: Declared, body: bytes, now: datetime) -> None:
    headers = {name.lower(): value for name, value in event["headers"].items()}
    check_headers(headers, now)
    secret = shared_secrets.read(of_stage.signing_secret(check.name), cache_seconds=SECRET_CACHE_SECONDS)
    verify(headers, body, [secret.get("current")], now)


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
