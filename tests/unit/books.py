"""A settlement and its two parties in a table in memory, brought to any point of its life in one call."""

from dataclasses import dataclass, replace
from datetime import timedelta

from settlement.ledger import balances as ledger_balances
from settlement.ledger import forward as ledger_forward
from settlement.ledger import keys, limbo, reversal
from settlement.ledger.keys import Row
from settlement.ledger.transaction import StepTransaction
from settlement.model import accounts
from settlement.model.case import Case
from settlement.model.orders import Decision
from settlement.model.settlement import Settlement
from settlement.model.state import SettlementState
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.policy import compensation, steps
from tests.conftest import NOW
from tests.unit.table import Table
from tests.unit.vectors import CONFIG, FAILURE, ORDER, RESOLVER, REVERSER, SETTLEMENT, VERDICT, resolution

ERROR = {"step": "verify", "error": "DeadlineExceeded", "cause": "too late"}
LATER = NOW + timedelta(hours=1)
OPENING = 10**15
"""The initial balance of each party: enough for every amount."""


@dataclass(frozen=True)
class Books:
    """The table, and the sums of its entries."""

    table: Table
    settlement: Settlement

    def row(self) -> Row:
        row = self.table.read(keys.settlement(self.settlement.key))
        assert row is not None
        return row

    def state(self) -> SettlementState:
        return SettlementState.from_row(self.row())

    def account(self, name: str) -> Row:
        row = self.table.read(keys.account(name))
        assert row is not None
        return row

    def entries(self) -> list[Row]:
        return [row for row in self.table.rows() if "posted_at" in row]

    def moved(self) -> dict[str, int]:
        """Return the change of each account by its entries; unchanged accounts are left out."""
        balances: dict[str, int] = {}
        for entry in self.entries():
            amount = entry.get("amount", 0)
            for side, sign in (("debit", -1), ("credit", 1)):
                account = entry.get(side, "")
                balances[account] = balances.get(account, 0) + sign * amount
        return {account: change for account, change in balances.items() if change}

    def assert_consistent(self) -> None:
        """Check that every balance equals the sum of its entries, and that no money was created."""
        moved = self.moved()
        assert sum(moved.values()) == 0
        for party in ("alice", "bob"):
            assert self.account(party)["available"] == OPENING + moved.get(party, 0)
        assert self.row()["escrow"] == moved.get(accounts.escrow(self.settlement.key), 0) >= 0

    def reverse(self, step: Step) -> Row | None:
        state = self.state()
        transaction = compensation.reverse_step(
            self.settlement, step, sorted(state.steps), sorted(state.reversed), LATER
        )
        return self.table.commit(transaction) if transaction else None

    def stick(self, step: Step) -> Case:
        """Put the settlement into LIMBO because the reversal of a step is stuck."""
        case = compensation.case_of(self.state(), step)
        self.table.commit(compensation.enter_limbo(self.settlement, case, FAILURE, LATER))
        return case

    def resolve(self, decision: Decision) -> Row:
        state = self.state()
        compensation.ensure_can_resolve(state, decision)
        case = compensation.stuck_case(state)
        return self.table.commit(
            compensation.resolve(self.settlement, case, resolution(decision), RESOLVER, LATER, CONFIG)
        )

    def finish(self) -> None:
        for step in REVERSIBLE:
            self.reverse(step)

    def bytes(self) -> str:
        """Return the content of the table, to check that nothing has changed."""
        return repr(sorted(self.table.rows(), key=lambda row: (row["pk"], row["sk"])))


def forward(settlement: Settlement) -> dict[Step, StepTransaction]:
    return {
        Step.HOLD: steps.hold(settlement, NOW),
        Step.VERIFY: steps.verify(settlement, VERDICT, NOW),
        Step.RELEASE: steps.release(settlement, replace(CONFIG, highest_balances={}), NOW),
        Step.FEE: steps.fee(settlement, NOW),
    }


def claimed(committed: int, settlement: Settlement = SETTLEMENT) -> Books:
    """Return a settlement whose first `committed` steps have committed."""
    parties = [ledger_balances.open_account(name, settlement.currency, OPENING) for name in ("alice", "bob")]
    books = Books(Table(dict(each.parameters["Item"]) for each in parties), settlement)
    books.table.write(ledger_forward.claim(settlement, "execution", NOW, CONFIG))
    for step in list(Step)[:committed]:
        books.table.commit(forward(settlement)[step])
    return books


def compensating(committed: int, settlement: Settlement = SETTLEMENT) -> Books:
    """Return such a settlement whose reversal has begun: on an order if it has settled, else by a failure."""
    books = claimed(committed, settlement)
    if books.row()["status"] == Status.SETTLED:
        books.table.commit(compensation.reverse_on_order(settlement, ORDER, LATER, CONFIG))
    else:
        books.table.write(reversal.begin(settlement, ERROR, owner=None, execution=REVERSER))
    return books


def in_limbo(committed: int, stuck: Step, settlement: Settlement = SETTLEMENT) -> Books:
    """Return such a settlement whose reversal of the step `stuck` is stuck."""
    books = compensating(committed, settlement)
    for step in REVERSIBLE[: REVERSIBLE.index(stuck)]:
        books.reverse(step)
    books.stick(stuck)
    return books


def waiting(books: Books, token: str = "token-1") -> None:
    """Record an execution that waits for the decision."""
    books.table.write(limbo.await_decision(books.settlement, token, "arn:execution"))
