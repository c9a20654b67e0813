"""RecoverStalled: each minute, find stalled settlements and start an execution that resumes each.

A run works on one partition of the index. Each partition has a schedule of its own, so that they are
recovered side by side, and that a failure in one does not delay the others.
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
from settlement.core.policy import recovery
from settlement.core.telemetry import count, gauge, logger, observed

PARTITIONS = (keys.LIMBO, *map(keys.in_flight_partition, range(keys.IN_FLIGHT_SHARDS)))
"""The partitions of the index. Each minute a run is scheduled for each of them."""

LISTED_MAX = 10_000
"""Most settlements of a partition that a run lists: more than it has time for, at the highest pace."""

CASES_MAX = 100
"""Most cases of LIMBO that a run looks at. Each may take two calls of DescribeExecution, of which Step
Functions grants an account ten a second.
"""

RESERVED_MS = 20_000
"""The least time left to begin another settlement: a slow one may take so long."""

REVIEW_ENDS_WITHIN = timedelta(hours=1)
"""How long before its end a review is counted, for the alarm."""

_FIRSTS = 10
"""How many places are read for the oldest: a forged one in front of it must not hide it."""

_UNANSWERED_SECONDS = 60
"""How long a settlement is deferred whose execution could not be described or started."""


@dataclass
class _Run:
    """A run on one partition: its context, when it began, and the pace of its looks."""

    context: Any
    began_at: datetime = field(default_factory=lambda: _dependencies.now())  # noqa: PLW0108 (of a later test)
    pace: _workers.Pace = field(default_factory=lambda: _workers.Pace(_workers.starts_per_second()))

    @property
    def has_time(self) -> bool:
        """Whether the run may begin another settlement."""
        return bool(self.context.get_remaining_time_in_millis() >= RESERVED_MS)


@dataclass
class _Look:
    """A look at one settlement: its age in seconds, and whether it started an execution."""

    age: int = 0
    is_started: bool = False


@observed("recover")
def handler(event: Any, context: Any) -> dict[str, str | None] | None:
    """Start an execution for each due settlement of a `partition` of the index that has none.

    A settlement that cannot be taken over or started does not delay the others; a later run finds it again.
    With the `key` of a settlement in the event, only that one is recovered, due or not; with an `owner` too,
    only while that is its owner. The answer has the `action` ("none" if it needs none) and the name of the
    started `execution`. Such a call raises InvalidRequest, SettlementNotFound, MalformedRow, StoreUnavailable
    and StartUnavailable; a scheduled one only InvalidRequest.
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
    except ValueError as wrong:  # a time that is none
        raise MalformedRow(f"SETTLEMENT#{key}: {wrong}") from None
    return {
        "key": key,
        "action": taken.action if taken else "none",
        "execution": taken.execution if taken else None,
    }


def _recover_due(partition: str, run: _Run) -> None:
    """Recover the due settlements of a partition, those first that are due for longest."""
    listed, is_whole = list[Row](), False
    with _isolated(partition):
        for found in _dependencies.store.listed(partition, up_to=timestamp(run.began_at), limit=LISTED_MAX):
            listed.append(found)  # a page that fails must not lose those before it
        is_whole = True
    looks = _workers.each(lambda found: _look(found, run), listed)
    if is_whole:  # else the age is unknown, and a 0 would wrongly end an alarm
        gauge("OldestInFlightSeconds", max((look.age for look in looks if look), default=0))
    _publish(looks)


def _watch(run: _Run) -> None:
    """Publish how late recovery is, as a run that never begins cannot tell, and the reviews about to end."""
    now = timestamp(run.began_at)
    with _isolated("the watch"):
        firsts = [_dependencies.store.listed(shard, up_to=now, limit=_FIRSTS) for shard in PARTITIONS[1:]]
        gauge("RecoveryBehindSeconds", max(_oldest(first, run) for first in firsts))
        gauge("ReviewsEnding", sum(_reviews_ending(shard, run) for shard in PARTITIONS[1:]))


def _reviews_ending(partition: str, run: _Run) -> int:
    """Return how many reviews of a partition end within the hour, and not before the longest pause is over.

    Of all that is listed, reviews alone lie further ahead than that pause: any other settlement is listed for
    its next look. A review that ends sooner has been counted for three quarters of an hour.
    """
    pause = timedelta(seconds=max(recovery.BACKOFF_SECONDS_MAX, _dependencies.config.recover_after_seconds))
    if pause >= REVIEW_ENDS_WITHIN:
        return 0
    since, up_to = (timestamp(run.began_at + ahead) for ahead in (pause, REVIEW_ENDS_WITHIN))
    return sum(1 for _ in _dependencies.store.listed(partition, since=since, up_to=up_to, limit=LISTED_MAX))


def _alert_again(run: _Run) -> None:
    """Start the executions that should alert and wait for a decision in LIMBO."""
    with _isolated(keys.LIMBO):
        cases = list(_dependencies.store.listed(keys.LIMBO, up_to=keys.END_OF_TIME, limit=LISTED_MAX))
        gauge("LimboOpen", len(cases))
        # The list does not tell which of them have an execution, so each run begins at a random place.
        first = _dependencies.random.randrange(max(len(cases), 1))
        chosen = [*cases[first:], *cases[:first]][:CASES_MAX]
        _publish(_workers.each(lambda found: _look_in_limbo(found, run), chosen))
        gauge("OldestLimboSeconds", _oldest(cases, run))


def _oldest(listed: Iterable[Row], run: _Run) -> int:
    """Return the age of the first place in the index that is an instant: a foreign hand may put any text."""
    for found in listed:
        with suppress(ValueError):
            return seconds_since(found["gsi1sk"], run.began_at)
    return 0


def _publish(looks: Sequence[_Look | None]) -> None:
    """Publish the number of started executions, and whether the run has left settlements to the next one."""
    gauge("Recoveries", sum(look.is_started for look in looks if look))
    if None in looks:
        count("RecoveryCutShort")


def _look(listed: Row, run: _Run) -> _Look | None:
    """Recover a settlement in flight if it is due; None if the run has no time left for it."""
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
    """Alert again about a case of LIMBO that has no execution; None if the run has no time left for it."""
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

    A listed settlement that would fail again at once is deferred, unless it is the table that fails. One that
    Step Functions has throttled stays due: it has lost nothing but time.
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
