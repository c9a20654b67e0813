"""Calls to the stack's HTTP APIs (doors), signed with the caller's AWS credentials."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import NoCredentialsError
from botocore.httpsession import URLLib3Session

_TIMEOUT_SECONDS = (5, 35)
"""Timeouts to connect and to read. API Gateway answers within 30 s."""


@dataclass(frozen=True)
class Answer:
    """An API's answer. A failure's `content` has `error` and `message`."""

    status: int
    content: dict[str, Any]


@dataclass(frozen=True)
class Door:
    """The API at `url`. AWS proves the caller by the signature alone."""

    url: str
    session: boto3.Session

    def send(self, decision: str, order: dict[str, Any]) -> Answer:
        """Post an order. After BotoCoreError the outcome is unknown."""
        return self.call("POST", f"/orders/{decision}", order)

    def call(self, method: str, path: str, content: Any = None, **headers: str) -> Answer:
        """Send a signed call. After BotoCoreError the outcome is unknown."""
        request = AWSRequest(
            method,
            f"{self.url}{path}",
            data=None if content is None else json.dumps(content),
            headers={"content-type": "application/json", **headers},
        )
        credentials = self.session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        SigV4Auth(credentials, "execute-api", self.session.region_name).add_auth(request)
        answer = URLLib3Session(timeout=_TIMEOUT_SECONDS).send(request.prepare())
        try:
            told = json.loads(answer.text)
        except ValueError:
            told = None
        return Answer(answer.status_code, told if isinstance(told, dict) else {"message": answer.text})


def embedded_url(url: str, endpoint_url: str) -> str:
    """Return the embedded AWS's address for an API's `url` on AWS."""
    host = urlsplit(url).hostname or ""
    return f"{endpoint_url}/_aws/execute-api/{host.partition('.')[0]}/$default"
