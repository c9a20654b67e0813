"""The signed callback that ends a check's wait. Its path names the check."""

from datetime import datetime
from typing import Any

from handlers import _dependencies
from handlers.checks import _record
from handlers.kyc import _webhook
from settlement.aws import resumption
from settlement.checks import answers, of_stage
from settlement.checks.check import Declared
from settlement.core.model import executions
from settlement.core.model.errors import (
    IdempotencyConflict,
    SettlementNotFound,
)
from settlement.core.telemetry import count, logger, observed
from settlement.kyc import shared_secrets
from settlement.kyc.webhook_signature import check_headers, verify


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    return _webhook.answer(_decided, event, context)


@observed("decide")
def _decided(event: dict[str, Any], context: object) -> dict[str, str]:
    """Record a check's decision, and ask recovery to resume the payment.

    A repeated callback only asks recovery. A different second decision is a conflict.
    """
    now, body = _dependencies.now(), _webhook.body_of(event)
    check = _named(event)
    _verify(event, check, body, now)
    key, content = answers.parse_callback(_webhook.content_of(body), check)
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
    headers = _webhook.headers_of(event)
    check_headers(headers, now)
    secrets = shared_secrets.signing_secrets(now, of_stage.signing_secret(check.name))
    verify(headers, body, secrets, now)
