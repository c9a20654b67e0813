"""The findings of a reconciliation: the sums of the rows, and their faults."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from settlement.ledger.keys import Row


class Look(Enum):
    """The result of a second look at one row and its entries."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    MOVING = "moving"


@dataclass(frozen=True)
class Difference:
    """A row that differs from its entries in the scan: the row's key, and the keys of the entries seen.

    Of an account, no entry is named: all are in its own partitions.
    """

    key: Row
    entries: tuple[Row, ...] = ()


@dataclass
class Findings:
    """The sums of the rows, and their faults.

    `totals`: per currency, minor units by kind of account. `faults`: contradictions. `in_flight`: rows
    that moved while they were read, and were right at a second look. `unproven`: rows that moved during
    every look. `unswept`: what each merchant has received and cannot spend yet, with its currency.
    `entries` counts evidence, too.
    """

    totals: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    faults: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    unswept: dict[str, tuple[int, str]] = field(default_factory=dict)
    accounts: int = 0
    settlements: int = 0
    entries: int = 0
    in_flight: int = 0

    @property
    def conserved(self) -> bool:
        """Whether every currency sums to zero and every row is shown to agree with its entries."""
        sums = (sum(kinds.values()) for kinds in self.totals.values())
        return not self.faults and not self.unproven and not any(sums)


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
        "unswept": {
            merchant: f"{render(amount, currency)} {currency}"
            for merchant, (amount, currency) in sorted(findings.unswept.items())
        },
    }
