"""The spool of a reconciliation: the facts of all rows, on disk, in the order in which they are judged.

A table has no order by settlement, and may not fit into memory: an entry is far from its settlement's row.

    rows, in the order of the scan ──▶ SQLite, unsorted ──▶ sorted ─┬─▶ one settlement, one account at a time
    another part of the table, in its own spool ──▶ … ──▶ sorted ───┘

SQLite's database without a name is a file of its own that has no directory entry: no other process can open
it, and it is gone with this process, however that ends. It takes 170 bytes a row, and as much again while it
is sorted, in the directory that TMPDIR names. A kind of which there is no full batch is sorted where it is,
in memory.
"""

import heapq
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from settlement.proof.facts import (
    BalanceFacts,
    CaseFacts,
    EntryFacts,
    EventFacts,
    EvidenceFacts,
    ExternalFacts,
    OrderFacts,
    ProposalFacts,
    SettlementFacts,
    SweepFacts,
    Waiting,
    WaitingFacts,
    waiting,
)
from settlement.proof.watch import CutOff

_PRAGMAS = (
    *("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "temp_store = FILE"),
    "cache_size = -2000",  # kB, and the most that each of the sorts keeps in memory
)

_BATCH = 1000
"""Rows that are written, and sums that are added up, at a time."""


class Change(NamedTuple):
    """A change to the sum of an account."""

    account: str
    currency: str
    change: str
    """An integer as text: the sum of an account has no bound."""


class OldChange(NamedTuple):
    """The same by entries that the table need not have any more."""

    account: str
    currency: str
    change: str


Facts = (
    SettlementFacts
    | EntryFacts
    | EvidenceFacts
    | EventFacts
    | WaitingFacts
    | ProposalFacts
    | BalanceFacts
    | CaseFacts
    | OrderFacts
    | ExternalFacts
    | SweepFacts
)
_TABLES: dict[type[Any], str] = {
    SettlementFacts: "settlements",
    EntryFacts: "entries",
    EvidenceFacts: "evidence",
    EventFacts: "events",
    WaitingFacts: "waiting",
    ProposalFacts: "proposals",
    BalanceFacts: "balances",
    CaseFacts: "cases",
    OrderFacts: "orders",
    ExternalFacts: "external",
    SweepFacts: "sweeps",
    Change: "changes",
    OldChange: "old_changes",
}
"""The kinds of facts. The first column of each is what they are sorted by: a key, or an account."""

_ORDER = {SweepFacts: ("account", "second")}
"""What a kind is sorted by, if that is more than its first column."""


@dataclass
class Journal:
    """All rows of one settlement. `row` is None if its own is missing."""

    key: str
    row: SettlementFacts | None = None
    entries: list[EntryFacts] = field(default_factory=list)
    evidence: list[EvidenceFacts] = field(default_factory=list)
    events: list[EventFacts] = field(default_factory=list)
    waiting: WaitingFacts | None = None
    proposal: ProposalFacts | None = None


@dataclass
class Account:
    """The balance of one account, None if it has no row, and the sums of its entries by currency.

    `waiting` is what of a merchant's releases is not in the balance yet, and `cases` are the settlements
    whose open case of LIMBO blocks the account, `orders` the orders on it, and `external` the entries of its
    deposits and withdrawals. `old` is the part of the sums whose entries may be gone.
    """

    name: str
    row: BalanceFacts | None = None
    sums: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    old: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    waiting: Waiting = field(default_factory=Waiting)
    cases: list[str] = field(default_factory=list)
    orders: list[OrderFacts] = field(default_factory=list)
    external: list[EntryFacts] = field(default_factory=list)


class Spool:
    """A private database on disk, for one reconciliation. The sums of accounts are of one kind."""

    def __init__(self, changes: type[Change | OldChange] = Change) -> None:
        self._changes = changes
        self._rows: dict[type[Any], list[Sequence[object]]] = {kind: [] for kind in _TABLES}
        self._sums: dict[tuple[str, str], int] = defaultdict(int)
        self._spooled: set[type[Any]] = set()
        """The kinds of which a batch has been full."""

    @cached_property
    def _database(self) -> sqlite3.Connection:
        database = sqlite3.connect("", isolation_level=None)
        for pragma in _PRAGMAS:
            database.execute(f"PRAGMA {pragma}")
        database.execute("BEGIN")
        for kind, table in _TABLES.items():
            database.execute(f"CREATE TABLE {table} ({', '.join(kind._fields)})")
        return database

    def __enter__(self) -> "Spool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if "_database" in vars(self):  # else there is none to close
            self._database.close()

    def add(self, facts: Facts) -> None:
        """Add what is to be judged of a row."""
        self._add(facts)

    def post(self, account: str, currency: str, change: int) -> None:
        """Add a change to the sums of an account. The scan meets the entries of a partition together."""
        self._sums[account, currency] += change
        if len(self._sums) >= _BATCH:
            self._flush_sums()

    def facts(self, kind: type[Any]) -> Iterator[Any]:
        """Yield all facts of a kind, sorted."""
        self._flush_sums()
        if kind not in self._spooled:
            yield from sorted(self._rows[kind], key=_place(kind))
            return
        self._flush(kind)
        select = f"SELECT * FROM {_TABLES[kind]} ORDER BY {', '.join(_order(kind))}"  # noqa: S608
        with _on_disk():
            yield from map(kind._make, self._database.execute(select))

    def _add(self, facts: Sequence[object]) -> None:
        rows = self._rows[type(facts)]
        rows.append(facts)
        if len(rows) >= _BATCH:
            self._flush(type(facts))

    def _flush_sums(self) -> None:
        for (account, currency), change in self._sums.items():
            self._add(self._changes(account, currency, str(change)))
        self._sums.clear()

    def _flush(self, kind: type[Any]) -> None:
        self._spooled.add(kind)
        values = ", ".join("?" * len(kind._fields))
        insert = f"INSERT INTO {_TABLES[kind]} VALUES ({values})"  # noqa: S608
        with _on_disk():
            self._database.executemany(insert, self._rows[kind])
        self._rows[kind].clear()


class Source(Protocol):
    """A spool, here or in another process."""

    def facts(self, kind: type[Any]) -> Iterator[Any]:
        """Yield all facts of a kind, sorted."""


def settlements(sources: Sequence[Source]) -> Iterator[Journal]:
    """Yield the rows of each settlement, by its key."""
    kinds = (SettlementFacts, EntryFacts, EvidenceFacts, EventFacts, WaitingFacts, ProposalFacts)
    for key, facts in _merged(sources, *kinds):
        journal = Journal(key)
        for one in facts:
            if type(one) is EntryFacts:
                _demand_once(one not in journal.entries, one)
                journal.entries.append(one)
            elif type(one) is EvidenceFacts:
                journal.evidence.append(one)
            elif type(one) is EventFacts:
                journal.events.append(one)
            elif type(one) is WaitingFacts:
                _demand_once(journal.waiting is None, one)
                journal.waiting = one
            elif type(one) is ProposalFacts:
                _demand_once(journal.proposal is None, one)
                journal.proposal = one
            else:
                _demand_once(journal.row is None, one)
                journal.row = one
        yield journal


def accounts(sources: Sequence[Source], kept_from: str = "") -> Iterator[Account]:
    """Yield each account, by its name. Entries from before `kept_from` may be gone."""
    kinds = (BalanceFacts, Change, OldChange, CaseFacts, OrderFacts, ExternalFacts, SweepFacts)
    for name, facts in _merged(sources, *kinds):
        account = Account(name)
        for kind, of_kind in groupby(facts, type):
            if kind is SweepFacts:
                account.waiting = waiting(of_kind, kept_from)
                continue
            for one in of_kind:
                if kind is Change or kind is OldChange:
                    account.sums[one.currency] += int(one.change)
                    if kind is OldChange:
                        account.old[one.currency] += int(one.change)
                elif kind is CaseFacts:
                    account.cases.append(one.key)
                elif kind is OrderFacts:
                    _demand_once(one not in account.orders, one)
                    account.orders.append(one)
                elif kind is ExternalFacts:
                    account.external.append(EntryFacts(*one[1:]))
                else:
                    _demand_once(account.row is None, one)
                    account.row = one
        yield account


def _demand_once(is_new: bool, fact: Sequence[object]) -> None:
    """Let a scan that has met a row twice prove nothing: its sums are wrong. Equal facts are of one row."""
    if not is_new:
        raise CutOff(f"the scan has met a row of {fact[0]} twice")


def _merged(sources: Sequence[Source], *kinds: type[Any]) -> Iterator[tuple[str, Iterator[Any]]]:
    """Yield each key or account with its facts, kind by kind, of all sources."""
    of_kinds = (heapq.merge(*(source.facts(kind) for source in sources), key=_place(kind)) for kind in kinds)
    return groupby(heapq.merge(*of_kinds, key=itemgetter(0)), itemgetter(0))


def _order(kind: type[Any]) -> Sequence[str]:
    order: Sequence[str] = _ORDER.get(kind, kind._fields[:1])
    return order


def _place(kind: type[Any]) -> Callable[[Any], Any]:
    """Return the key function of a kind's order, which is the database's: by the UTF-8 of the texts."""
    return itemgetter(*range(len(_order(kind))))


@contextmanager
def _on_disk() -> Iterator[None]:
    """Let a full disk end the reconciliation as unproven."""
    try:
        yield
    except sqlite3.OperationalError as failed:
        raise CutOff(f"the spool in TMPDIR: {failed}") from failed
