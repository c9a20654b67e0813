"""RecoverStalled: find what has stopped moving, each minute, and have somebody drive it on."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from handlers import _machines, _runtime
from settlement import recovery, rows
from settlement.errors import (
    InvalidRequest,
    SettlementNotFound,
    StartUnavailable,
    StepFenced,
    StoreUnavailable,
)
from settlement.recovery import Action, Takeover
from settlement.request import KEY
from settlement.rows import Row
from settlement.status import Status
from settlement.telemetry import count, gauge, logger, observed

SHARE_MAX = 100
"""How many settlements of one shard, and how many of those in LIMBO, a run looks at."""

_RESERVED_MS = 20_000
"""A run that has less time left than this begins nothing new: one settlement may take so long, where services
are slow."""

_RESERVED_FOR_FLIGHT_MS = 35_000
"""So much of a run's 50 s is not for LIMBO, which comes first and has people to wait for."""

_LISTED_MAX = 10_000
"""How many settlements in LIMBO are counted."""

_UNANSWERED_SECONDS = 60
"""How long to leave alone what could not be asked about, so that others have their turn."""

_MACHINES = {Action.SETTLE: "SETTLEMENT_MACHINE"}
_METRICS = {
    Action.SETTLE: "RecoveredBySettlement",
    Action.COMPENSATE: "RecoveredByCompensation",
    Action.PAGE: "RecoveredByPage",
}


@observed("recover")
def handler(event: Any, context: Any) -> dict[str, str | None] | None:
    """Start an execution for each settlement that is due and that nobody drives, and publish how late it is.

    One that cannot be taken on or started does not keep the others waiting; it is found again later. With the
    `key` of a settlement in the event only that one is looked at, due or not; the answer is the `action` that
    was taken ("none" where it needs none) and the name of the `execution` that was started.
    Raises InvalidRequest, SettlementNotFound, StoreUnavailable and StartUnavailable for that one only.
    """
    if isinstance(event, dict) and "key" in event:
        return _recover_now(event["key"])
    now = _runtime.now()
    oldest, recovered = 0, _page_again(now, context)
    for listed in _due(now, context):
        with _noted(rows.subject(listed)[1], listed):
            row = _runtime.store.read({"pk": listed["pk"], "sk": listed["sk"]})
            if row and recovery.is_due(row, now) and row["status"] != Status.LIMBO:
                try:
                    recovered += _recover(row) is not None
                finally:  # however that ends, but not in its way
                    oldest = max(oldest, recovery.seconds_since(recovery.in_flight_since(row), now))
    gauge("OldestInFlightSeconds", oldest)
    gauge("Recoveries", recovered)
    return None


def _recover_now(key: object) -> dict[str, str | None]:
    if not (isinstance(key, str) and KEY.fullmatch(key)):
        raise InvalidRequest(f"key: must be a string that matches ^{KEY.pattern}$")
    logger.append_keys(key=key)
    row = _runtime.store.read(rows.settlement_key(key))
    if row is None:
        raise SettlementNotFound("key: nobody has claimed it")
    takeover = _recover(row)
    return {
        "key": key,
        "action": takeover.action if takeover else "none",
        "execution": takeover.execution if takeover else None,
    }


def _recover(row: Row) -> Takeover | None:
    """Make a new execution the settlement's owner and start it; None where that is not called for."""
    now, terms = _runtime.now(), _runtime.terms
    with suppress(StepFenced):  # somebody else has moved it on
        if _is_driven(row):
            if row["status"] != Status.LIMBO:
                _runtime.store.update(recovery.postpone(row, now, terms))
            return None
        if takeover := recovery.take_over(row, now, terms):
            _runtime.store.update(takeover.write)
            machine = _machines.arn(_MACHINES.get(takeover.action, "COMPENSATION_MACHINE"))
            _machines.start(machine, takeover.execution, takeover.input)
            count(_METRICS[takeover.action])
            logger.info("recovered", settlement=rows.subject(row)[1], execution_started=takeover.execution)
            return takeover
    return None


def _is_driven(row: Row) -> bool:
    """Whether an execution is known to drive the settlement.

    Of a settlement that goes forward none is: AWS describes no Express execution, and two drive it as well as
    one. Two reversals that get stuck would page twice.
    """
    is_given_up = row["status"] == Status.PROCESSING and "given_up_at" in row
    if not is_given_up and row["status"] not in (Status.COMPENSATING, Status.LIMBO):
        return False
    machine = _machines.arn("COMPENSATION_MACHINE")
    executions = [_machines.execution_arn(machine, row["owner"])]
    waiting = row.get("waiting", {}).get("execution", "")
    if waiting.startswith(_machines.execution_arn(machine, "")):  # nobody tells of a machine that is gone
        executions.append(waiting)
    return any(_machines.is_running(execution) for execution in dict.fromkeys(executions))


def _due(now: datetime, context: Any) -> Iterator[Row]:
    """What the index lists as due, shard by shard. What a run does not get to, a later one begins with."""
    for turn in range(rows.IN_FLIGHT_SHARDS):
        shard = rows.in_flight_partition((now.minute + turn) % rows.IN_FLIGHT_SHARDS)
        if _is_out_of_time(context, _RESERVED_MS):
            return
        with _noted(shard):
            for listed in _runtime.store.listed(shard, up_to=rows.timestamp(now), limit=SHARE_MAX):
                if _is_out_of_time(context, _RESERVED_MS):
                    return
                yield listed


def _page_again(now: datetime, context: Any) -> int:
    """Start again what should page for the settlements in LIMBO and wait for a decision; return how many."""
    started = 0
    with _noted("LIMBO"):
        cases = list(_runtime.store.listed(rows.LIMBO, up_to=rows.END_OF_TIME, limit=_LISTED_MAX))
        gauge("LimboOpen", len(cases))
        # Their place in the list does not tell whether somebody waits, so each run begins anywhere.
        first = _runtime.random.randrange(max(len(cases), 1))
        for listed in [*cases[first:], *cases[:first]][:SHARE_MAX]:
            if _is_out_of_time(context, _RESERVED_FOR_FLIGHT_MS):
                break
            with _noted(rows.subject(listed)[1]):
                row = _runtime.store.read({"pk": listed["pk"], "sk": listed["sk"]})
                if row and row["status"] == Status.LIMBO and recovery.is_due(row, now):
                    started += _recover(row) is not None
        gauge("OldestLimboSeconds", recovery.seconds_since(cases[0]["gsi1sk"], now) if cases else 0)
    return started


def _is_out_of_time(context: Any, reserved_ms: int) -> bool:
    if context.get_remaining_time_in_millis() >= reserved_ms:
        return False
    count("RecoveryCutShort")
    return True


@contextmanager
def _noted(name: str, listed: Row | None = None) -> Iterator[None]:
    """Tell of whatever is wrong with one settlement or shard, and go on: it must not hold up the rest.

    What would fail again at once is put back in the queue, unless the table is what does not answer.
    """
    try:
        yield
    except Exception as error:
        logger.error("not recovered", what=name, error=type(error).__name__)
        count("NotRecovered")
        if listed and not isinstance(error, StoreUnavailable):
            unanswered = isinstance(error, StartUnavailable)
            seconds = _UNANSWERED_SECONDS if unanswered else recovery.BACKOFF_SECONDS_MAX
            with suppress(Exception):
                _runtime.store.update(recovery.set_aside(listed, _runtime.now(), seconds))
