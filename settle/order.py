import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from botocore.exceptions import HTTPClientError, ReadTimeoutError

from settle.door import Answer
from settle.exit_codes import CommandFailed, Exit
from settle.stack import Stack
from settlement.core.model.errors import InvalidRequest
from settlement.http.caller import Caller

UNPROVEN = Caller(by="not proven yet", user_id="-", request_id="-", source_ip="-")
"""The caller before an order is sent. Only the orders' API (the door) can prove the caller."""

_CODES = {
    "InvalidRequest": Exit.USAGE,
    **dict.fromkeys(("AccountNotFound", "PayoutNotFound", "SettlementNotFound"), Exit.NOT_FOUND),
    **dict.fromkeys(
        (
            *("AccountExists", "ApprovalNeeded", "CaseNotCounted", "IdempotencyConflict", "NotReversible"),
            *(
                "PartRefused",
                "PayoutFenced",
                "PayRunRefused",
                "ProposalRefused",
                "ResolutionRefused",
                "RowDamaged",
            ),
            "StepFenced",
        ),
        Exit.CONFLICT,
    ),
    **dict.fromkeys(
        (
            *("AccountClosed", "AccountFrozen", "AccountInLimbo", "AccountNotEmpty", "AccountNotFrozen"),
            *("CapExceeded", "CurrencyMismatch", "DestinationRefused", "InsufficientFunds"),
            "PayoutRefused",
        ),
        Exit.REFUSED,
    ),
}
"""Exit codes of refusals by the orders' and settlements' APIs. After other errors the outcome is unknown."""


PAUSES_SECONDS = (0.5, 1, 2, 4)
"""Pauses between tries of an order."""

_THROTTLED = 429

_TAKEN = (200, 202)

_FAILED = frozenset({500, 502, 503, 504})
"""API Gateway's statuses when the function gave no answer."""


class DoorShut(CommandFailed):
    """The orders' API takes no order now: it is unreachable, throttled or forbidden."""


class DoorThrottled(DoorShut):
    pass


class DoorForbidden(DoorShut):
    """The person may not give the order (403)."""


class OrderRefused(CommandFailed):
    """The API's refusal: nothing was written. `error` is its name, `reason` its message."""

    def __init__(self, code: Exit, decision: str, error: str, reason: object) -> None:
        super().__init__(code, f"{decision}: {error}: {reason}")
        self.error, self.reason = error, str(reason)


class ApprovalRequired(OrderRefused):
    """The stage requires more than one person."""


def give(
    stack: Stack, decision: str, order: dict[str, Any], pauses: Sequence[float] | None = None
) -> dict[str, Any]:
    """Send an order, and return it as recorded. It is safe to repeat. Raises CommandFailed.

    Retries after each of `pauses` while the API throttles, but only four times if its function fails.
    """
    send = partial(stack.door.send, decision, order)
    return answered(send, decision, order, f"/orders/{decision}", pauses).content


def answered(
    send: Callable[[], Answer],
    decision: str,
    order: dict[str, Any],
    path: str,
    pauses: Sequence[float] | None = None,
) -> Answer:
    """Return the API's answer (status 200 or 202) to `order`, as `give` does. Raises CommandFailed."""
    try:
        answer = send()
        for tried, pause in enumerate(PAUSES_SECONDS if pauses is None else pauses):
            failed = answer.status in _FAILED and "error" not in answer.content
            if answer.status != _THROTTLED and not (failed and tried < len(PAUSES_SECONDS)):
                break
            time.sleep(pause)
            answer = send()
    except HTTPClientError as unreachable:
        is_slow = isinstance(unreachable, ReadTimeoutError)  # the next order may have an answer
        failure = CommandFailed if is_slow else DoorShut
        raise failure(Exit.FAILED, _unknown(decision, order, type(unreachable).__name__)) from unreachable
    if answer.status in _TAKEN:
        return answer
    raise _refusal(answer, decision, order, path)


def _refusal(answer: Answer, decision: str, order: dict[str, Any], path: str) -> CommandFailed:
    name, message = answer.content.get("error"), answer.content.get("message")
    if code := _CODES.get(str(name)):
        refusal = ApprovalRequired if name == "ApprovalNeeded" else OrderRefused
        return refusal(code, decision, str(name), message)
    if answer.status == 403:
        return DoorForbidden(
            Exit.FAILED,
            f"{decision}: {name or 'Forbidden'}: your AWS identity may not give this order"
            f" (execute-api:Invoke on POST {path})",
        )
    failure = DoorThrottled if answer.status == _THROTTLED else CommandFailed
    told = f"{name}: {message}" if name else f"HTTP {answer.status}"
    return failure(Exit.FAILED, _unknown(decision, order, told))


def _unknown(decision: str, order: dict[str, Any], told: str) -> str:
    part = f" and --part {order['part']}" if "part" in order else ""
    key = f" with its key {order['key']}" if "key" in order else ""
    return f"{decision}: not carried out, or not known to be: {told}; repeat it{key}{part}"


def check_order(parse: Callable[..., Any], order: dict[str, Any], *more: Any) -> Any:
    try:
        return parse(order, UNPROVEN, *more)
    except InvalidRequest as refusal:
        raise CommandFailed(Exit.USAGE, str(refusal)) from refusal
