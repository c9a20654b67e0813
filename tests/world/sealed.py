import gzip
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from settlement.core.ledger.keys import Row
from settlement.journal import lines, seals
from settlement.journal.copy import Bucket
from settlement.journal.sealed_journal import SealedJournal
from settlement.proof import KEEPS_ALL, Retention, sealed
from settlement.proof.sealed import SealedFindings
from tests.world.environment import NOW
from tests.world.memory_s3 import MemoryS3

HOUR = timedelta(hours=1)
GRACE = timedelta(minutes=10)
AT = int(NOW.timestamp())


def inserted(row: Row, at: int = AT) -> dict[str, Any]:
    return {"event": "INSERT", "at": at, "number": "1", "new": lines.image(row)}


class Sealed:
    """A sealed journal in a bucket in memory, with a clock that the tests move."""

    def __init__(self) -> None:
        self.s3 = MemoryS3(page=2)
        self.now = NOW
        self.journal = SealedJournal(self.s3, "journal")

    def add(self, *told: Mapping[str, Any]) -> str:
        return self.journal.add(told, self.now)

    def copy(self, rows: Iterable[Row]) -> str:
        return self.add(*map(inserted, rows))

    def seal(self) -> None:
        """Let an hour and the grace period pass, then seal."""
        self.now = seals._floor(self.now, HOUR) + HOUR + GRACE
        self.journal.seal(self.now, period=HOUR, grace=GRACE)

    def names(self, folder: str) -> list[str]:
        return [name for name in self.s3.objects if name.startswith(folder)]

    def overwrite(self, name: str, content: bytes) -> None:
        """Replace an object, as only the bucket's owner can."""
        self.s3.versions[name] = [content]

    def rewrite(self, name: str, lines_of: bytes) -> None:
        self.overwrite(name, gzip.compress(lines_of, mtime=0))

    def lose(self, name: str) -> None:
        del self.s3.versions[name]

    def compare(
        self,
        rows: Iterable[Row],
        kept: str | None = None,
        now: datetime | None = None,
        retention: Retention = KEEPS_ALL,
    ) -> SealedFindings:
        copy = Bucket(self.s3, "journal")
        return sealed.compare(copy, rows, now or self.now, kept, retention=retention)
