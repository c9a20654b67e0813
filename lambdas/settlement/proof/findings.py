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
    MatchFacts,
    OrderFacts,
    SettlementFacts,
    WaitingFacts,
)
from settlement.proof.retention import KEEPS_ALL, Old, Retention
from settlement.proof.watch import CutOff

MOVING = "moving"
"""Kind of account, in the totals, for money that moved during the scan.

Its amount: scanned entries minus rows at a second look.
"""


class Verdict(Enum):
    AGREES = "agrees"
    DISAGREES = "disagrees"
    MOVING = "moving"


@dataclass(frozen=True)
class Look:
    verdict: Verdict
    row: SettlementFacts | BalanceFacts | None = None
    unswept: int = 0

    @classmethod
    def of(cls, row: SettlementFacts | BalanceFacts, unswept: int = 0) -> "Look":
        return cls(Verdict.AGREES, row, unswept)

    AGREES: ClassVar["Look"]
    DISAGREES: ClassVar["Look"]
    MOVING: ClassVar["Look"]


Look.AGREES = Look(Verdict.AGREES)
Look.DISAGREES = Look(Verdict.DISAGREES)
Look.MOVING = Look(Verdict.MOVING)


@dataclass(frozen=True)
class Difference:
    """A row that differs from its entries. `row` is None if missing or malformed.

    - `entries`: a settlement's, or an account's deposits and withdrawals.
    - `sums`: an account's entries, summed by currency.
    - `cases`: the LIMBO cases that block the account.
    - `retention`: determines which entries may have expired. `old` has an account's sums of these.
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
    matches: tuple[MatchFacts, ...] = ()
    retention: Retention = KEEPS_ALL
    old: Old = field(default_factory=Old)
    scanned: tuple[Any, ...] = ()


@dataclass
class Findings:
    """Sums of the rows, and their faults.

    - `totals`: minor units by currency and kind of account.
    - `unproven`: rows that moved during every look or were not judged.
    - `unswept`: amount and currency by merchant.
    - `ahead`: settlements that the index lists too far ahead.
    - `entries`: includes evidence.
    - `in_flight`: number of differing rows that agreed at a second look.
    - `cut_off`: why the judgement is incomplete, without names or amounts.
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
        if amount:
            self.totals[currency][MOVING] += amount

    @property
    def conserved(self) -> bool:
        sums = (sum(kinds.values()) for kinds in self.totals.values())
        return not self.faults and not self.unproven and not any(sums)

    @contextmanager
    def unless_cut_off(self) -> Iterator[None]:
        try:
            yield
        except CutOff as reason:
            self.totals.clear()
            self.unswept.clear()
            self.cut_off = str(reason)
            self.unproven.append(f"the table: cut off after {self.rows} rows: {reason}")

    def add(self, other: "Findings") -> None:
        self.faults += other.faults
        self.unproven += other.unproven
        self.ahead += other.ahead
        self.rows += other.rows
        self.accounts += other.accounts
        self.settlements += other.settlements
        self.entries += other.entries


def describe(findings: Findings, render: Callable[[int, str], str]) -> dict[str, Any]:
    """The content of `settle reconcile --json`; `render` formats minor units."""
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
