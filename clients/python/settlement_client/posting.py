import time
from collections.abc import Callable

import boto3
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError

from settlement_client.cancelling import is_refusal, refusal
from settlement_client.errors import MalformedAnswer, SettlementClientError, Unknown
from settlement_client.fields import object_of
from settlement_client.pauses import pause_seconds
from settlement_client.reading import Answer, Reading, exchange
from settlement_client.request import Request


def start(url: str, session: boto3.Session, request: Request, wait: int, seconds: float) -> Reading | None:
    """Start a payment. Return its outcome, or None if it is claimed and still in flight.

    Each try sends the same request. The last try comes when the time is over. Raises Refused or Unknown.
    """
    answer = answered(session, lambda: _call(url, request, wait), request.key, seconds)
    try:
        return None if _is_accepted(answer, request.key) else answer.reading(request.key)
    except MalformedAnswer as failed:
        raise Unknown.of(request.key, failed) from failed


def answered(session: boto3.Session, call: Callable[[], AWSRequest], key: str, seconds: float) -> Answer:
    """Repeat a call about `key` for `seconds`, until its status is 200 or 202. Return the answer.

    `call` makes a new request for each try. After a lost answer, AWS may refuse the next try (403). This
    raises Unknown: the lost try may have paid.
    """
    over_at, failures, is_lost = time.monotonic() + seconds, 0, False
    while True:
        left, status, words = over_at - time.monotonic(), 0, ""
        try:
            answer = exchange(session, call())
            status, words = answer.status, f"{answer.status} {answer.text[:500]}"
            if status in (200, 202):
                return answer
            if is_refusal(status):
                refused = refusal(key, answer)
                if is_lost and type(refused) is SettlementClientError:
                    raise Unknown.of(key, refused)
                raise refused
        except BotoCoreError as failed:
            words = str(failed)
        if left <= 0:
            raise Unknown.of(key, words)
        failures, is_lost = failures + 1, is_lost or status != 429
        time.sleep(max(0.0, min(pause_seconds(failures), over_at - time.monotonic())))


def _call(url: str, request: Request, wait: int) -> AWSRequest:
    """Return an unsigned call: each try needs its own signature."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": request.key}
    if wait:
        headers["Prefer"] = f"wait={wait}"
    return AWSRequest("POST", f"{url}/settlements", headers, request.to_json())


def _is_accepted(answer: Answer, key: str) -> bool:
    content = object_of(answer.text, "answer")
    is_short = "status" not in content and "status_url" in content
    return answer.status == 202 and is_short and content.get("key") == key
