"""RecoverStalled: find what is held past its deadline, each minute, and have it reversed."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from handlers import _machines, _runtime
from settlement import recovery, rows
from settlement.errors import StepFenced
from settlement.request import Settlement
from settlement.rows import Row
from settlement.telemetry import count, logger, observed

_NO_TIME_LEFT = {"Error": "DeadlineExceeded", "Cause": "recover: the time to settle is over"}
_REVIEW_OVER = {"Error": "DeadlineExceeded", "Cause": "recover: the review has not ended in time"}


@observed("recover")
def handler(event: object, context: object) -> None:
    """Start the compensation of each settlement whose deadline has passed before its release.

    One that cannot be taken on or started does not keep the others waiting; it is found again next time.
    """
    now = _runtime.now()
    for turn in range(rows.IN_FLIGHT_SHARDS):
        # What a run does not get to, a later one begins with.
        shard = (now.minute + turn) % rows.IN_FLIGHT_SHARDS
        with _noted(f"shard {shard}"):
            for listed in _runtime.store.listed(rows.in_flight_partition(shard), up_to=rows.timestamp(now)):
                with _noted(rows.subject(listed)[1]), suppress(StepFenced):
                    _recover(listed)


@contextmanager
def _noted(name: str) -> Iterator[None]:
    """Tell of whatever is wrong with one settlement or shard, and go on: it must not hold up the rest."""
    try:
        yield
    except Exception as error:
        logger.error("not recovered", what=name, error=type(error).__name__)
        count("NotRecovered")


def _recover(listed: Row) -> None:
    row = _runtime.store.update(recovery.give_up(listed, _runtime.now(), _runtime.terms))
    settlement = Settlement.of_row(row)
    _machines.start(
        _machines.arn("COMPENSATION_MACHINE"),
        f"{settlement.key}-compensate-{row['recoveries']}",
        {
            "settlement": settlement.to_wire(_runtime.terms),
            "error": _REVIEW_OVER if "review" in row else _NO_TIME_LEFT,
        },
    )
    count("RecoveredByCompensation")
