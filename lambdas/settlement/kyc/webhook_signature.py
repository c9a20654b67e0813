"""Webhook signatures (HMAC-SHA256). Specification: https://www.standardwebhooks.com."""

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from settlement.core.model.errors import KycUnavailable, SignatureRefused

TOLERANCE = timedelta(minutes=5)
"""Largest difference of clocks. For this time, a recorded call can be replayed.

The specification's own libraries use the same value.
"""

SIGNATURES_MAX = 10
"""Maximum signatures of a call. A sender signs once with each secret."""

_KEY_BYTES_MIN = 24
_PREFIX = "whsec_"


def check_headers(headers: Mapping[str, str], now: datetime) -> tuple[str, str, str]:
    """Return the call's id, time and signatures. Raises SignatureRefused.

    This part of `verify` needs no secret.
    """
    event, sent_at, signatures = (
        headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
    )
    if not (event and signatures and f"{event}{sent_at}{signatures}".isascii() and _is_time(sent_at)):
        raise SignatureRefused("webhook: must have the headers webhook-id, -timestamp and -signature")
    if abs(now.timestamp() - int(sent_at)) > TOLERANCE.total_seconds():
        raise SignatureRefused("webhook-timestamp: is more than 5 minutes away")
    return event, sent_at, signatures


def verify(headers: Mapping[str, str], body: bytes, secrets: Iterable[object], now: datetime) -> str:
    """Return the event's id, if a secret signed the call within the tolerance.

    Header names are in lower case. Raises SignatureRefused. Raises KycUnavailable if the stage's own secret
    is unusable.
    """
    event, sent_at, signatures = check_headers(headers, now)
    signed = b".".join((event.encode(), sent_at.encode(), body))
    digests = [hmac.digest(signing_key(secret), signed, hashlib.sha256) for secret in secrets]
    expected = [b"v1," + base64.b64encode(digest) for digest in digests]
    given = [signature.encode() for signature in signatures.split(" ", SIGNATURES_MAX)[:SIGNATURES_MAX]]
    if not any(hmac.compare_digest(one, other) for one in expected for other in given):
        raise SignatureRefused("webhook-signature: is by no secret that is shared with this stage")
    return event


def _is_time(text: str) -> bool:
    return text.isdecimal() and len(text) <= 12


def signing_key(secret: object) -> bytes:
    """Decode a secret. Raises KycUnavailable."""
    try:
        key = base64.b64decode(str(secret).removeprefix(_PREFIX), validate=True)
    except ValueError:
        key = b""
    if len(key) < _KEY_BYTES_MIN:
        raise KycUnavailable(f"signing secret: must be base64 of at least {_KEY_BYTES_MIN} bytes")
    return key
