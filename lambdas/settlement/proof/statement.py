"""An account's statement while it grows: what of it stands at one instant, known exactly.

The whole statement is read once. What came last is read again and again, with the account's row in between:

    the statement ──▶ its tail ──▶ the row ──▶ the tail again: the same?
                          ▲                         │ no: a move came in between
                          └─────────────────────────┘

Entries are never changed, so two equal tails mean that none was added between them: the entries at the row's
version are known. An account that moves many times a second has a moment between two moves, but never one as
long as its whole statement takes to read. An entry has the time of its function's clock, and may be added
behind the tail by one that is late: then the row differs, and the statement is read again with a longer tail.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts
from settlement.core.model.stored import MalformedRow
from settlement.core.store.dynamodb import Store
from settlement.proof import pages, rows
from settlement.proof.facts import SweepFacts, Waiting, is_before, waiting
from settlement.proof.retention import KEEPS_ALL, Retention

_AFTER = "~"
"""It sorts after every timestamp."""


@dataclass
class Tally:
    """Entries, added up: the changes by currency, and of a merchant's releases and sweeps those by second.

    `moves` counts what changes the balance row: every entry but a merchant's release, and every sweep.
    """

    changes: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    folded: Counter[str] = field(default_factory=Counter)
    moves: int = 0
    retention: Retention = KEEPS_ALL
    """By it, entries may be gone: they are not added up, and neither is what is folded of them."""

    def add_entry(self, row: Row) -> None:
        """Add an entry. A malformed one is a fault of its own."""
        try:
            entry = rows.entry(row)
        except MalformedRow:
            return
        if self.retention.may_lack(entry):
            return
        self.changes[entry.currency] += entry.change
        if release := rows.received(entry):
            self.received[release.second] += release.change
        else:
            self.moves += 1

    def add_sweep(self, row: Row) -> None:
        """Add what a sweep has folded. A malformed row is a fault of its own."""
        for folded in rows.sound(rows.swept, [row]):
            for one in folded:
                if not is_before(one.second, self.retention.kept_from):
                    self.folded[one.second] += one.change
            self.moves += row["version"]

    def plus(self, other: "Tally") -> "Tally":
        """Return both tallies in one."""
        total = Tally(moves=self.moves + other.moves, retention=self.retention)
        for part in (self, other):
            total.changes.update(part.changes)
            total.received.update(part.received)
            total.folded.update(part.folded)
        return total

    def is_still(self, later: "Tally") -> bool:
        """Return whether the balance row has not moved until a later reading: entries are only ever added."""
        return self.moves == later.moves and self.folded == later.folded

    def waiting(self, account: str) -> Waiting:
        """Return what of a merchant's releases waits for a sweep."""
        changes = (*self.received.items(), *self.folded.items())
        return waiting(sorted(SweepFacts(account, second, change) for second, change in changes))


@dataclass(frozen=True)
class Statement:
    """A statement up to its tail, and the sort key in each of its partitions with which the tail begins."""

    before: Tally
    tails: dict[str, str]

    def is_complete(self, store: Store) -> bool:
        """Return whether nothing was added behind the tail since it was read: by a late clock, or a sweep."""
        again = Tally(retention=self.before.retention)
        for partition, first in self.tails.items():
            if first:
                behind = (row for row in pages.query(store, partition) if row["sk"] < first)
                _each(behind, _adder(again, partition))
        return again == self.before

    def tail(self, store: Store) -> Tally:
        """Read the tail. Sweeps come first: what they have folded is among the entries then."""
        found = Tally(retention=self.before.retention)
        for partition, first in self.tails.items():
            _each(store.entries(partition, first or " ", _AFTER), _adder(found, partition))
        return found


def read(store: Store, account: str, tail: int | None, retention: Retention = KEEPS_ALL) -> Statement:
    """Read an account's whole statement, but for the last `tail` rows of each partition (None: all rows)."""
    before, tails = Tally(retention=retention), {}
    partitions = keys.entry_partitions(account)
    sweeps = [keys.swept(partition, "")["pk"] for partition in partitions]
    for partition in (*(sweeps if accounts.is_merchant(account) else ()), *partitions):
        tails[partition] = "" if tail is None else _all_but(store, partition, tail, before)
    return Statement(before, tails)


def _all_but(store: Store, partition: str, tail: int, before: Tally) -> str:
    """Add up a partition but its last rows; return the first of these' sort key, "" if these are all."""
    add, last = _adder(before, partition), deque[Row]()
    is_longer = False
    for row in pages.query(store, partition):
        last.append(row)
        if len(last) > tail:
            add(last.popleft())
            is_longer = True
    return str(last[0]["sk"]) if is_longer else ""


def _adder(tally: Tally, partition: str) -> Callable[[Row], None]:
    return tally.add_sweep if keys.is_swept({"pk": partition}) else tally.add_entry


def _each(found: Iterable[Row], add: Callable[[Row], None]) -> None:
    for row in found:
        add(row)
