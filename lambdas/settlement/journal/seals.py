"""Seals. A seal lists a period's objects, and has the previous seal's digest.

    seal 06:00 ◀── seal 07:00 ◀── seal 08:00 ◀── the head, whose digest anyone may keep
       │              │              │
    objects        objects        objects, each named by the digest of its content

Seals reveal missing, changed or added objects, missing or changed seals, and a clock that went back.
"""

import hashlib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from settlement.core.model.timestamps import timestamp

OBJECTS, SEALS = "journal/", "seals/"

AT_ONCE_MAX = 48
"""Maximum seals of a run after a pause. The next run makes the others."""

_MINUTE = "%Y-%m-%dT%H%M"


@dataclass(frozen=True, kw_only=True)
class Seal:
    """Seal of the period from `start` to `end`.

    - `objects`: names put in the period.
    - `late`: names put in the previous period that the previous seal lacks.
    - `previous`: the previous seal's digest. None: this is the first seal.
    """

    start: str
    end: str
    sealed_at: str
    previous: str | None
    objects: tuple[str, ...]
    late: tuple[str, ...]

    @property
    def name(self) -> str:
        """The seal's name. The first seal has a fixed name, so no second chain can begin."""
        return f"{SEALS}{minute(datetime.fromisoformat(self.start)) if self.previous else '0'}.json"

    @property
    def content(self) -> bytes:
        return json.dumps(vars(self), sort_keys=True, indent=1).encode() + b"\n"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def minute(moment: datetime) -> str:
    """A minute's name. Names sort by time."""
    return moment.astimezone(UTC).strftime(_MINUTE)


def object_name(content: bytes, now: datetime) -> str:
    """An object's name: the minute and the content's digest.

    Equal content in one minute has one name, so S3 refuses a second put.
    """
    return f"{OBJECTS}{minute(now)}/{digest(content)}.jsonl.gz"


def minute_of(name: str) -> str:
    return name.removeprefix(OBJECTS).partition("/")[0]


def parse(content: bytes) -> Seal:
    """Parse a seal. Raises ValueError."""
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError("is no seal")
    try:
        seal = Seal(**found | {name: tuple(map(_text, found[name])) for name in ("objects", "late")})
        times = [datetime.fromisoformat(_text(one)) for one in (seal.start, seal.end, seal.sealed_at)]
    except (KeyError, TypeError) as fault:
        raise ValueError("is no seal") from fault
    if not times[0] < times[1] or not (seal.previous is None or isinstance(seal.previous, str)):
        raise ValueError("is no seal")
    return seal


def periods(
    newest: Seal | None, first: str | None, now: datetime, *, period: timedelta, grace: timedelta
) -> Iterator[tuple[datetime, datetime]]:
    """Yield the unsealed periods that ended more than `grace` ago.

    Within the grace, calls may still put objects.

    A chain begins with the period of the `first` object, or with the latest period.
    """
    latest = _floor(now - grace, period) - period
    if newest:
        start = datetime.fromisoformat(newest.end)
    elif first:
        start = min(_floor(datetime.strptime(minute_of(first), _MINUTE).replace(tzinfo=UTC), period), latest)
    else:
        start = latest
    for _ in range(AT_ONCE_MAX):
        if start > latest:
            return
        yield start, start + period
        start += period


def seal(
    start: datetime,
    end: datetime,
    now: datetime,
    before: Seal | None,
    objects: Collection[str],
    objects_before: Collection[str],
) -> Seal:
    return Seal(
        start=timestamp(start),
        end=timestamp(end),
        # A slow run must not look like a clock that went back.
        sealed_at=max(timestamp(now), before.sealed_at) if before else timestamp(now),
        previous=digest(before.content) if before else None,
        objects=tuple(sorted(objects)),
        late=tuple(sorted(set(objects_before) - set(before.objects))) if before else (),
    )


def _floor(moment: datetime, period: timedelta) -> datetime:
    epoch = datetime(2000, 1, 1, tzinfo=UTC)
    return epoch + (moment - epoch) // period * period


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("is no text")
    return value
