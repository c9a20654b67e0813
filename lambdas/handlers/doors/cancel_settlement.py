"""Cancel a payment before its hold or in review, for its starter. An HTTP API calls this function."""

from typing import Any

from handlers import _dependencies
from handlers.http import _http
from handlers.http._http import Response
from settlement.aws import resumption
from settlement.core.model.errors import SettlementNotFound, StartUnavailable
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED, Status
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import outcome, recovery
from settlement.core.telemetry import about, count, logger, observed
from settlement.doors import cancellation
from settlement.doors.cancelling import parse_cancel


def handler(event: dict[str, Any], context: object) -> Response:
    return _http.answered(_cancel, event, context)


@observed("cancel")
def _cancel(event: dict[str, Any], _: object) -> Response:
    """Cancel in one conditional write. Then ask recovery to give a held amount back.

    Recovery's schedule or a repeated call makes up for a lost request.
    """
    key = (event.get("pathParameters") or {}).get("key")
    asked = parse_cancel(key, event.get("headers") or {}, _http.body(event), _dependencies.config)
    about(asked.request.key)
    found, now = _dependencies.store.settlement(asked.request.key), _dependencies.now()
    if found is None:
        raise SettlementNotFound("key: no request has claimed it: a start that is on its way may still do so")
    settlement = asked.request.settlement(found.settlement.fee)
    write = cancellation.in_review if found.is_in_review else cancellation.before_hold
    state = _dependencies.store.update(write(settlement, now, asked.seen))
    request_id = (event.get("requestContext") or {}).get("requestId")  # the access log has its caller
    logger.info("cancelled", request_id=request_id, replayed=found.is_cancelled)
    if state.finished_at == timestamp(now):  # and not by an earlier call
        count("Rejected")
    if state.status is Status.COMPENSATING and recovery.is_due(state, now):
        _resume(state)
    return _answer(state, is_replay=found.is_cancelled)


def _resume(state: SettlementState) -> None:
    try:
        resumption.ask(state.key, state.owner)
    except StartUnavailable as error:
        count(type(error).__name__)
        logger.warning("not resumed", error=type(error).__name__)


def _answer(state: SettlementState, *, is_replay: bool) -> Response:
    found = outcome.of_state(state, _dependencies.config, replayed=is_replay)
    status = 200 if state.status in FINISHED else 202
    return _http.response(status, found, location=f"/settlements/{state.key}", etag=f'"{state.sequence}"')
