"""The proof that no money was lost or made, from the rows alone: the machines are not asked.

Per currency, the sum over all accounts must be zero. Each entry has one debit and one credit, so
that holds if every balance row equals the sum of its entries, which is what is checked, row by row.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model import accounts as model_accounts
from settlement.model.orders import Decision
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.model.verdict import KycDecision


class Look(Enum):
    """The result of a second look at one row and its entries."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    MOVING = "moving"


@dataclass
class Findings:
    """The sums of the rows, and their faults.

    `totals`: per currency, minor units by kind of account. `faults`: contradictions. `in_flight`: rows
    that moved while they were read, and were right at a second look. `unproven`: rows that moved during
    every look.
    """

    totals: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    faults: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    accounts: int = 0
    settlements: int = 0
    entries: int = 0
    in_flight: int = 0

    @property
    def conserved(self) -> bool:
        """Whether every currency sums to zero and every row is shown to agree with its entries."""
        sums = (sum(kinds.values()) for kinds in self.totals.values())
        return not self.faults and not self.unproven and not any(sums)


@dataclass
class _Posted:
    """The entries seen so far: sums by account and currency, amounts by settlement and step."""

    sums: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    steps: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))


def reconcile(all_rows: Iterable[Row], look_again: Callable[[Row], Look]) -> Findings:
    """Compare every balance and escrow with the sum of its entries.

    The rows are read one after the other while money moves, so a row may be newer or older than the
    entries seen for it. `look_again` looks at such a row (by its key) by itself; only a difference that
    it finds is a fault.
    """
    findings, posted = Findings(), _Posted()
    held = _read(all_rows, findings, posted)
    for row in held:
        account, balance = balance_of(row)
        by_entries = posted.sums.pop((account, row["currency"]), 0)
        steps = posted.steps.pop(keys.subject(row)[1], {}) if keys.is_settlement(row) else {}
        if not agrees(row, by_entries, steps):
            what = f"the row says {balance} {row['currency']}, its entries {by_entries} (minor units)"
            look = _judge(findings, look_again, row, f"{what}, or they differ in a step or its amount")
            if look is not Look.DISAGREES:
                balance = by_entries
        findings.faults += _faults(row)
        findings.settlements += keys.is_settlement(row)
        findings.accounts += not keys.is_settlement(row)
        findings.totals[row["currency"]][_kind(account)] += balance

    missing = [keys.settlement(name) for name in posted.steps]
    for (account, currency), balance in posted.sums.items():
        findings.totals[currency][_kind(account)] += balance
        kind, _, name = account.rpartition(":")
        if not kind:
            missing.append(keys.account(account))
        elif kind == "escrow":
            missing.append(keys.settlement(name))
    for key in {key["pk"]: key for key in missing}.values():
        _judge(findings, look_again, key, "has entries, but no row in their currency")
    return findings


def balance_of(row: Row) -> tuple[str, int]:
    """Return the account that a balance or settlement row keeps, and its balance there (minor units)."""
    _, name = keys.subject(row)
    if keys.is_settlement(row):
        return model_accounts.escrow(name), row["escrow"]
    return name, row["available"]


def changes(entry: Row) -> list[tuple[str, int]]:
    """Return the changes of an entry's two accounts; none for evidence."""
    if "debit" not in entry:
        return []
    return [(entry["debit"], -entry["amount"]), (entry["credit"], entry["amount"])]


def agrees(row: Row, posted: int, steps: Mapping[str, int]) -> bool:
    """Return whether a balance or settlement row agrees with its entries.

    It agrees in their sum and, for a settlement, in the amount of each step's entry (evidence: 0).
    """
    if balance_of(row)[1] != posted:
        return False
    if not keys.is_settlement(row):
        return True
    amounts: dict[str, int] = {
        Step.HOLD: row["amount"],
        Step.VERIFY: 0,
        Step.RELEASE: row["amount"] - row["fee"],
        Step.FEE: row["fee"],
    }
    expected = {step: amounts.get(step) for step in row.get("steps", ())}
    if "verdict" in row:  # a rejection is on record too, but is no step that the next one may build on
        if (row["verdict"] == KycDecision.APPROVED) != (Step.VERIFY in expected):
            return False
        expected[Step.VERIFY] = amounts[Step.VERIFY]
    forward = {step: amount for step, amount in steps.items() if step in set(Step)}
    return forward == expected and _reversals_agree(row.get("reversed", ()), amounts, steps)


def _reversals_agree(
    reversed_: Collection[str], amounts: Mapping[str, int], steps: Mapping[str, int]
) -> bool:
    """Return whether each reversed step has its entry or a write-off of its amount, and no other has any."""
    decided = [amount for name, amount in steps.items() if name.startswith("resolve:")]
    for step in REVERSIBLE:
        posted = steps.get(step.reversal)
        if step not in reversed_:
            agreed = not posted
        elif posted is None:
            agreed = amounts[step] in decided
        else:
            agreed = posted == amounts[step]
        if not agreed:
            return False
    return True


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
    }


def _read(all_rows: Iterable[Row], findings: Findings, posted: _Posted) -> list[Row]:
    """Add up the entries, and return the rows that hold a balance."""
    held = []
    for row in all_rows:
        kind, name = keys.subject(row)
        if kind == "ACCOUNT" or keys.is_settlement(row):
            held.append(row)
        elif kind in ("SETTLEMENT", "DEPOSIT"):
            findings.entries += 1
            if row.get("amount", 0) < 0:
                findings.faults.append(f"{row['pk']}: {row['sk']} moves less than nothing")
            if kind == "SETTLEMENT":
                posted.steps[name][row["step"]] = row.get("amount", 0)
            for account, change in changes(row):
                posted.sums[account, row["currency"]] += change
    return held


def _judge(findings: Findings, look_again: Callable[[Row], Look], row: Row, fault: str) -> Look:
    look = look_again({"pk": row["pk"], "sk": row["sk"]})
    if look is Look.AGREES:
        findings.in_flight += 1
    elif look is Look.DISAGREES:
        findings.faults.append(f"{row['pk']}: {fault}")
    else:
        findings.unproven.append(f"{row['pk']}: moved during every look; try again")
    return look


def _kind(account: str) -> str:
    return "customers" if model_accounts.is_customer(account) else account.partition(":")[0]


def _faults(row: Row) -> Iterator[str]:
    _, balance = balance_of(row)
    if balance < 0:
        yield f"{row['pk']}: is below zero: {balance} {row['currency']} (minor units)"
    status = row.get("status")
    if status in (Status.SETTLED, Status.REJECTED, Status.COMPENSATED) and balance != 0:
        yield f"{row['pk']}: is {status}, but holds {balance} {row['currency']} (minor units)"
    steps, reversed_ = set(row.get("steps", ())), set(row.get("reversed", ()))
    completed = row.get("resolution", {}).get("decision") == Decision.COMPLETE
    needed = {Step.HOLD, Step.VERIFY, Step.RELEASE} if completed else set(Step)
    if status == Status.SETTLED and not (needed <= steps and Step.RELEASE not in reversed_):
        yield f"{row['pk']}: is SETTLED, but only {sorted(steps - reversed_)} committed"
    if status == Status.COMPENSATED and reversed_ != steps & set(REVERSIBLE):
        yield f"{row['pk']}: is COMPENSATED, but of {sorted(steps)} only {sorted(reversed_)} is reversed"
