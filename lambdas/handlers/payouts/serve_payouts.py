"""The HTTP API of payouts: reserve a payout and have it sent, or return its state."""

from collections.abc import Callable
from typing import Any

from handlers import _dependencies
from handlers.http import _http
from handlers.http._http import Response
from handlers.payouts import _payouts
from settlement.aws import functions
from settlement.core.model.errors import InvalidRequest, StartUnavailable
from settlement.core.model.request import KEY
from settlement.core.telemetry import about, count, logger, observed
from settlement.payouts import hints, told
from settlement.payouts.payout import State, Status
from settlement.payouts.reservation import parse_payout


def handler(event: dict[str, Any], context: object) -> Response:
    return _http.answered(_served, event, context)


@observed("payout")
def _served(event: dict[str, Any], context: object) -> Response:
    return ROUTES[event["routeKey"]](event)


def _accept(event: dict[str, Any]) -> Response:
    """Reserve, then ask FollowPayouts to send, without waiting. Its schedule makes up for a lost call.

    A state machine would cost six times as much as all else: docs/decisions/2026-11-29-payouts.md.
    """
    payout = parse_payout(_http.body(event), _dependencies.config)
    about(payout.key)
    state, is_replay = _payouts.reservations().reserve(payout)
    count("StepReplayed" if is_replay else "PayoutReserved")
    if state.status is Status.RESERVED:
        _ask(state.key)
    return _answer(state, 200 if is_replay else 202)


def _ask(key: str) -> None:
    try:
        functions.send("FOLLOW_PAYOUTS", {"key": key})
    except StartUnavailable as error:
        logger.warning("not asked", error=str(error))


def _tell(event: dict[str, Any]) -> Response:
    key = (event.get("pathParameters") or {}).get("key")
    if not (isinstance(key, str) and KEY.fullmatch(key)):
        raise InvalidRequest(f"key: must be a string that matches ^{KEY.pattern}$")
    about(key)
    return _answer(hints.state_of(_dependencies.store, key), 200)


def _answer(state: State, status: int) -> Response:
    found = told.of_state(state, _dependencies.config)
    return _http.response(status, found, location=f"/payouts/{state.key}", etag=f'W/"{state.sequence}"')


ROUTES: dict[str, Callable[[dict[str, Any]], Response]] = {
    "POST /payouts": _accept,
    "GET /payouts/{key}": _tell,
}
