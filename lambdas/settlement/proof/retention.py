"""The entries that a stage need not have any more: the proof takes them from their settlements' rows."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from settlement.proof.facts import EntryFacts
from settlement.retention import expiry


class Retention(NamedTuple):
    """The shortest time in `days` for which a stage has ever kept its entries; None: for ever.

    No entry is missing that was posted at `kept_from` or later, which is a full minute, or that expires
    after `gone_until`, in seconds since 1970.
    """

    days: int | None = None
    kept_from: str = ""
    gone_until: int = 0

    @classmethod
    def at(cls, now: datetime, days: int | None) -> "Retention":
        """Return the retention of a stage as a reading of its table finds it that begins now."""
        if days is None:
            return cls()
        return cls(days, expiry.kept_from(now, days), int(expiry.gone_until(now).timestamp()))

    def may_lack(self, entry: EntryFacts) -> bool:
        """Return whether the table need not have an entry any more."""
        return entry.posted_at < self.kept_from and entry.step in expiry.STEPS


class Old(NamedTuple):
    """What the entries of an account that may be gone have added up to, when the scan met them or their rows.

    `sums` are by currency. Of a merchant, `unswept` waits for a sweep, and `above` is the first second of
    which too much is folded.
    """

    sums: Mapping[str, int] = {}
    unswept: int = 0
    above: str | None = None


KEEPS_ALL = Retention()
"""The retention of a stage whose entries stay for ever."""
