"""TakeOrder: carry out a person's order; behind an HTTP API that proves who gives it."""

from collections.abc import Callable
from typing import Any

from handlers import _account_orders, _approvals, _http, _kyc_probe, _orders, _replay, _sweeps
from settlement.adapters.telemetry import about, observed
from settlement.model.account_order import OrderKind
from settlement.model.caller import Caller, caller_of
from settlement.model.circuit import PROBE
from settlement.model.errors import InvalidRequest
from settlement.model.order_requests import RECOVER, REVERSE_PART
from settlement.model.orders import REVERSE, Decision
from settlement.model.proposal import Move
from settlement.model.replay_order import REPLAY
from settlement.model.sweep_order import SWEEP

Take = Callable[[object, Caller], dict[str, Any]]

ROUTES: dict[str, Take] = {
    **dict.fromkeys(map(str, Decision), _orders.resolve),
    REVERSE: _orders.reverse,
    REVERSE_PART: _orders.reverse_part,
    RECOVER: _orders.recover,
    SWEEP: _sweeps.sweep,
    PROBE: _kyc_probe.probe,
    REPLAY: _replay.replay,
    **dict.fromkeys(map(str, OrderKind), _account_orders.carry_out),
}
"""The orders, by the last part of their route: `POST /orders/write-off`."""

MOVES: dict[str, Callable[[str, object, Caller], dict[str, Any]]] = {
    Move.PROPOSE: _approvals.propose,
    Move.APPROVE: _approvals.approve,
    Move.WITHDRAW: _approvals.withdraw,
    Move.BREAK_GLASS: _approvals.break_glass,
}
"""What a person does about a decision that needs more than one: `POST /orders/write-off/propose`."""

_NAMED = {**dict.fromkeys(map(str, Decision), "decision"), **dict.fromkeys(map(str, OrderKind), "order")}
"""The field of the body that repeats the route, which IAM has allowed: the order is signed as a whole."""


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer a request of an HTTP API (payload format 2.0)."""
    return _http.answered(_ordered, event, context)


def _ordered(event: dict[str, Any], context: object) -> dict[str, Any]:
    return _http.response(200, _take(event, context))


@observed("order")
def _take(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Carry out the order of the route, once, and return it as it is on record."""
    route, _, move = event["routeKey"].partition("/orders/")[2].partition("/")
    caller = caller_of(event["requestContext"])
    body = _http.body(event)
    about(body.get("key"))
    field = _NAMED.get(route)
    if field in body and body[field] != route:
        raise InvalidRequest(f"{field}: must be {route}, as the route says")
    return MOVES[move](route, body, caller) if move else ROUTES[route](body, caller)
