"""Reserve a payout and start its machine, or tell a payout; behind an HTTP API."""

from collections.abc import Callable
from typing import Any

from handlers import _dependencies
from handlers.http import _http
from handlers.http._http import Response
from handlers.payouts import _payouts
from settlement.aws import step_functions
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
    """Reserve, then start the machine. The schedule of FollowPayouts makes up for a lost start."""
    payout = parse_payout(_http.body(event), _dependencies.config)
    about(payout.key)
    state, is_replay = _payouts.reservations().reserve(payout)
    count("StepReplayed" if is_replay else "PayoutReserved")
    if state.status is Status.RESERVED:
        _start(state.key)
    return _answer(state, 200 if is_replay else 202)


def _start(key: str) -> None:
    try:
        step_functions.start(step_functions.arn("PAYOUT_MACHINE"), key, {"key": key})
    except StartUnavailable as error:
        logger.warning("not started", error=type(error).__name__)


def _tell(event: dict[str, Any]) -> Response:
    key = (event.get("pathParameters") or {}).get("key")
    if not (isinstance(key, str) and KEY.fullmatch(key)):
        raise InvalidRequest(f"key: must be a string that matches ^{KEY.pattern}$")
    about(key)
    return _answer(hints.state_of(_dependencies.store, key), 200)


def _answer(state: State, status: int) -> Response:
    found = told.of_state(state, _dependencies.config)
    return _http.response(status, found, location=f"/payouts/{state.key}", etag=f'"{state.sequence}"')


ROUTES: dict[str, Callable[[dict[str, Any]], Response]] = {
    "POST /payouts": _accept,
    "GET /payouts/{key}": _tell,
}
