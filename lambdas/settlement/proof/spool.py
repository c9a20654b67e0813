"""Spool of a reconciliation: the facts of all rows, sorted on disk.

A table has no order by settlement, and may exceed the memory. Sorting brings the rows of a settlement or
account together. The spools of several parts are merged.

The spool is an unnamed SQLite database. No other process can open it, and it disappears with this process. It
takes 170 bytes per row in TMPDIR, and twice that while sorting. A kind of fact without a full batch is
sorted in memory.
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
    BankLineFacts,
    CaseFacts,
    ConfirmedFacts,
    DestinationFacts,
    EntryFacts,
    EventFacts,
    EvidenceFacts,
    ExternalFacts,
    FrozenFacts,
    LineMatchFacts,
    MatchFacts,
    OrderFacts,
    PaidToFacts,
    PayoutCaseFacts,
    PayoutEntryFacts,
    PayoutFacts,
    PayoutLineFacts,
    PayoutMatchFacts,
    PayoutReferenceFacts,
    ProposalFacts,
    ReservedFacts,
    SettlementFacts,
    SweepFacts,
    Waiting,
    WaitingFacts,
    waiting,
)
from settlement.proof.watch import CutOff

_PRAGMAS = (
    *("journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", "temp_store = FILE"),
    "cache_size = -2000",  # kB; also the memory limit of each sort
)

_BATCH = 1000
"""Rows written, or sums held, at a time."""


class Change(NamedTuple):
    account: str
    currency: str
    change: str
    """An integer as text, because a sum has no bound."""


class OldChange(NamedTuple):
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
    | MatchFacts
    | SweepFacts
    | PayoutFacts
    | PayoutEntryFacts
    | PayoutCaseFacts
    | PayoutReferenceFacts
    | PayoutMatchFacts
    | ReservedFacts
    | DestinationFacts
    | ConfirmedFacts
    | FrozenFacts
    | PaidToFacts
    | BankLineFacts
    | PayoutLineFacts
    | LineMatchFacts
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
    MatchFacts: "matches",
    SweepFacts: "sweeps",
    PayoutFacts: "payouts",
    PayoutEntryFacts: "payout_entries",
    PayoutCaseFacts: "payout_cases",
    PayoutReferenceFacts: "payout_references",
    PayoutMatchFacts: "payout_matches",
    ReservedFacts: "reserved",
    DestinationFacts: "destinations",
    ConfirmedFacts: "confirmed",
    FrozenFacts: "freezes",
    PaidToFacts: "paid_to",
    BankLineFacts: "bank_lines",
    PayoutLineFacts: "payout_lines",
    LineMatchFacts: "line_matches",
    Change: "changes",
    OldChange: "old_changes",
}
"""The table of each kind of facts. The first column, a key or an account, sorts it."""

_ORDER = {SweepFacts: ("account", "second"), ReservedFacts: ("account", "day")}
"""Kinds sorted by more than their first column."""


@dataclass
class Journal:
    key: str
    row: SettlementFacts | None = None
    entries: list[EntryFacts] = field(default_factory=list)
    evidence: list[EvidenceFacts] = field(default_factory=list)
    events: list[EventFacts] = field(default_factory=list)
    waiting: WaitingFacts | None = None
    proposal: ProposalFacts | None = None


@dataclass
class Account:
    """An account's facts.

    - `old`: sums of entries that may have expired.
    - `waiting`: a merchant's unswept amount.
    - `cases`: settlements whose LIMBO case blocks the account.
    - `external`: entries of deposits and withdrawals.
    - `matches`: the account's orders matched with a bank's lines.
    """

    name: str
    row: BalanceFacts | None = None
    sums: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    old: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    waiting: Waiting = field(default_factory=Waiting)
    cases: list[str] = field(default_factory=list)
    orders: list[OrderFacts] = field(default_factory=list)
    external: list[EntryFacts] = field(default_factory=list)
    matches: list[MatchFacts] = field(default_factory=list)


class Spool:
    """A private database for one reconciliation. `changes`: the type of posted sums, Change or OldChange."""

    def __init__(self, changes: type[Change | OldChange] = Change) -> None:
        self._changes = changes
        self._rows: dict[type[Any], list[Sequence[object]]] = {kind: [] for kind in _TABLES}
        self._sums: dict[tuple[str, str], int] = defaultdict(int)
        self._spooled: set[type[Any]] = set()
        """Kinds of facts on disk, because they have filled a batch."""

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
        self._add(facts)

    def post(self, account: str, currency: str, change: int) -> None:
        """Add a change. Sums stay in memory, because a scan meets a partition's entries together."""
        self._sums[account, currency] += change
        if len(self._sums) >= _BATCH:
            self._flush_sums()

    def facts(self, kind: type[Any]) -> Iterator[Any]:
        self._flush_sums()
        if kind not in self._spooled:
            yield from sorted(self._rows[kind], key=_place(kind))
            return
        self._flush(kind)
        select = f"SELECT * FROM {_TABLES[kind]} ORDER BY {', '.join(_order(kind))}"  # noqa: S608
        with on_disk():
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
        with on_disk():
            self._database.executemany(insert, self._rows[kind])
        self._rows[kind].clear()


