"""The proof that no money was lost or made: from the rows alone, whatever the machines say.

Per currency, the sum over all accounts must be zero. Each entry has one debit and one credit, so
that holds if every balance row equals the sum of its entries, which is what is checked, row by row.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from settlement import rows
from settlement.rows import Row
from settlement.status import Status, Step

CUSTOMERS, ESCROW = "customers", "escrow"

Balances = dict[str, int]


@dataclass
class Findings:
    """What the rows say. `totals`: per currency, minor units by kind of account; `faults`: what is wrong."""

    totals: dict[str, Balances] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    faults: list[str] = field(default_factory=list)
    accounts: int = 0
    settlements: int = 0
    entries: int = 0
    in_motion: int = 0

    @property
    def conserved(self) -> bool:
        """Whether every currency sums to zero and every row agrees with its entries."""
        return not self.faults and all(sum(kinds.values()) == 0 for kinds in self.totals.values())


def reconcile(all_rows: Iterable[Row], agrees_now: Callable[[Row], bool]) -> Findings:
    """Compare every balance and escrow with the sum of its entries.

    The rows are read one after the other while money moves, so a row may be newer than the entries
    seen for it. `agrees_now` looks at such a row again by itself; only what still differs is a fault.
    """
    findings = Findings()
    posted: dict[tuple[str, str], int] = defaultdict(int)
    steps: dict[str, set[str]] = defaultdict(set)
    held: list[Row] = []
    for row in all_rows:
        kind = row["pk"].partition("#")[0]
        if kind == "ACCOUNT" or row["sk"] == "SETTLEMENT":
            held.append(row)
        elif kind in ("SETTLEMENT", "DEPOSIT"):
            findings.entries += 1
            if kind == "SETTLEMENT":
                steps[row["pk"]].add(row["step"])
            for account, change in changes(row):
                posted[account, row["currency"]] += change

    for row in held:
        is_settlement = row["sk"] == "SETTLEMENT"
        findings.settlements += is_settlement
        findings.accounts += not is_settlement
        account, balance = balance_of(row)
        by_entries = posted.pop((account, row["currency"]), 0)
        if not agrees(row, by_entries, steps.pop(row["pk"], set())):
            if agrees_now(row):
                findings.in_motion += 1
                balance = by_entries
            else:
                findings.faults.append(
                    f"{row['pk']}: the row and its entries disagree: {balance} and {by_entries} "
                    f"{row['currency']} (minor units), or the steps recorded in each"
                )
        findings.faults += _faults(row)
        findings.totals[row["currency"]][ESCROW if is_settlement else CUSTOMERS] += balance

    for (account, currency), balance in posted.items():
        if rows.is_customer(account) or account.startswith("escrow:"):
            findings.faults.append(
                f"{account}: has entries of {balance} {currency}, but no row in {currency}"
            )
        else:
            findings.totals[currency][account.partition(":")[0]] += balance
    findings.faults += [f"{pk}: has entries, but no settlement" for pk in steps]
    return findings


def balance_of(row: Row) -> tuple[str, int]:
    """The account that a balance or settlement row keeps, and what the row says is on it (minor units)."""
    if row["sk"] == "SETTLEMENT":
        return rows.escrow(row["pk"].partition("#")[2]), row["escrow"]
    return row["pk"].partition("#")[2], row["available"]


def changes(entry: Row) -> list[tuple[str, int]]:
    """What an entry does to its two accounts; nothing, where it is evidence only."""
    if "debit" not in entry:
        return []
    return [(entry["debit"], -entry["amount"]), (entry["credit"], entry["amount"])]


def agrees(row: Row, posted: int, steps: set[str]) -> bool:
    """Whether a balance or settlement row says what its entries say: the sum, and the steps they record."""
    return balance_of(row)[1] == posted and steps & set(Step) == row.get("steps", set())


def _faults(row: Row) -> Iterable[str]:
    _, balance = balance_of(row)
    if balance < 0:
        yield f"{row['pk']}: is below zero: {balance} {row['currency']} (minor units)"
    status = row.get("status")
    if status in (Status.SETTLED, Status.REJECTED, Status.COMPENSATED) and balance != 0:
        yield f"{row['pk']}: is {status}, but holds {balance} {row['currency']} (minor units)"
    if status == Status.SETTLED and row.get("steps", set()) != set(Step):
        yield f"{row['pk']}: is SETTLED, but only {sorted(row.get('steps', ()))} committed"


def describe(findings: Findings, render: Callable[[int, str], str]) -> dict[str, Any]:
    """What `settle reconcile --json` prints; `render` writes minor units of a currency."""
    return {
        "conserved": findings.conserved,
        "accounts": findings.accounts,
        "settlements": findings.settlements,
        "entries": findings.entries,
        "in_motion": findings.in_motion,
        "currencies": {
            currency: {kind: render(amount, currency) for kind, amount in sorted(kinds.items())}
            | {"sum": render(sum(kinds.values()), currency)}
            for currency, kinds in sorted(findings.totals.items())
        },
        "faults": findings.faults,
    }
