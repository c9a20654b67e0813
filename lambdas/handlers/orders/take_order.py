"""Carry out a person's order. An HTTP API calls this function, and proves the person."""

from collections.abc import Callable
from typing import Any

from handlers import _dependencies, rooms
from handlers.http import _http
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.orders import REVERSE, Decision
from settlement.core.telemetry import about, observed
from settlement.http.caller import Caller, caller_of
from settlement.orders.four_eyes import FourEyes
from settlement.orders.orders import Orders
from settlement.orders.proposal import Move
from settlement.orders.requests import RECOVER, REVERSE_PART


def _orders() -> Orders:
    return Orders(
        store=_dependencies.store,
        config=_dependencies.config,
        now=_dependencies.now,
        nonce=_dependencies.nonce,
        before_refund=rooms.before_refund,
    )


def _by(order: Callable[[Orders, object, Caller], dict[str, Any]]) -> rooms.Take:
    return lambda body, caller: order(_orders(), body, caller)


ROUTES: dict[str, tuple[rooms.Take, str | None]] = {
    **dict.fromkeys(map(str, Decision), (_by(Orders.resolve), "decision")),
    REVERSE: (_by(Orders.reverse), None),
    REVERSE_PART: (_by(Orders.reverse_part), None),
    RECOVER: (_by(Orders.recover), None),
    **rooms.orders(),
}
"""Orders by the last part of their route (`POST /orders/write-off`), with the body's field that repeats it.

IAM permits by route, and the signature covers the body, so the two must agree.
"""

MOVES: dict[str, Callable[[FourEyes, str, object, Caller], dict[str, Any]]] = {
    Move.PROPOSE: FourEyes.propose,
    Move.APPROVE: FourEyes.approve,
    Move.WITHDRAW: FourEyes.withdraw,
    Move.BREAK_GLASS: FourEyes.break_glass,
}
"""Moves on a decision of several persons: `POST /orders/write-off/propose`."""


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
    if not move:
        return take(body, caller)
    return MOVES[move](FourEyes(orders=_orders(), pager=_dependencies.pager), route, body, caller)
