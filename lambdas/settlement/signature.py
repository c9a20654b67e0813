"""Who calls a webhook: signatures as https://www.standardwebhooks.com specifies them, HMAC-SHA256."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from settlement.errors import SignatureRefused

TOLERANCE = timedelta(minutes=5)
"""How far the caller's clock may be from ours, and so how long a recorded call could be replayed."""

_PREFIX = "whsec_"


def verify(headers: Mapping[str, str], body: bytes, secrets: Iterable[str], now: datetime) -> str:
    """Return the event's id if one of the secrets has signed it just now. Raises SignatureRefused.

    `headers` has names in lower case. What is signed is `<webhook-id>.<webhook-timestamp>.<body>`.
    """
    event, sent_at, signatures = (
        headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
    )
    if not (event and signatures and sent_at.isascii() and sent_at.isdecimal() and len(sent_at) <= 12):
        raise SignatureRefused("webhook: must have the headers webhook-id, -timestamp and -signature")
    if abs(now.timestamp() - int(sent_at)) > TOLERANCE.total_seconds():
        raise SignatureRefused("webhook-timestamp: is more than 5 minutes away")
    signed = b".".join((event.encode(), sent_at.encode(), body))
    given = [
        value.encode()
        for version, _, value in (s.partition(",") for s in signatures.split())
        if version == "v1"
    ]
    matches = [
        hmac.compare_digest(base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)), value)
        for secret in secrets
        for value in given
    ]
    if not any(matches):
        raise SignatureRefused("webhook-signature: is by no secret that is shared with this stage")
    return event


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise SignatureRefused("webhook: a secret of this stage is not base64") from None
