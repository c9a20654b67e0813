"""The sealed journal in S3. No object is written twice."""

import gzip
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settlement.core.model.errors import JournalUnavailable
from settlement.journal import lines, seals
from settlement.journal.seals import Seal

_THERE = "PreconditionFailed"
"""S3's answer for a taken name."""


class SealedJournal:
    def __init__(self, client: Any, bucket: str) -> None:
        self._client, self._bucket = client, bucket

    def add(self, told: Sequence[Mapping[str, Any]], now: datetime) -> str:
        """Put lines as one object. Return its name.

        Safe to repeat: a taken name has the same digest. Raises JournalUnavailable.
        """
        content = lines.content(told)
        name = seals.object_name(content, now)
        self._put(name, gzip.compress(content, mtime=0))
        return name

    def seal(self, now: datetime, *, period: timedelta, grace: timedelta) -> Seal | None:
        """Seal ended periods. Return the newest seal, if any. Raises JournalUnavailable."""
        newest = self._newest_seal(now)
        first = None if newest else next(self._names(seals.OBJECTS), None)
        for start, end in seals.periods(newest, first, now, period=period, grace=grace):
            before = self._objects(newest.start, newest.end) if newest else []
            objects = self._objects(start.isoformat(), end.isoformat())
            made = seals.seal(start, end, now, newest, objects, before)
            if not self._put(made.name, made.content):
                return self._read(made.name)  # another run was quicker, and continues
            newest = made
        return newest

    def _newest_seal(self, now: datetime) -> Seal | None:
        """Search for the newest seal. The last month comes first, because its list is short."""
        month_ago = f"{seals.SEALS}{seals.minute(now - timedelta(days=30))}"
        for after in (month_ago, ""):
            *_, newest = (None, *self._names(seals.SEALS, after))
            if newest:
                return self._read(newest)
        return None

    def _objects(self, start: str, end: str) -> list[str]:
        first, last = (f"{seals.OBJECTS}{seals.minute(datetime.fromisoformat(one))}" for one in (start, end))
        found = []
        for name in self._names(seals.OBJECTS, first):
            if name >= last:
                break
            found.append(name)
        return found

    def _names(self, folder: str, after: str = "") -> Iterator[str]:
        more: dict[str, Any] = {"StartAfter": after} if after else {}
        while True:
            page = self._call("list_objects_v2", Prefix=folder, **more)
            yield from (one["Key"] for one in page.get("Contents", ()))
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def _read(self, name: str) -> Seal:
        content = self._call("get_object", Key=name)["Body"].read()
        try:
            return seals.parse(content)
        except ValueError as fault:
            raise JournalUnavailable(f"{name}: {fault}") from None

    def _put(self, name: str, content: bytes) -> bool:
        """Put an object with a checksum: S3 demands one under an object lock."""
        put = {"Key": name, "Body": content, "IfNoneMatch": "*", "ChecksumAlgorithm": "CRC32"}
        return self._call("put_object", **put) is not None

    def _call(self, operation: str, **parameters: Any) -> Any:
        """Call S3. Return None if a name is taken."""
        try:
            return getattr(self._client, operation)(Bucket=self._bucket, **parameters)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == _THERE:
                return None
            raise JournalUnavailable(f"{operation}: {code}") from error
        except BotoCoreError as error:
            raise JournalUnavailable(f"{operation}: {type(error).__name__}") from error
