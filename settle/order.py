import time
from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import HTTPClientError, ReadTimeoutError

from settle.exit_codes import CommandFailed, Exit
from settle.stack import Stack
from settlement.core.model.errors import InvalidRequest
from settlement.http.caller import Caller

UNPROVEN = Caller(by="not proven yet", user_id="-", request_id="-", source_ip="-")
"""The caller before an order is sent. Only the orders' API (the door) can prove the caller."""

_CODES = {
    "InvalidRequest": Exit.USAGE,
    **dict.fromkeys(("AccountNotFound", "SettlementNotFound"), Exit.NOT_FOUND),
    **dict.fromkeys(
        (
            *("AccountExists", "ApprovalNeeded", "CaseNotCounted", "IdempotencyConflict", "NotReversible"),
            *("PartRefused", "ProposalRefused", "ResolutionRefused", "RowDamaged", "StepFenced"),
        ),
        Exit.CONFLICT,
    ),
    **dict.fromkeys(
        (
            *("AccountClosed", "AccountFrozen", "AccountInLimbo", "AccountNotEmpty", "AccountNotFrozen"),
            *("CapExceeded", "CurrencyMismatch", "InsufficientFunds"),
        ),
        Exit.REFUSED,
    ),
}
"""Exit codes of the orders' API's refusals. After other errors the outcome is unknown."""


PAUSES_SECONDS = (0.5, 1, 2, 4)
"""Pauses between tries."""

_THROTTLED = 429

_FAILED = frozenset({500, 502, 503, 504})
"""API Gateway's statuses when the function gave no answer."""


class DoorShut(CommandFailed):
    """The orders' API takes no order now: unreachable, throttled, or forbidden."""


class DoorThrottled(DoorShut):
    pass


class DoorForbidden(DoorShut):
    """The person may not give the order (403)."""


class ApprovalRequired(CommandFailed):
    """The stage requires more than one person."""


def give(
    stack: Stack, decision: str, order: dict[str, Any], pauses: Sequence[float] | None = None
) -> dict[str, Any]:
    """Send an order, and return it as recorded. It is safe to repeat. Raises CommandFailed.

    Retries after each of `pauses` while the API throttles. After a function's failure, it also retries.
    """
    try:
        answer = stack.door.send(decision, order)
        for tried, pause in enumerate(PAUSES_SECONDS if pauses is None else pauses):
            failed = answer.status in _FAILED and "error" not in answer.content
            if answer.status != _THROTTLED and not (failed and tried < len(PAUSES_SECONDS)):
                break
            time.sleep(pause)
            answer = stack.door.send(decision, order)
    except HTTPClientError as unreachable:
        is_slow = isinstance(unreachable, ReadTimeoutError)  # the next order may have an answer
        failure = CommandFailed if is_slow else DoorShut
        raise failure(Exit.FAILED, _unknown(decision, order, type(unreachable).__name__)) from unreachable
    if answer.status == 200:
        return answer.content
    name, message = answer.content.get("error"), answer.content.get("message")
    if code := _CODES.get(str(name)):
        refusal = ApprovalRequired if name == "ApprovalNeeded" else CommandFailed
        raise refusal(code, f"{decision}: {name}: {message}")
    if answer.status == 403:
        raise DoorForbidden(
            Exit.FAILED,
            f"{decision}: {name or 'Forbidden'}: your AWS identity may not give this order"
            f" (execute-api:Invoke on POST /orders/{decision})",
        )
    failure = DoorThrottled if answer.status == _THROTTLED else CommandFailed
    told = f"{name}: {message}" if name else f"HTTP {answer.status}"
    raise failure(Exit.FAILED, _unknown(decision, order, told))


def _unknown(decision: str, order: dict[str, Any], told: str) -> str:
    part = f" and --part {order['part']}" if "part" in order else ""
    key = f" with its key {order['key']}" if "key" in order else ""
    return f"{decision}: not carried out, or not known to be: {told}; repeat it{key}{part}"


def check_order(parse: Callable[..., Any], order: dict[str, Any], *more: Any) -> Any:
    try:
        return parse(order, UNPROVEN, *more)
    except InvalidRequest as refusal:
        raise CommandFailed(Exit.USAGE, str(refusal)) from refusal
