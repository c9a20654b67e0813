import time
from datetime import UTC, datetime
from typing import Any, Protocol

import urllib3
from standardwebhooks.webhooks import Webhook

_PAUSE_SECONDS = 0.5
_FINAL = (200, 400, 404, 409)
"""Statuses after which the webhook is not called again."""


class Target(Protocol):
    @property
    def webhook_url(self) -> str: ...

    @property
    def signing_secret(self) -> str: ...


def deliver(target: Target, event: str, body: str, seconds_max: float) -> tuple[int, Any]:
    """Call the webhook until a final answer or `seconds_max`; return the last status (599: none) and text."""
    give_up_at = time.monotonic() + seconds_max
    while True:
        status, answer = _call(target, event, body, seconds_max)
        if status in _FINAL or time.monotonic() > give_up_at:
            return status, answer
        time.sleep(_PAUSE_SECONDS)


def _call(target: Target, event: str, body: str, seconds_max: float) -> tuple[int, Any]:
    now = datetime.now(UTC)
    headers = {
        "Content-Type": "application/json",
        "webhook-id": event,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(target.signing_secret).sign(event, now, body),
    }
    try:
        answer = urllib3.request("POST", target.webhook_url, body=body, headers=headers, timeout=seconds_max)
    except urllib3.exceptions.HTTPError as error:
        return 599, type(error).__name__
    return answer.status, answer.data.decode(errors="replace")
