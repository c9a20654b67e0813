"""RecoverStalled: each minute, find stalled settlements and start an execution that resumes each."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from handlers import _dependencies, _step_functions
from settlement.adapters.telemetry import count, gauge, logger, observed
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model.errors import (
    InvalidRequest,
    SettlementNotFound,
    StartUnavailable,
    StepFenced,
    StoreUnavailable,
)
from settlement.model.request import KEY
from settlement.model.state import SettlementState
from settlement.model.status import Status
from settlement.model.timestamps import seconds_since, timestamp
from settlement.policy import recovery
from settlement.policy.recovery import Action, Takeover

SHARE_MAX = 100
"""Most settlements of one shard, and most of those in LIMBO, in one run."""

_RESERVED_MS = 20_000
"""The least time left to begin another settlement: a slow one may take so long."""

_RESERVED_FOR_IN_FLIGHT_MS = 35_000
"""The part of a run's 50 s that LIMBO, which comes first, must leave to the settlements in flight."""

_COUNTED_MAX = 10_000
"""Most settlements in LIMBO that are counted."""

_UNANSWERED_SECONDS = 60
"""How long a settlement is deferred whose execution could not be described or started."""

_MACHINES = {Action.SETTLE: "SETTLEMENT_MACHINE"}
_METRICS = {
    Action.SETTLE: "RecoveredBySettlement",
    Action.COMPENSATE: "RecoveredByCompensation",
    Action.ALERT: "RecoveredByAlert",
}


@observed("recover")
def handler(event: Any, context: Any) -> dict[str, str | None] | None:
    """Start an execution for each settlement that is due and has none, and publish how late it is.

    A settlement that cannot be taken over or started does not delay the others; a later run finds it again.
    With the `key` of a settlement in the event, only that one is recovered, due or not. The answer has the
    `action` ("none" if it needs none) and the name of the started `execution`. Such a call raises
    InvalidRequest, SettlementNotFound, StoreUnavailable and StartUnavailable; the scheduled one raises none.
    """
    if isinstance(event, dict) and "key" in event:
        return _recover_now(event["key"])
    now = _dependencies.now()
    oldest, recovered = 0, _alert_again(now, context)
    for listed in _due(now, context):
        age, is_started = _recover_listed(listed, now)
        oldest, recovered = max(oldest, age), recovered + is_started
    gauge("OldestInFlightSeconds", oldest)
    gauge("Recoveries", recovered)
    return None


def _recover_now(key: object) -> dict[str, str | None]:
    if not (isinstance(key, str) and KEY.fullmatch(key)):
        raise InvalidRequest(f"key: must be a string that matches ^{KEY.pattern}$")
    logger.append_keys(key=key)
    state = _dependencies.store.settlement(key)
    if state is None:
        raise SettlementNotFound("key: no request has claimed it")
    takeover = _recover(state)
    return {
        "key": key,
        "action": takeover.action if takeover else "none",
        "execution": takeover.execution if takeover else None,
    }


def _recover_listed(listed: Row, now: datetime) -> tuple[int, bool]:
    """Recover a settlement in flight if it is due; return its age in seconds, and whether it was started."""
    age, is_started = 0, False
    with _isolated(keys.subject(listed)[1], listed):
        state = _dependencies.store.listed_settlement(listed)
        if state and state.status is not Status.LIMBO and recovery.is_due(state, now):
            try:
                is_started = _recover(state) is not None
            finally:  # a malformed age must not prevent the recovery
                age = seconds_since(recovery.in_flight_since(state), now)
    return age, is_started


def _recover(state: SettlementState) -> Takeover | None:
    """Make a new execution the settlement's owner and start it; None if the settlement needs none."""
    now, config = _dependencies.now(), _dependencies.config
    with suppress(StepFenced):  # another execution has moved it on
        if _is_running(state):
            if state.status is not Status.LIMBO:
                _dependencies.store.update(recovery.postpone(state, now, config))
            return None
        if takeover := recovery.take_over(state, now, config):
            _dependencies.store.update(takeover.write)
            machine = _step_functions.arn(_MACHINES.get(takeover.action, "COMPENSATION_MACHINE"))
            _step_functions.start(machine, takeover.execution, takeover.input)
            count(_METRICS[takeover.action])
            logger.info("recovered", settlement=state.key, execution_started=takeover.execution)
            return takeover
    return None


def _is_running(state: SettlementState) -> bool:
    """Return whether an execution is known to run the settlement.

    Executions of the forward path are not looked up: AWS describes no Express execution, and duplicates do no
    harm. Those of a compensation are, because two of them in LIMBO would alert twice.
    """
    is_expired = state.status is Status.PROCESSING and state.is_expired
    if not is_expired and state.status not in (Status.COMPENSATING, Status.LIMBO):
        return False
    machine = _step_functions.arn("COMPENSATION_MACHINE")
    executions = [_step_functions.execution_arn(machine, state.owner)]
    waiting = (state.waiting or {}).get("execution", "")
    if waiting.startswith(_step_functions.execution_arn(machine, "")):  # a machine may have been deleted
        executions.append(waiting)
    return any(_step_functions.is_running(execution) for execution in dict.fromkeys(executions))


def _due(now: datetime, context: Any) -> Iterator[Row]:
    """Return the settlements that the index lists as due, shard by shard.

    Each minute another shard comes first, so that a shard that one run misses is first in a later one.
    """
    for turn in range(keys.IN_FLIGHT_SHARDS):
        shard = keys.in_flight_partition((now.minute + turn) % keys.IN_FLIGHT_SHARDS)
        if _is_out_of_time(context, _RESERVED_MS):
            return
        with _isolated(shard):
            for listed in _dependencies.store.listed(shard, up_to=timestamp(now), limit=SHARE_MAX):
                if _is_out_of_time(context, _RESERVED_MS):
                    return
                yield listed


def _alert_again(now: datetime, context: Any) -> int:
    """Start the executions that should alert and wait for a decision in LIMBO; return their number."""
    started = 0
    with _isolated("LIMBO"):
        cases = list(_dependencies.store.listed(keys.LIMBO, up_to=keys.END_OF_TIME, limit=_COUNTED_MAX))
        gauge("LimboOpen", len(cases))
        # The list does not tell which of them have an execution, so each run begins at a random place.
        first = _dependencies.random.randrange(max(len(cases), 1))
        for listed in [*cases[first:], *cases[:first]][:SHARE_MAX]:
            if _is_out_of_time(context, _RESERVED_FOR_IN_FLIGHT_MS):
                break
            started += _recover_in_limbo(listed, now)
        gauge("OldestLimboSeconds", seconds_since(cases[0]["gsi1sk"], now) if cases else 0)
    return started


def _recover_in_limbo(listed: Row, now: datetime) -> bool:
    with _isolated(keys.subject(listed)[1]):
        state = _dependencies.store.listed_settlement(listed)
        if state and state.status is Status.LIMBO and recovery.is_due(state, now):
            return _recover(state) is not None
    return False


def _is_out_of_time(context: Any, reserved_ms: int) -> bool:
    if context.get_remaining_time_in_millis() >= reserved_ms:
        return False
    count("RecoveryCutShort")
    return True


@contextmanager
def _isolated(name: str, listed: Row | None = None) -> Iterator[None]:
    """Log and count a failure of one settlement or shard, and continue.

    A listed settlement that would fail again at once is deferred, unless it is the table that fails.
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
                _dependencies.store.update(recovery.defer_unprocessable(listed, _dependencies.now(), seconds))
