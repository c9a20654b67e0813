"""The sweep of a merchant: releases that leave the balance alone are added to it later, each exactly once.

A row for each minute of each partition of the merchant's entries says what of each second is in the balance.
A sweep reads this row, then the entries, and adds the difference. So it does not matter when an entry becomes
visible, how often its second is swept, or by how many sweepers.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from settlement.core.ledger import balances, keys
from settlement.core.ledger.conditions import ABSENT, version_unchanged
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write, put
from settlement.core.model.status import Step
from settlement.core.model.stored import MalformedRow

_AFTER = "~"
"""It sorts after everything that follows the second in an entry's sort key."""

Unreadable = Callable[[Row, str], None]
"""Takes the key of an entry that cannot be read, and why."""


@dataclass(frozen=True, order=True)
class Span:
    """Some seconds of one minute in a partition of a merchant's entries, from `first` to `last`."""

    partition: str
    minute: str
    first: str = "00"
    last: str = "59"

    @property
    def merchant(self) -> str:
        """The account whose entries these are."""
        return self.partition.partition("#")[2].rpartition("#")[0]

    @property
    def bounds(self) -> tuple[str, str]:
        """The sort keys between which the span's entries are."""
        return f"{self.minute}:{self.first}", f"{self.minute}:{self.last}{_AFTER}"

    def covers(self, partition: str, sort_key: str) -> bool:
        """Return whether an entry is in the span."""
        first, last = self.bounds
        return partition == self.partition and first <= sort_key <= last

    @property
    def swept(self) -> Row:
        """The key of the row with what is folded of the span's minute."""
        return keys.swept(self.partition, self.minute)


def is_release(entry: Row) -> bool:
    """Return whether an entry waits for a sweep: any other one is in the balance since its own commit."""
    return bool(entry["step"] == Step.RELEASE)


def minute_and_second(posted_at: str) -> tuple[str, str]:
    """Return the minute of a timestamp, and the second in it."""
    return posted_at[: keys.MINUTE], posted_at[keys.MINUTE + 1 : keys.MINUTE + 3]


def readable(entries: Iterable[Row], currency: str, unreadable: Unreadable) -> Iterator[Row]:
    """Yield the releases that a sweep can read: one that a foreign hand has changed holds up no other.

    `currency` is the merchant's: an amount in any other one is nothing that its balance could have.
    """
    for entry in entries:
        if reason := _fault(entry, currency):
            unreadable({name: entry[name] for name in ("pk", "sk")}, reason)
        elif is_release(entry):
            yield entry


def _fault(entry: Row, currency: str) -> str | None:
    """Return why a sweep cannot read an entry; None if it can, or need not."""
    if type(entry.get("step")) is not str:
        return "step: must be a text"
    if not is_release(entry):
        return None
    posted_at, amount = entry.get("posted_at"), entry.get("amount")
    if type(posted_at) is not str or not posted_at or not entry["sk"].startswith(f"{posted_at}#"):
        return "posted_at: must be the time in the sort key"
    if type(amount) is not int or amount < 0:
        return "amount: must be a whole number of minor units"
    if entry.get("currency") != currency:
        return "currency: must be the account's"
    return None


def ensure_readable(found: Row | None) -> None:
    """Check the row with what is folded of a minute. Raises MalformedRow."""
    if found and (type(found.get("version")) is not int or not _is_folded(found.get("folded"))):
        raise MalformedRow(
            f"sweep: the row of the minute {found['sk']} must have a version and the sums of its seconds"
        )


def _is_folded(value: object) -> bool:
    return type(value) is dict and all(type(total) is int for total in value.values())


def unswept(found: Row | None, entries: Iterable[Row]) -> dict[str, int]:
    """Return what the releases of each second have beyond what is folded of it, in minor units.

    What is folded never shrinks: a second whose entries are fewer than that is none of a sweep's business,
    and a fault that reconciliation finds.
    """
    sums: dict[str, int] = {}
    for entry in filter(is_release, entries):
        _, second = minute_and_second(entry["posted_at"])
        sums[second] = sums.get(second, 0) + entry["amount"]
    folded = found["folded"] if found else {}
    return {
        second: more for second, total in sorted(sums.items()) if (more := total - folded.get(second, 0)) > 0
    }


def doubtful(found: Row | None, releases: Sequence[Row], seconds: Collection[str]) -> Iterator[Row]:
    """Yield the releases of which no sum tells how much is folded: of `seconds` with unreadable entries.

    What cannot be read may have been folded before it was changed. Until it is mended, no sum says how much
    of the other releases is folded.
    """
    folded = found["folded"] if found else {}
    for entry in releases:
        _, second = minute_and_second(entry["posted_at"])
        if second in seconds and folded.get(second):
            yield entry


def fold(span: Span, found: Row | None, gains: Mapping[str, int], currency: str) -> tuple[Write, Write]:
    """Build the transaction that adds the gains of some seconds to a merchant's balance.

    `found` is the row as it was read before the entries. If another sweep has changed it since, the write
    counts as applied: the caller looks again.
    """
    version, folded = (found["version"], dict(found["folded"])) if found else (0, {})
    for second, more in gains.items():
        folded[second] = folded.get(second, 0) + more
    row = {**span.swept, "version": version + 1, "folded": folded}
    unchanged = version_unchanged(version) if found else ABSENT
    return (
        put(row, on_failure=AlreadyApplied, condition=unchanged),
        balances.credit_swept(span.merchant, sum(gains.values()), currency),
    )
