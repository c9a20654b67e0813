"""An account's statement while it grows, known exactly at one instant.

The whole statement is read once. Then its tail is read repeatedly, with the account's row in between:

    the statement ──▶ its tail ──▶ the row ──▶ the tail again: unchanged?
                          ▲                         │ no: a move came in between
                          └─────────────────────────┘

Entries never change. So after two equal tails, all entries at the row's version are known. A function with a
slow clock may add an entry that sorts before the tail. Then sums and row differ, and a longer tail is read.
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
"""Sorts after every timestamp."""


@dataclass
class Tally:
    """Sums of entries by currency. A merchant's releases and sweeps are also summed by second.

    `moves` counts changes of the balance row: sweeps, and all entries but a merchant's releases.
    """

    changes: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    folded: Counter[str] = field(default_factory=Counter)
    moves: int = 0
    retention: Retention = KEEPS_ALL
    """Entries that may have expired, and amounts folded from them, are left out."""

    def add_entry(self, row: Row) -> None:
        """Add an entry. A malformed entry is skipped: the scan reports it."""
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
        for folded in rows.sound(rows.swept, [row]):
            for one in folded:
                if not is_before(one.second, self.retention.kept_from):
                    self.folded[one.second] += one.change
            self.moves += row["version"]

    def plus(self, other: "Tally") -> "Tally":
        total = Tally(moves=self.moves + other.moves, retention=self.retention)
        for part in (self, other):
            total.changes.update(part.changes)
            total.received.update(part.received)
            total.folded.update(part.folded)
        return total

    def is_still(self, later: "Tally") -> bool:
        """Whether `later` has no new entry. Counts suffice: entries are only added."""
        return self.moves == later.moves and self.folded == later.folded

    def waiting(self, account: str) -> Waiting:
        changes = (*self.received.items(), *self.folded.items())
        return waiting(sorted(SweepFacts(account, second, change) for second, change in changes))


@dataclass(frozen=True)
class Statement:
    """A statement in two parts.

    `before` has the sums before the tail; `tails` has each partition's first key in the tail.
    """

    before: Tally
    tails: dict[str, str]

    def is_complete(self, store: Store) -> bool:
        """Whether all rows are known: no slow clock or sweep has added a row before the tail."""
        again = Tally(retention=self.before.retention)
        for partition, first in self.tails.items():
            if first:
                behind = (row for row in pages.query(store, partition) if row["sk"] < first)
                _each(behind, _adder(again, partition))
        return again == self.before

    def tail(self, store: Store) -> Tally:
        """Read the tail. Sweeps are read first, so the entries include all folded ones."""
        found = Tally(retention=self.before.retention)
        for partition, first in self.tails.items():
            _each(store.entries(partition, first or " ", _AFTER), _adder(found, partition))
        return found


def read(store: Store, account: str, tail: int | None, retention: Retention = KEEPS_ALL) -> Statement:
    """Read a statement's sums, without the last `tail` rows of each partition.

    None leaves out all rows.
    """
    before, tails = Tally(retention=retention), {}
    partitions = keys.entry_partitions(account)
    sweeps = [keys.swept(partition, "")["pk"] for partition in partitions]
    for partition in (*(sweeps if accounts.is_merchant(account) else ()), *partitions):
        tails[partition] = "" if tail is None else _all_but(store, partition, tail, before)
    return Statement(before, tails)


def _all_but(store: Store, partition: str, tail: int, before: Tally) -> str:
    """Add all rows but the last `tail`. Return the tail's first sort key, or "" if it has all rows."""
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
