"""Pay the lines of running pay runs, each minute."""

from typing import Any

from handlers import _dependencies
from handlers.core import _claim, _trace, _workers
from handlers.payouts import _payouts
from handlers.payruns import _rate
from settlement.aws import step_functions
from settlement.core.ledger import keys
from settlement.core.model import executions
from settlement.core.model.errors import DestinationRefused, PayoutRefused, StartUnavailable
from settlement.core.model.request import parse_request
from settlement.core.model.stored import MalformedRow
from settlement.core.policy import steps
from settlement.core.telemetry import count, gauge, logger, observed
from settlement.payouts.reservation import parse_payout
from settlement.payruns import bucket, writes
from settlement.payruns.file import Header, Kind, Line
from settlement.payruns.paying import Payer
from settlement.signing.stage import row_keys

LISTED_MAX = 1_000
RESERVED_MS = 15_000
"""Time kept to finish a begun batch of lines. The next call starts the lines that are left."""

SHOWN_MAX = 64
"""Maximum characters logged of a run's id, because a forged one may be long."""


@observed("payruns")
def handler(event: Any, context: Any) -> dict[str, int]:
    """Continue each running run, in turn. A failing run is tried again, and does not delay the others."""
    listed = _dependencies.store.listed(keys.PAYRUNS_RUNNING, up_to=keys.END_OF_TIME, limit=LISTED_MAX)
    runs = [keys.subject(one)[1] for one in listed]
    first = _dependencies.now().minute % max(len(runs), 1)  # each run is the first in its turn
    runs = runs[first:] + runs[:first]
    pace = _workers.Pace(_rate.lines_per_second())
    left_ms = context.get_remaining_time_in_millis() - RESERVED_MS
    waiting = 0
    for number, run in enumerate(runs):
        until_ms = RESERVED_MS + left_ms * (len(runs) - number - 1) // len(runs)
        waiting += not _worked(run, pace, context, until_ms)
    gauge("PayRunsWaiting", waiting)
    return {"running": len(runs), "waiting": waiting}


def _worked(run: str, pace: _workers.Pace, context: Any, until_ms: int) -> bool:
    def start(request: dict[str, Any], header: Header, line: Line, run: str) -> None:
        pace.wait()
        if header.kind is Kind.PAYOUTS:
            _reserve(request, line, run)
        else:
            _start(request, run)

    payer = Payer(
        _dependencies.store,
        _dependencies.config,
        _dependencies.now,
        read_file=bucket.read,
        start=start,
        each=_workers.each,
        is_proven=row_keys.is_proven,
        in_time=lambda: bool(context.get_remaining_time_in_millis() > until_ms),
    )
    try:
        payer.work(run)
    except Exception as error:
        logger.error("run waits", what=run[:SHOWN_MAX], error=type(error).__name__, why=str(error)[:500])
        count("PayRunFailed")
        return False
    return True


def _start(request: dict[str, Any], run: str) -> None:
    """Claim, then start. Recovery makes up for a lost start."""
    one = parse_request(request, _dependencies.config)
    execution = executions.queued(one.key, run)
    settlement, claimed = _claim.claim(one, execution)
    if steps.is_replay(claimed, execution) or claimed.steps:
        return
    machine = step_functions.arn("EXPRESS_MACHINE")
    wire = settlement.to_wire(_dependencies.config)
    step_functions.start(machine, execution, wire, _trace.header(settlement.key))


def _reserve(request: dict[str, Any], line: Line, run: str) -> None:
    payout = parse_payout(request, _dependencies.config)
    beside = writes.taken(run, line.number, _dependencies.now())
    try:
        reservations = _payouts.reservations()
    except PayoutRefused as off:
        raise StartUnavailable(str(off)) from None  # a later deployment may pay out again
    try:
        reservations.reserve(payout, (beside,))
    except MalformedRow as malformed:
        if str(malformed).startswith(keys.destination("")["pk"]):
            raise DestinationRefused(str(malformed)) from None
        raise
