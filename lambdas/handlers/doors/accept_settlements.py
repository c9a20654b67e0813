"""Claim and start a settlement. An HTTP API calls this function."""

from contextlib import suppress
from typing import Any

from handlers import _dependencies
from handlers.core import _claim, _trace
from handlers.http import _http
from handlers.http._http import Response
from handlers.reading import _long_poll
from settlement.aws import step_functions
from settlement.core.model.errors import StartUnavailable, StoreUnavailable
from settlement.core.model.settlement import Settlement
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED
from settlement.core.policy import outcome, steps
from settlement.core.telemetry import about, count, logger, observed
from settlement.doors.starting import parse_start


def handler(event: dict[str, Any], context: Any) -> Response:
    return _http.answered(_accept, event, context)


@observed("accept")
def _accept(event: dict[str, Any], context: Any) -> Response:
    """Claim, then start on Express. Recovery makes up for a lost start.

    A repeat with equal content has the same owner, and starts a PROCESSING settlement that has no step yet.
    Any other call gets the current outcome.
    """
    headers = event.get("headers") or {}
    asked = parse_start(headers, _http.body(event), _dependencies.config)
    key = asked.request.key
    about(key)
    settlement, state = _claim.claim(asked.request, asked.execution)
    is_replay = steps.is_replay(state, asked.execution)
    if not (is_replay or state.steps):
        _start(settlement, asked.execution)
    if asked.wait and state.status not in FINISHED:
        with suppress(StoreUnavailable):  # the claim is enough for an answer
            state = _long_poll.finished(key, asked.wait, context.get_remaining_time_in_millis())
    return _answer(state, is_replay=is_replay)


def _start(settlement: Settlement, execution: str) -> None:
    machine = step_functions.arn("EXPRESS_MACHINE")
    try:
        step_functions.start(
            machine, execution, settlement.to_wire(_dependencies.config), _trace.header(settlement.key)
        )
    except StartUnavailable as error:
        count(type(error).__name__)
        logger.warning("not started", error=type(error).__name__)


def _answer(state: SettlementState, *, is_replay: bool) -> Response:
    location = f"/settlements/{state.settlement.key}"
    found = outcome.of_state(state, _dependencies.config, replayed=is_replay)
    etag = f'"{state.sequence}"'
    if state.status in FINISHED:
        return _http.response(200, found, location=location, etag=etag)
    if is_replay:
        return _http.response(202, found, location=location, etag=etag)
    return _http.response(202, {"key": state.settlement.key, "status_url": location}, location=location)
