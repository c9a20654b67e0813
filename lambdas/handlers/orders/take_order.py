"""Carry out a person's order; behind an HTTP API that proves who gives it."""

from collections.abc import Callable
from typing import Any

from handlers import rooms
from handlers.http import _http
from handlers.orders import _approvals, _orders
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.orders import REVERSE, Decision
from settlement.core.telemetry import about, observed
from settlement.http.caller import Caller, caller_of
from settlement.orders.proposal import Move
from settlement.orders.requests import RECOVER, REVERSE_PART

ROUTES: dict[str, tuple[rooms.Take, str | None]] = {
    **dict.fromkeys(map(str, Decision), (_orders.resolve, "decision")),
    REVERSE: (_orders.reverse, None),
    REVERSE_PART: (_orders.reverse_part, None),
    RECOVER: (_orders.recover, None),
    **rooms.orders(),
}
"""Orders by the last part of their route (`POST /orders/write-off`), with the field that repeats the route.

IAM allows the route alone, but the whole order is signed.
"""

MOVES: dict[str, Callable[[str, object, Caller], dict[str, Any]]] = {
    Move.PROPOSE: _approvals.propose,
    Move.APPROVE: _approvals.approve,
    Move.WITHDRAW: _approvals.withdraw,
    Move.BREAK_GLASS: _approvals.break_glass,
}
"""Moves on a decision that needs several persons: `POST /orders/write-off/propose`."""


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    return _http.answered(_ordered, event, context)


def _ordered(event: dict[str, Any], context: object) -> dict[str, Any]:
    return _http.response(200, _take(event, context))


@observed("order")
def _take(event: dict[str, Any], context: object) -> dict[str, Any]:
    route, _, move = event["routeKey"].partition("/orders/")[2].partition("/")
    caller = caller_of(event["requestContext"])
    body = _http.body(event)
    about(body.get("key"))
    take, field = ROUTES[route]
    if field in body and body[field] != route:
        raise InvalidRequest(f"{field}: must be {route}, as the route says")
    return MOVES[move](route, body, caller) if move else take(body, caller)
