"""The findings of a reconciliation: the sums of the rows, and their faults."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from settlement.core.ledger.keys import Row
from settlement.proof.facts import (
    BalanceFacts,
    EntryFacts,
    EventFacts,
    EvidenceFacts,
    OrderFacts,
    SettlementFacts,
    WaitingFacts,
)
from settlement.proof.retention import KEEPS_ALL, Old, Retention
from settlement.proof.watch import CutOff

MOVING = "moving"
"""The kind, in the sums, of money that moved while it was read: what the entries of the scan have beyond the
rows that a second look has read later. Without such rows there is none.
"""


class Verdict(Enum):
    """The result of a second look at one row and its entries."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    MOVING = "moving"


@dataclass(frozen=True)
class Look:
    """A second look: its verdict, and the row that agrees, with what of a merchant's releases it lacks."""

    verdict: Verdict
    row: SettlementFacts | BalanceFacts | None = None
    unswept: int = 0

    @classmethod
    def of(cls, row: SettlementFacts | BalanceFacts, unswept: int = 0) -> "Look":
        """Return a look that finds a row in agreement with what explains it."""
        return cls(Verdict.AGREES, row, unswept)

    AGREES: ClassVar["Look"]
    DISAGREES: ClassVar["Look"]
    MOVING: ClassVar["Look"]


Look.AGREES = Look(Verdict.AGREES)
Look.DISAGREES = Look(Verdict.DISAGREES)
Look.MOVING = Look(Verdict.MOVING)


@dataclass(frozen=True)
class Difference:
    """A row that differs in the scan from what explains it.

    `row` is the row as it was scanned, None if it was not there, or malformed. Of a settlement, `entries`,
    `evidence`, `events` and `waiting` are those that the scan met. Of an account, `sums` are those of its
    entries by currency, `cases` the settlements that block it, `orders` the orders on it, and `entries` those
    of its deposits and withdrawals. By the `retention`, entries may be gone, and so may those of `old`.
    """

    key: Row
    row: SettlementFacts | BalanceFacts | None = None
    entries: tuple[EntryFacts, ...] = ()
    evidence: tuple[EvidenceFacts, ...] = ()
    events: tuple[EventFacts, ...] = ()
    waiting: WaitingFacts | None = None
    sums: Mapping[str, int] = field(default_factory=dict)
    cases: tuple[str, ...] = ()
    orders: tuple[OrderFacts, ...] = ()
    retention: Retention = KEEPS_ALL
    old: Old = field(default_factory=Old)


@dataclass
class Findings:
    """The sums of the rows, and their faults.

    `totals`: per currency, minor units by kind of account. `faults`: contradictions. `in_flight`: rows
    that moved while they were read, and were right at a second look. `unproven`: rows that moved during
    every look. `unswept`: what each merchant has received and cannot spend yet, with its currency.
    `ahead`: settlements that the index lists too far ahead, with their time. `entries` counts evidence, too.
    `cut_off`: the reason if not all was judged, without a name or an amount.
    """

    totals: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    faults: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    unswept: dict[str, tuple[int, str]] = field(default_factory=dict)
    ahead: list[str] = field(default_factory=list)
    rows: int = field(default=0, compare=False)
    accounts: int = 0
    settlements: int = 0
    entries: int = 0
    in_flight: int = 0
    cut_off: str = ""

    def move(self, currency: str, amount: int) -> None:
        """Add money that moved between the scan of a row's entries and the second look at the row."""
        if amount:
            self.totals[currency][MOVING] += amount

    @property
    def conserved(self) -> bool:
        """Whether every currency sums to zero and every row is shown to agree with its entries."""
        sums = (sum(kinds.values()) for kinds in self.totals.values())
        return not self.faults and not self.unproven and not any(sums)

    @contextmanager
    def unless_cut_off(self) -> Iterator[None]:
        """Find the table unproven if the block is cut off: what was added up by then is no sum."""
        try:
            yield
        except CutOff as reason:
            self.totals.clear()
            self.unswept.clear()
            self.cut_off = str(reason)
            self.unproven.append(f"the table: cut off after {self.rows} rows: {reason}")

    def add(self, other: "Findings") -> None:
        """Add what was found while another part of the table was read."""
        self.faults += other.faults
        self.unproven += other.unproven
        self.ahead += other.ahead
        self.rows += other.rows
        self.accounts += other.accounts
        self.settlements += other.settlements
        self.entries += other.entries


def describe(findings: Findings, render: Callable[[int, str], str]) -> dict[str, Any]:
    """Return the findings for `settle reconcile --json`; `render` writes minor units of a currency."""
    return {
        "conserved": findings.conserved,
        "accounts": findings.accounts,
        "settlements": findings.settlements,
        "entries": findings.entries,
        "in_flight": findings.in_flight,
        "currencies": {
            currency: {kind: render(amount, currency) for kind, amount in sorted(kinds.items())}
            | {"sum": render(sum(kinds.values()), currency)}
            for currency, kinds in sorted(findings.totals.items())
        },
        "faults": findings.faults,
        "unproven": findings.unproven,
        "listed_ahead": findings.ahead,
        "unswept": {
            merchant: f"{render(amount, currency)} {currency}"
            for merchant, (amount, currency) in sorted(findings.unswept.items())
        },
    }
