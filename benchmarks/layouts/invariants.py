"""The rules that every history keeps, checked after each write."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from benchmarks.layouts.payment import FEES, FORWARD, Payment, movement
from benchmarks.layouts.writes import Key, Row, Table

IN_FLIGHT = ("PROCESSING", "COMPENSATING")
MONEY_STEPS = (*FORWARD, *(f"compensate:{step}" for step in FORWARD))


class Broken(Exception):
    """A history has broken a rule."""


class Readable(Protocol):
    """What the rules ask of a layout."""

    def view(self, rows: dict[Key, Row], payment: Payment) -> Row | None: ...  # noqa: D102

    def decision(self, rows: dict[Key, Row], payment: Payment) -> str | None: ...  # noqa: D102

    def statement(self, entry: Row) -> str: ...  # noqa: D102


def demand(holds: Any, rule: str) -> None:
    """Raise Broken with the rule's name unless it holds."""
    if not holds:
        raise Broken(rule)


class Books:
    """The books of one history, and each settlement's steps at its fence."""

    def __init__(self, layout: Readable, table: Table, payments: Sequence[Payment], money: int) -> None:
        self._layout = layout
        self._table = table
        self._payments = payments
        self._money = money
        self._at_the_fence: dict[str, dict[str, Any]] = {}

    def check(self) -> None:
        """Check the rules that hold after each write."""
        rows = self._table.rows
        entries = [row for row in rows.values() if "debit" in row]
        accounts, statements = Counter[str](), Counter[str]()
        steps: dict[str, Row] = {}
        for row in entries:
            accounts[row["debit"]] -= row["amount"]
            accounts[row["credit"]] += row["amount"]
            sign = 1 if row["side"] == "credit" else -1
            if row["debit"] == FEES or row["credit"] == FEES:
                sign = 1 if row["credit"] == FEES else -1
            statements[self._layout.statement(row)] += sign * row["amount"]
            if row["step"] != "deposit":
                escrow = row["credit" if row["credit"].startswith("escrow:") else "debit"]
                name = f"{escrow[7:]}:{row['step']}"
                demand(name not in steps, "each step at most once")
                steps[name] = row
        available = 0
        for row in rows.values():
            if row["sk"] == "BALANCE":
                account, balance = row["pk"][8:], row["available"]
                available += balance
                demand(balance >= 0, "no balance below zero")
                demand(balance == statements[account] == accounts[account], "a statement equals its balance")
        escrows = sum(self._check_settlement(rows, steps, payment, accounts) for payment in self._payments)
        demand(available + escrows + statements[FEES] == self._money, "money is conserved")

    def _check_settlement(
        self, rows: dict[Key, Row], steps: dict[str, Row], payment: Payment, accounts: Counter[str]
    ) -> int:
        """Check one settlement against its entries; return its escrow."""
        key, state = payment.key, self._layout.view(rows, payment)
        escrow = accounts[f"escrow:{key}"]
        if state is None:
            demand(not any(f"{key}:{step}" in steps for step in MONEY_STEPS), "an entry has its settlement")
            return 0
        for step in MONEY_STEPS:
            done = step.removeprefix("compensate:")
            slot = f"{done}_at" if done == step else f"{done}_reversed_at"
            entry = steps.get(f"{key}:{step}")
            demand((slot in state) == (entry is not None), "an entry is explained by its settlement")
            if entry is not None:
                demand(entry["posted_at"] == state[slot], "an entry is explained by its settlement")
                moved = (entry["debit"], entry["credit"], entry["amount"])
                demand(moved == movement(payment, step), "an entry is explained by its settlement")
        status, told = state["status"], state.get("escrow", escrow)
        demand(told == escrow >= 0, "the escrow is the sum of its entries")
        decision = self._layout.decision(rows, payment)
        if "verdict" in state:
            demand(decision in (None, state["verdict"]), "the row has the verdict of the evidence")
        if "release_at" in state:
            demand(decision == "APPROVED", "only an approved payment is released")
        if status in IN_FLIGHT:
            demand("gsi1pk" in state or ("IN_FLIGHT#2", key) in rows, "a settlement in flight is listed")
        self._check_fence(key, state)
        if status == "REJECTED":
            demand(not any(f"{key}:{step}" in steps for step in MONEY_STEPS), "a refused one moves nothing")
        if status == "SETTLED":
            demand(all(f"{step}_at" in state for step in FORWARD) and escrow == 0, "a settled one is paid")
        if status == "COMPENSATED":
            reversed_ = all(f"{step}_reversed_at" in state for step in FORWARD if f"{step}_at" in state)
            demand(reversed_ and escrow == 0, "a compensated one is given back")
        return told if isinstance(told, int) else 0

    def _check_fence(self, key: str, state: Row) -> None:
        forward = {name: state.get(name) for name in ("hold_at", "verdict", "release_at", "fee_at")}
        if state["status"] in ("PROCESSING", "SETTLED"):
            demand(key not in self._at_the_fence, "no forward step after the fence")
        elif key in self._at_the_fence:
            demand(forward == self._at_the_fence[key], "no forward step after the fence")
        else:
            self._at_the_fence[key] = forward

    def check_finished(self) -> None:
        """Check that recovery leaves no settlement in flight, unless a payee cannot give back."""
        for payment in self._payments:
            state = self._layout.view(self._table.rows, payment)
            if state and "verdict" in state:
                demand(self._layout.decision(self._table.rows, payment), "a verdict has its evidence")
            if state is None or state["status"] not in IN_FLIGHT:
                continue
            payee = self._table.rows[(f"ACCOUNT#{payment.payee}", "BALANCE")]
            stuck = "release_at" in state and "release_reversed_at" not in state
            stuck = stuck and state["status"] == "COMPENSATING" and payee["available"] < payment.net
            demand(stuck, "recovery finishes what it finds")
