import boto3
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError

from settlement_client.errors import (
    IdempotencyConflict,
    InvalidRequest,
    MalformedAnswer,
    NotCancellable,
    NotFound,
    PayoutRefused,
    SequenceChanged,
    SettlementClientError,
    Unknown,
)
from settlement_client.reading import Answer, Reading, exchange
from settlement_client.request import Request

_REFUSALS: dict[str, type[SettlementClientError]] = {
    "InvalidRequest": InvalidRequest,
    "SettlementNotFound": NotFound,
    "IdempotencyConflict": IdempotencyConflict,
    "NotCancellable": NotCancellable,
    "SequenceChanged": SequenceChanged,
    "PayoutNotFound": NotFound,
    **dict.fromkeys(("PayoutRefused", "DestinationRefused", "InsufficientFunds"), PayoutRefused),
    **dict.fromkeys(("AccountNotFound", "AccountFrozen", "AccountClosed"), PayoutRefused),
    **dict.fromkeys(("AccountInLimbo", "CurrencyMismatch"), PayoutRefused),
}


def cancel(url: str, session: boto3.Session, request: Request, seen: int | None) -> Reading:
    """Cancel as `Client.cancel` does. Raises Refused or NotFound. Raises Unknown: call again."""
    headers = {"Content-Type": "application/json"}
    if seen is not None:
        headers["If-Match"] = f'"{seen}"'
    call = AWSRequest("POST", f"{url}/settlements/{request.key}/cancel", headers, request.to_json())
    try:
        answer = exchange(session, call)
        if answer.status in (200, 202):
            return answer.reading(request.key)
    except (BotoCoreError, MalformedAnswer) as failed:
        raise Unknown.of(request.key, failed) from failed
    refused = refusal(request.key, answer)
    raise refused if is_refusal(answer.status) else Unknown.of(request.key, refused)


def is_refusal(status: int) -> bool:
    """Return whether a second try would be refused, too: for a status below 500, except 429."""
    return status != 429 and status < 500


def refusal(key: str, answer: Answer) -> SettlementClientError:
    """Return the known error that an answer names. Without one, a refusal is not from the stack."""
    named = (error for name, error in _REFUSALS.items() if f'"{name}"' in answer.text)
    return next(named, SettlementClientError)(f"{key}: {answer.status} {answer.text[:500]}")
