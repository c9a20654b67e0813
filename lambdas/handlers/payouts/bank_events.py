"""The bank's webhook: it brings a payout's next look forward."""

from datetime import datetime
from typing import Any

from handlers import _dependencies
from handlers.kyc import _webhook
from handlers.payouts import _payouts
from settlement.core.model.errors import InvalidRequest, KycUnavailable, StoreUnavailable
from settlement.core.telemetry import about, observed
from settlement.kyc import shared_secrets
from settlement.kyc.webhook_signature import check_headers, verify
from settlement.payouts import hints, over_http


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    return _webhook.answer(_heard, event, context)


@observed("hear")
def _heard(event: dict[str, Any], context: object) -> dict[str, str]:
    """Bring a payout's next look forward. Strangers can call this, so it sends and moves nothing.

    Signature and age are checked before the content is read.
    """
    now, body = _dependencies.now(), _webhook.body_of(event)
    headers = _webhook.headers_of(event)
    check_headers(headers, now)
    _verify(headers, body, now)
    try:
        reference = over_http.parse_event(body)
    except over_http.MalformedEvent as malformed:
        raise InvalidRequest(str(malformed)) from None
    state = hints.bring_forward(_dependencies.store, reference, now)
    about(state.key)
    return {"reference": reference, "status": state.status.value}


def _verify(headers: dict[str, str], body: bytes, now: datetime) -> None:
    try:
        secrets = shared_secrets.signing_secrets(
            now, _payouts.signing_secret(), metric="BankSecretUnreadable"
        )
        verify(headers, body, secrets, now)
    except KycUnavailable as unusable:  # of KYC, it would alarm others
        raise StoreUnavailable(f"bank: {unusable}") from None
