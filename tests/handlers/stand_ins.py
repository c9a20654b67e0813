"""What stands in for Secrets Manager and Step Functions, and the provider as the caller of the webhook."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError
from standardwebhooks import Webhook

from tests.conftest import NOW
from tests.handlers.calls import KEY

SECRET = "whsec_" + base64.b64encode(b"canary-signing-secret-current").decode()
PREVIOUS = "whsec_" + base64.b64encode(b"canary-signing-secret-previous").decode()
THIRD = "whsec_" + base64.b64encode(b"canary-signing-secret-stolen").decode()
API_KEY, NEW_API_KEY = "canary-api-key-old", "canary-api-key-new"

VERDICT = {"idempotency_key": f"{KEY}:verify", "decision": "APPROVED", "reference": "ver_1"}
"""What the provider's webhook says."""

OWNER = f"{KEY}-decided"


def text(content: Any) -> str:
    return json.dumps(content)


class Secrets:
    """Stands in for the Secrets Manager client: gives `content`, or raises it; counts the reads."""

    def __init__(self) -> None:
        self.content: Any = {"api_key": API_KEY, "current": SECRET, "previous": PREVIOUS}
        self.read: list[str] = []

    def get_secret_value(self, SecretId: str) -> dict[str, Any]:  # noqa: N803
        self.read.append(SecretId)
        if isinstance(self.content, Exception):
            raise self.content
        return {"SecretString": self.content if isinstance(self.content, str) else text(self.content)}


class ExecutionAlreadyExists(Exception):
    """As the Step Functions client has it."""


class Died(BaseException):
    """The function's environment is gone: nothing that the function does can hold this up."""


@dataclass
class Starts:
    """Stands in for the Step Functions client: remembers what is started, and fails as it is told to."""

    exceptions: Any = field(
        default_factory=lambda: SimpleNamespace(ExecutionAlreadyExists=ExecutionAlreadyExists)
    )
    made: list[tuple[str, str, Any]] = field(default_factory=list)
    failure: BaseException | None = None
    asked: int = 0

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> None:  # noqa: A002, N803
        self.asked += 1
        if self.failure:
            raise self.failure
        start = (stateMachineArn.rpartition(":")[2], name, json.loads(input))
        if any(name == earlier for _, earlier, _ in self.made):
            raise ExecutionAlreadyExists
        self.made.append(start)

    @property
    def names(self) -> list[str]:
        return [name for _, name, _ in self.made]


def throttled(operation: str) -> ClientError:
    return ClientError({"Error": {"Code": "ThrottlingException", "Message": "canary-account"}}, operation)


def unanswered() -> ReadTimeoutError:
    return ReadTimeoutError(endpoint_url="https://canary-endpoint.invalid")


@dataclass(frozen=True)
class Caller:
    """How the provider calls: with which secret, when, and under which id of the event."""

    secret: str = SECRET
    at: datetime = NOW
    id: str = "evt_1"

    def __call__(
        self,
        body: Any = None,
        *,
        encode: bool = False,
        change: Callable[[dict[str, str]], dict[str, str]] = dict,
        **more: Any,
    ) -> dict[str, Any]:
        """The event of a function URL (payload format 2.0) for a body, or for the verdict with `more`."""
        sent = text(VERDICT | more) if body is None else body
        signature = Webhook(self.secret).sign(msg_id=self.id, timestamp=self.at, data=sent)
        headers = {
            "content-type": "application/json",
            "webhook-id": self.id,
            "webhook-timestamp": str(int(self.at.timestamp())),
            "webhook-signature": signature,
        }
        return {
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": "/",
            "headers": change(headers),
            "requestContext": {"http": {"method": "POST", "path": "/"}},
            "body": base64.b64encode(sent.encode()).decode() if encode else sent,
            "isBase64Encoded": encode,
        }


signed = Caller()
"""The provider's call as it should be."""


def past(**by: float) -> datetime:
    return NOW + timedelta(**by)
