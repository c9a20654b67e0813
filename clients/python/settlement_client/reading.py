import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, NoCredentialsError, NoRegionError
from botocore.httpsession import URLLib3Session

from settlement_client.errors import (
    InvalidRequest,
    MalformedAnswer,
    NotFound,
    SettlementClientError,
    Unavailable,
)
from settlement_client.outcome import Outcome, Status
from settlement_client.pauses import pause_seconds
from settlement_client.request import KEY

_TIMEOUT_SECONDS = (5, 35)
"""Timeouts to connect and to read. API Gateway answers within 30 s."""

_WAIT_SECONDS_MAX = 20
"""The API's longest wait per call."""

_UNKNOWN_KEYS = ("SettlementNotFound", "PayoutNotFound")

_ETAG = re.compile(r'"([0-9]{1,15})"')


@dataclass(frozen=True)
class Reading:
    """An outcome and its sequence.

    Each change raises `sequence` by 1. Pass it as `after` to wait for a change.
    """

    outcome: Outcome
    sequence: int


@dataclass(frozen=True)
class Readers:
    url: str
    session: boto3.Session

    def status(self, key: str) -> Reading:
        """Return the current outcome. Raises NotFound. Raises Unavailable: ask again."""
        return self._get(key)

    def wait(self, key: str, seconds: float, after: int | None) -> Reading:
        """Wait as `Client.wait` does. Raises NotFound, or Unavailable."""
        over_at, seen, failures = time.monotonic() + seconds, after or 0, 0
        while True:
            asked_at = time.monotonic()
            left = max(0.0, over_at - asked_at)
            try:
                found = self._get(key, wait=min(_WAIT_SECONDS_MAX, math.ceil(left)), after=seen)
                if left == 0 or _is_awaited(found, after):
                    return found
                seen, failures = max(seen, found.sequence), 0
            except (NotFound, Unavailable) as error:
                if left == 0:
                    raise
                failures = failures + 1 if isinstance(error, Unavailable) else 0
            if time.monotonic() - asked_at < 1:  # an answer at once, or a failure: never a busy loop
                pause = pause_seconds(failures) if failures else 1.0
                time.sleep(max(0.0, min(pause, over_at - time.monotonic())))

    def _get(self, key: str, **query: int) -> Reading:
        if not KEY.fullmatch(key):
            raise InvalidRequest(f"key: must be a string that matches ^{KEY.pattern}$")
        return self.asked(key, f"/settlements/{key}", query).reading(key)

    def asked(self, what: str, path: str, query: Mapping[str, str | int]) -> "Answer":
        """Return the answer (status 200) about `what`. Raises the error of any other status."""
        address = f"{self.url}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            answer = exchange(self.session, AWSRequest("GET", address))
        except BotoCoreError as error:
            raise Unavailable(f"{what}: no answer, ask again. {error}") from error
        if answer.status != 200:
            raise _refusal(what, answer.status, answer.text)
        return answer


@dataclass(frozen=True)
class Answer:
    """The API's status and text, and the outcome's ETag. A missing ETag is empty."""

    status: int
    text: str
    etag: str

    def reading(self, key: str) -> Reading:
        outcome, etag = Outcome.from_json(self.text), _ETAG.fullmatch(self.etag)
        if etag is None:
            raise MalformedAnswer("etag: must be a sequence in quotes")
        if outcome.key != key:
            raise MalformedAnswer("outcome.key: is not the key that was asked for")
        return Reading(outcome, int(etag[1]))


def exchange(session: boto3.Session, request: AWSRequest) -> Answer:
    """Sign a call with the session's credentials, and send it once.

    Raises BotoCoreError without an answer.
    """
    credentials, region = session.get_credentials(), session.region_name
    if credentials is None:
        raise NoCredentialsError
    if region is None:
        raise NoRegionError
    SigV4Auth(credentials, "execute-api", region).add_auth(request)
    answer = URLLib3Session(timeout=_TIMEOUT_SECONDS).send(request.prepare())
    text = answer.content.decode(errors="replace")  # a proxy's page may be in any encoding
    return Answer(answer.status_code, text, answer.headers.get("etag", ""))


def _is_awaited(found: Reading, after: int | None) -> bool:
    if after is not None:
        return found.sequence > after
    return found.outcome.is_final or found.outcome.status is Status.LIMBO


def _refusal(key: str, status: int, text: str) -> SettlementClientError:
    words = f"{key}: {status} {text[:500]}"
    if status == 404 and any(name in text for name in _UNKNOWN_KEYS):  # a wrong address is a 404, too
        return NotFound(words)
    if status == 400:
        return InvalidRequest(words)
    if status == 429 or status >= 500:
        return Unavailable(f"{words}; ask again")
    return SettlementClientError(words)
