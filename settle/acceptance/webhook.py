import base64
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass, field

from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from settle.acceptance.run import Run
from settlement.kyc.webhook_signature import signing_key

SECONDS_MAX = 35
"""Time limit of a call. API Gateway answers within 30 s."""


@dataclass(frozen=True)
class Event:
    """The webhook event that ends a review."""

    key: str
    decision: str = "APPROVED"
    id: str = field(default_factory=lambda: f"acceptance-{secrets.token_hex(8)}")

    @property
    def body(self) -> bytes:
        """The event's body, as in docs/contracts/kyc.openapi.yaml."""
        return json.dumps(
            {
                "idempotency_key": f"{self.key}:verify",
                "decision": self.decision,
                "reference": f"ver_{self.key}",
                "reason": "an acceptance",
            }
        ).encode()


def stage_secret(run: Run) -> str:
    client, arn = run.stack.client("secretsmanager"), run.stack.outputs["KycSigningArn"]
    return str(json.loads(client.get_secret_value(SecretId=arn)["SecretString"])["current"])


def foreign_secret() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def call(run: Run, event: Event, secret: str) -> int:
    run.waits_for = f"the webhook's answer about {event.key}"
    headers = {"content-type": "application/json"} | signed(event, secret, int(time.time()))
    sent = AWSRequest("POST", run.stack.webhook_url, headers, event.body)
    return int(URLLib3Session(timeout=SECONDS_MAX).send(sent.prepare()).status_code)


def signed(event: Event, secret: str, now: int) -> dict[str, str]:
    """Return signature headers of https://www.standardwebhooks.com."""
    content = b".".join((event.id.encode(), str(now).encode(), event.body))
    digest = hmac.digest(signing_key(secret), content, hashlib.sha256)
    return {
        "webhook-id": event.id,
        "webhook-timestamp": str(now),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
