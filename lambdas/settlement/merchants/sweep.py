"""Adds committed releases to a merchant's balance, each exactly once.

Each minute and partition of entries has a row. For each second, the row has the sum that was already added to
the balance (*folded*). A sweep reads this row, then the entries, and adds the difference. So late visibility,
repeats and several sweepers do no harm.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import ABSENT, same_currency, version_unchanged
from settlement.core.ledger.failure_reasons import account_refusal
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write, put, update
from settlement.core.model.errors import AccountNotFound, SettlementError
from settlement.core.model.state import AccountState
from settlement.core.model.status import Step
from settlement.core.model.stored import MalformedRow

_AFTER = "~"
"""Sorts after any text that follows the second."""

Unreadable = Callable[[Row, str], None]
"""Takes an unreadable entry's key, and the reason."""


@dataclass(frozen=True, order=True)
class Span:
    """A minute, or seconds of it, in a partition of a merchant's entries."""

    partition: str
    minute: str
    first: str = "00"
    last: str = "59"

    @property
    def merchant(self) -> str:
        return self.partition.partition("#")[2].rpartition("#")[0]

    @property
    def bounds(self) -> tuple[str, str]:
        return f"{self.minute}:{self.first}", f"{self.minute}:{self.last}{_AFTER}"

    def covers(self, partition: str, sort_key: str) -> bool:
        first, last = self.bounds
        return partition == self.partition and first <= sort_key <= last

    @property
    def swept(self) -> Row:
        return keys.swept(self.partition, self.minute)


def is_release(entry: Row) -> bool:
    """Whether an entry is a release. Other entries change the balance at their commit."""
    return bool(entry["step"] == Step.RELEASE)


def minute_and_second(posted_at: str) -> tuple[str, str]:
    return posted_at[: keys.MINUTE], posted_at[keys.MINUTE + 1 : keys.MINUTE + 3]


def readable(entries: Iterable[Row], currency: str, unreadable: Unreadable) -> Iterator[Row]:
    """Yield the releases in the merchant's `currency`. A damaged entry does not block others."""
    for entry in entries:
        if reason := _fault(entry, currency):
            unreadable({name: entry[name] for name in ("pk", "sk")}, reason)
        elif is_release(entry):
            yield entry


def _fault(entry: Row, currency: str) -> str | None:
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
    """Raise MalformedRow if the row of a minute is unreadable."""
    if found and (type(found.get("version")) is not int or not _is_folded(found.get("folded"))):
        raise MalformedRow(
            f"sweep: the row of the minute {found['sk']} must have a version and the sums of its seconds"
        )


def _is_folded(value: object) -> bool:
    return type(value) is dict and all(type(total) is int for total in value.values())


def unswept(found: Row | None, entries: Iterable[Row]) -> dict[str, int]:
    """Each second's amount that is not yet folded, in minor units.

    Folded sums never shrink. Reconciliation reports a second whose entries sum to less.
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
    """Yield readable releases that a folded sum may have or lack.

    Each of `seconds` has an unreadable entry, so it is unknown which entries its sum has.
    """
    folded = found["folded"] if found else {}
    for entry in releases:
        _, second = minute_and_second(entry["posted_at"])
        if second in seconds and folded.get(second):
            yield entry


def credit(merchant: str, amount: int, currency: str) -> Write:
    """Credit a merchant. The highest balance does not matter: the money is already the merchant's."""

    def meaning(state: AccountState | None) -> SettlementError:
        return account_refusal("payee", currency, state) or AccountNotFound("payee")

    return update(
        keys.account(merchant),
        "SET available = available + :amount",
        values={":amount": amount},
        conditions=[same_currency(currency)],
        on_failure=meaning,
    )


def fold(span: Span, found: Row | None, gains: Mapping[str, int], currency: str) -> tuple[Write, Write]:
    """Build the writes that fold `gains`. `found` is the row, read before the entries.

    If another sweep changed the row, the caller reads again.
    """
    version, folded = (found["version"], dict(found["folded"])) if found else (0, {})
    for second, more in gains.items():
        folded[second] = folded.get(second, 0) + more
    row = {**span.swept, "version": version + 1, "folded": folded}
    unchanged = version_unchanged(version) if found else ABSENT
    return (
        put(row, on_failure=AlreadyApplied, condition=unchanged),
        credit(span.merchant, sum(gains.values()), currency),
    )
