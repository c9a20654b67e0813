from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from settlement.proof.facts import EntryFacts
from settlement.retention import expiry


class Retention(NamedTuple):
    """Which entries may have expired.

    - `days`: the stage's shortest retention ever. None: for ever.
    - `kept_from`: a full minute. All entries posted since exist.
    - `gone_until`: seconds since 1970. All entries that expire later exist.
    """

    days: int | None = None
    kept_from: str = ""
    gone_until: int = 0

    @classmethod
    def at(cls, now: datetime, days: int | None) -> "Retention":
        if days is None:
            return cls()
        return cls(days, expiry.kept_from(now, days), int(expiry.gone_until(now).timestamp()))

    def may_lack(self, entry: EntryFacts) -> bool:
        return entry.posted_at < self.kept_from and entry.step in expiry.STEPS


class Old(NamedTuple):
    """Sums, by currency, of an account's entries that may have expired.

    `unswept` and `above` are a merchant's, as in `Waiting`.
    """

    sums: Mapping[str, int] = {}
    unswept: int = 0
    above: str | None = None


KEEPS_ALL = Retention()
