"""Start executions that resume stalled settlements, each minute.

Each partition of the index has its own schedule, so a failure in one does not delay the others.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from handlers import _dependencies
from handlers.core import _takeover, _workers
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import (
    InvalidRequest,
    SettlementNotFound,
    StartUnavailable,
    StoreUnavailable,
)
from settlement.core.model.request import KEY
from settlement.core.model.status import Status
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import seconds_since, timestamp
from settlement.core.model.verdict import CHECK
from settlement.core.policy import recovery
from settlement.core.telemetry import count, gauge, logger, observed

PARTITIONS = (keys.LIMBO, *map(keys.in_flight_partition, range(keys.IN_FLIGHT_SHARDS)))

LISTED_MAX = 10_000
"""Maximum settlements that a run lists. A run cannot process more."""

CASES_MAX = 100
"""Maximum LIMBO cases per run. Each may take two DescribeExecution calls; an account has ten a second."""

RESERVED_MS = 20_000
"""Time kept for a slow settlement."""

REVIEW_ENDS_WITHIN = timedelta(hours=1)

_FIRSTS = 10
"""Index entries read to find the oldest, because the first may be forged, without a valid time."""

_READ_AT_ONCE = 100

_UNANSWERED_SECONDS = 60


@dataclass
class _Run:
    context: Any
    began_at: datetime = field(default_factory=lambda: _dependencies.now())  # noqa: PLW0108 (of a later test)
    pace: _workers.Pace = field(default_factory=lambda: _workers.Pace(_workers.starts_per_second()))

    @property
    def has_time(self) -> bool:
        return bool(self.context.get_remaining_time_in_millis() >= RESERVED_MS)


@dataclass
class _Look:
    age: int = 0
    is_started: bool = False


@observed("recover")
def handler(event: Any, context: Any) -> dict[str, str | None] | None:
    """Start an execution for each due settlement in `partition` that has none.

    An event with a `key` recovers only that settlement, due or not. It may name the execution that must be
    its `owner`. The answer has the `action` (or "none") and the started `execution`. Such an event raises
    InvalidRequest, SettlementNotFound, MalformedRow, StoreUnavailable and StartUnavailable. A scheduled event
    raises only InvalidRequest.
    """
    asked = event if isinstance(event, dict) else {}
    if "key" in asked:
        return _recover_now(asked["key"], asked.get("owner"))
    partition = asked.get("partition")
    if partition not in PARTITIONS:
        raise InvalidRequest(f"partition: must be one of {', '.join(PARTITIONS)}")
    if partition == keys.LIMBO:
        _watch(_Run(context))
        _alert_again(_Run(context))
        _count_reviews(_Run(context))
    else:
        _recover_due(partition, _Run(context))
    return None


def _recover_now(key: object, owner: object) -> dict[str, str | None]:
    if not (isinstance(key, str) and KEY.fullmatch(key)):
        raise InvalidRequest(f"key: must be a string that matches ^{KEY.pattern}$")
    if not isinstance(owner, str | None):
        raise InvalidRequest("owner: must be the name of an execution")
    logger.append_keys(key=key)
    state = _dependencies.store.settlement(key)
    if state is None:
        raise SettlementNotFound("key: no request has claimed it")
    try:
        taken = _takeover.recover(state) if owner in (None, state.owner) else None
    except MalformedRow:
        raise
    except ValueError as wrong:  # a malformed time
        raise MalformedRow(f"SETTLEMENT#{key}: {wrong}") from None
    return {
        "key": key,
        "action": taken.action if taken else "none",
        "execution": taken.execution if taken else None,
    }


def _recover_due(partition: str, run: _Run) -> None:
    listed, is_whole = list[Row](), False
    with _isolated(partition):
        for found in _dependencies.store.listed(partition, up_to=timestamp(run.began_at), limit=LISTED_MAX):
            listed.append(found)  # a failed page must not lose earlier ones; the longest overdue come first
        is_whole = True
    looks = _workers.each(lambda found: _look(found, run), listed)
    if is_whole:  # else the age is unknown, and a 0 would wrongly end an alarm
        gauge("OldestInFlightSeconds", max((look.age for look in looks if look), default=0))
    _publish(looks)


def _watch(run: _Run) -> None:
    """Publish how long the oldest due entry has waited. This also shows runs that never began."""
    now = timestamp(run.began_at)
    with _isolated("the watch"):
        firsts = [_dependencies.store.listed(shard, up_to=now, limit=_FIRSTS) for shard in PARTITIONS[1:]]
        gauge("RecoveryBehindSeconds", max(_oldest(first, run) for first in firsts))


def _count_reviews(run: _Run) -> None:
    with _isolated("the reviews"):
        ending = [found for shard in PARTITIONS[1:] for found in _ending(shard, run)]
        reviews = 0
        for first in range(0, len(ending), _READ_AT_ONCE):
            if run.has_time:
                reviews += sum(_workers.each(_is_review, ending[first : first + _READ_AT_ONCE]))
        gauge("ReviewsEnding", reviews)


def _ending(partition: str, run: _Run) -> list[Row]:
    """List index entries of reviews and waits for checks that end within the hour.

    Entries within recovery's longest pause are left out, because other settlements have entries there. A
    review there was already counted for 45 minutes.
    """
    pause = timedelta(seconds=max(recovery.BACKOFF_SECONDS_MAX, _dependencies.config.recover_after_seconds))
    if pause >= REVIEW_ENDS_WITHIN:
        return []
    since, up_to = (timestamp(run.began_at + ahead) for ahead in (pause, REVIEW_ENDS_WITHIN))
    return list(_dependencies.store.listed(partition, since=since, up_to=up_to, limit=LISTED_MAX))


def _is_review(found: Row) -> bool:
    """Whether an entry is a KYC review. An unreadable row counts as one."""
    try:
        state = _dependencies.store.settlement(keys.subject(found)[1])
    except MalformedRow:
        return True
    return not (state and (state.review or "").startswith(CHECK))


def _alert_again(run: _Run) -> None:
    with _isolated(keys.LIMBO):
        cases = list(_dependencies.store.listed(keys.LIMBO, up_to=keys.END_OF_TIME, limit=LISTED_MAX))
        gauge("LimboOpen", len(cases))
        # The list does not show which cases have an execution, so each run begins at a random one.
        first = _dependencies.random.randrange(max(len(cases), 1))
        chosen = [*cases[first:], *cases[:first]][:CASES_MAX]
        _publish(_workers.each(lambda found: _look_in_limbo(found, run), chosen))
        gauge("OldestLimboSeconds", _oldest(cases, run))


def _oldest(listed: Iterable[Row], run: _Run) -> int:
    for found in listed:
        with suppress(ValueError):
            return seconds_since(found["gsi1sk"], run.began_at)
    return 0


def _publish(looks: Sequence[_Look | None]) -> None:
    gauge("Recoveries", sum(look.is_started for look in looks if look))
    if None in looks:
        count("RecoveryCutShort")


def _look(listed: Row, run: _Run) -> _Look | None:
    if not run.has_time:
        return None
    run.pace.wait()
    look = _Look()
    with _isolated(keys.subject(listed)[1], listed):
        state = _dependencies.store.listed_settlement(listed)
        if state and state.status is not Status.LIMBO and recovery.is_due(state, run.began_at):
            try:
                look.is_started = _takeover.recover(state, _takeover.STARTS_MAX) is not None
            finally:  # a malformed age must not prevent the recovery
                look.age = seconds_since(recovery.in_flight_since(state), run.began_at)
    return look


def _look_in_limbo(listed: Row, run: _Run) -> _Look | None:
    if not run.has_time:
        return None
    look = _Look()
    with _isolated(keys.subject(listed)[1]):
        state = _dependencies.store.listed_settlement(listed)
        if state and state.status is Status.LIMBO and recovery.is_due(state, run.began_at):
            look.is_started = _takeover.recover(state, _takeover.STARTS_MAX) is not None
    return look


@contextmanager
def _isolated(name: str, listed: Row | None = None) -> Iterator[None]:
    """Log and count a failure of one settlement or partition, and continue.

    The settlement is deferred, because its failure would repeat at once. It is not deferred if the table
    failed or the start was throttled.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, StartUnavailable) and error.is_throttled:
            count("RecoveryThrottled")
            return
        logger.error("not recovered", what=name, error=type(error).__name__)
        count("NotRecovered")
        if listed and not isinstance(error, StoreUnavailable):
            unanswered = isinstance(error, StartUnavailable)
            seconds = _UNANSWERED_SECONDS if unanswered else recovery.BACKOFF_SECONDS_MAX
            with suppress(Exception):
                _dependencies.store.update(recovery.defer_unprocessable(listed, _dependencies.now(), seconds))