class Source(Protocol):
    def facts(self, kind: type[Any]) -> Iterator[Any]:
        """Facts of a kind, sorted."""


def settlements(sources: Sequence[Source]) -> Iterator[Journal]:
    """Yield settlements, sorted by key. Raises CutOff."""
    kinds = (SettlementFacts, EntryFacts, EvidenceFacts, EventFacts, WaitingFacts, ProposalFacts)
    for key, facts in merged(sources, *kinds):
        journal = Journal(key)
        for one in facts:
            if type(one) is EntryFacts:
                demand_once(one not in journal.entries, one)
                journal.entries.append(one)
            elif type(one) is EvidenceFacts:
                journal.evidence.append(one)
            elif type(one) is EventFacts:
                journal.events.append(one)
            elif type(one) is WaitingFacts:
                demand_once(journal.waiting is None, one)
                journal.waiting = one
            elif type(one) is ProposalFacts:
                demand_once(journal.proposal is None, one)
                journal.proposal = one
            else:
                demand_once(journal.row is None, one)
                journal.row = one
        yield journal


def accounts(sources: Sequence[Source], kept_from: str = "") -> Iterator[Account]:
    """Yield accounts, sorted by name. Raises CutOff."""
    kinds = (BalanceFacts, Change, OldChange, CaseFacts, OrderFacts, ExternalFacts, MatchFacts, SweepFacts)
    for name, facts in merged(sources, *kinds):
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
                    account.orders.append(one)
                elif kind is MatchFacts:
                    account.matches.append(one)
                elif kind is ExternalFacts:
                    account.external.append(EntryFacts(*one[1:]))
                else:
                    demand_once(account.row is None, one)
                    account.row = one
        demand_once(len({*account.orders}) == len(account.orders), (name,))
        yield account


def demand_once(is_new: bool, fact: Sequence[object]) -> None:
    """Raise CutOff if the scan met a row twice: its sums are then wrong.

    Two equal facts mean one row.
    """
    if not is_new:
        raise CutOff(f"the scan has met a row of {fact[0]} twice")


def merged(sources: Sequence[Source], *kinds: type[Any]) -> Iterator[tuple[str, Iterator[Any]]]:
    of_kinds = (heapq.merge(*(source.facts(kind) for source in sources), key=_place(kind)) for kind in kinds)
    return groupby(heapq.merge(*of_kinds, key=itemgetter(0)), itemgetter(0))


def _order(kind: type[Any]) -> Sequence[str]:
    order: Sequence[str] = _ORDER.get(kind, kind._fields[:1])
    return order


def _place(kind: type[Any]) -> Callable[[Any], Any]:
    """Return a sort key. It orders texts by their UTF-8, as the database does."""
    return itemgetter(*range(len(_order(kind))))


@contextmanager
def on_disk() -> Iterator[None]:
    """Raise CutOff if the database fails, for example on a full disk."""
    try:
        yield
    except sqlite3.OperationalError as failed:
        raise CutOff(f"the spool in TMPDIR: {failed}") from failed
