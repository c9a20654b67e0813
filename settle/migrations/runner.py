from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from settle.migrations.rows import Direction, Migration, Phase, Progress, save
from settlement.core.ledger import keys
from settlement.core.model.errors import StoreUnavailable
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire, to_wire

LEASE = timedelta(seconds=30)
"""A runner writes after each page. After this time without a write, another runner may continue."""

PAGE_SECONDS, PAGE_ROWS_MAX = 10, 500
"""Maximum seconds and rows of a page, well within the lease."""


class NotAlone(Exception):
    """Another runner is at work or has taken over. The row `found` shows it."""

    def __init__(self, found: Progress) -> None:
        super().__init__(f"runner {found.runner} is at work until {found.leased_until}")
        self.found = found


@dataclass(frozen=True)
class Means:
    """A runner's tools. `units_per_second` are write units.

    - `deployment`: returns the time of the stage's newest deployment.
    - `alarm`: returns the name of an active alarm.
    """

    store: Store
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    deployment: Callable[[], str]
    alarm: Callable[[], str | None]
    units_per_second: float
    told: Callable[[Progress], None] = lambda progress: None


def read_by(migration: Migration) -> tuple[str, ...]:
    return ("pk", "sk", "status", *migration.attributes)


def look(store: Store, migration: Migration) -> Progress | None:
    row = store.read(keys.migration(migration.name))
    return None if row is None else Progress.from_row(row)


def pause(means: Means, migration: Migration, reason: str) -> Progress | None:
    """Pause a migration after the current page. Return the progress, if any."""
    while (found := look(means.store, migration)) and found.phase is Phase.RUNNING:
        paused = _saved(means.store, replace(found, phase=Phase.PAUSED, reason=reason))
        if paused is not None:
            return paused
    return found


def run(means: Means, migration: Migration, direction: Direction, runner: str) -> Progress:
    """Migrate the remaining rows, as the only runner, until done or paused. Raises NotAlone.

    An unfinished migration resumes. A run starts anew in another direction, or after a finished migration.
    After a deployment, it starts anew, too: the deployed functions may have written the old layout to rows
    already read.

    DynamoDB's throttling, an active alarm or a deployment during the run pauses the run.
    """
    progress = _taken(means, migration, direction, runner)
    bucket = Bucket(means)
    while True:
        means.told(progress)
        try:
            following = _page(means, migration, progress, bucket)
        except StoreUnavailable as unavailable:
            following = replace(progress, phase=Phase.PAUSED, reason=str(unavailable))
        progress = _put(means, following)
        if progress.phase is not Phase.RUNNING:
            return progress


class Bucket:
    """A token bucket of write units. It holds at most the units of one second."""

    def __init__(self, means: Means) -> None:
        self._means, self._units, self._at = means, means.units_per_second, means.now()

    def take(self, units: float) -> None:
        """Take units. Then wait until the bucket is out of debt."""
        rate, now = self._means.units_per_second, self._means.now()
        gained = max(0.0, (now - self._at).total_seconds()) * rate
        self._units, self._at = min(rate, self._units + gained) - units, now
        if self._units < 0:
            self._means.sleep(-self._units / rate)


def _taken(means: Means, migration: Migration, direction: Direction, runner: str) -> Progress:
    """Become the only runner. Raises NotAlone."""
    now, deployment = means.now(), means.deployment()
    found = look(means.store, migration)
    if found and found.is_leased(runner, now):
        raise NotAlone(found)
    begun = (found.direction, found.deployment) if found and found.phase is not Phase.DONE else None
    if found and begun == (direction, deployment):
        mine = replace(found, phase=Phase.RUNNING, runner=runner, reason=None)
    else:
        mine = Progress(
            name=migration.name,
            direction=direction,
            phase=Phase.RUNNING,
            version=found.version if found else 0,
            runner=runner,
            leased_until="",
            began_at=timestamp(now),
            deployment=deployment,
        )
    return _put(means, mine)


def _put(means: Means, progress: Progress) -> Progress:
    """Save the progress, with a new lease. Raises NotAlone after a takeover.

    If a person paused the migration meanwhile, the pause stays, and the next run reads the page again. A save
    counts even if its answer was lost.
    """
    leased = replace(progress, leased_until=timestamp(means.now() + LEASE))
    saved = _saved(means.store, leased)
    if saved is not None:
        return saved
    found = Progress.from_row(means.store.read(keys.migration(progress.name)) or {})
    if found.runner != progress.runner:
        raise NotAlone(found)
    return found


def _saved(store: Store, progress: Progress) -> Progress | None:
    """Save the progress. None: the row has changed since it was read."""
    write = save(progress)
    row = store.put(write)
    return Progress.from_row(row) if row == write.parameters["Item"] else None


def _page(means: Means, migration: Migration, progress: Progress, bucket: Bucket) -> Progress:
    if alarm := means.alarm():
        return replace(progress, phase=Phase.PAUSED, reason=f"the alarm {alarm} is on")
    start = {"ExclusiveStartKey": to_wire(progress.after)} if progress.after else {}
    page = means.store.page(
        "scan",
        Limit=max(1, min(PAGE_ROWS_MAX, int(means.units_per_second * PAGE_SECONDS))),
        ProjectionExpression=", ".join(f"#{name}" for name in read_by(migration)),
        ExpressionAttributeNames={f"#{name}": name for name in read_by(migration)},
        **start,
    )
    read = changed = left = 0
    for row in filter(keys.is_settlement, map(from_wire, page["Items"])):
        read += 1
        write = migration.write(row, progress.direction)
        if write is None:
            continue
        units = means.store.apply(write)
        bucket.take(units or 1)
        changed, left = changed + (units is not None), left + (units is None)
    last: dict[str, Any] | None = page.get("LastEvaluatedKey")
    following = replace(
        progress,
        phase=Phase.RUNNING if last else Phase.DONE,
        after=from_wire(last) if last else None,
        read=progress.read + read,
        changed=progress.changed + changed,
        left=progress.left + left,
    )
    if following.phase is Phase.DONE and means.deployment() != progress.deployment:
        return replace(following, phase=Phase.PAUSED, reason="the stage was deployed meanwhile: run it again")
    return following
