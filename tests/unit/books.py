"""A settlement and its two parties in a table in memory, brought to any point of its life in one call."""

from dataclasses import dataclass, replace
from datetime import timedelta

from settlement import compensation, items, limbo, reversals, rows, steps
from settlement.limbo import Case
from settlement.request import Settlement
from settlement.resolution import Decision
from settlement.rows import Row
from settlement.status import REVERSIBLE, Status, Step
from settlement.writes import Posting
from tests.conftest import NOW
from tests.unit.table import Table
from tests.unit.vectors import FAILURE, ORDER, RESOLVER, REVERSER, SETTLEMENT, TERMS, VERDICT, resolution

ERROR = {"step": "verify", "error": "DeadlineExceeded", "cause": "too late"}
LATER = NOW + timedelta(hours=1)
OPENING = 10**15
"""What each party has before: enough for any amount that there is."""


@dataclass(frozen=True)
class Books:
    """The table, and what its entries say."""

    table: Table
    settlement: Settlement

    def row(self) -> Row:
        row = self.table.read(rows.settlement_key(self.settlement.key))
        assert row is not None
        return row

    def account(self, name: str) -> Row:
        row = self.table.read(rows.account_key(name))
        assert row is not None
        return row

    def entries(self) -> list[Row]:
        return [row for row in self.table.rows() if "posted_at" in row]

    def moved(self) -> dict[str, int]:
        """What each account has gained by the entries; accounts that have gained nothing are left out."""
        balances: dict[str, int] = {}
        for entry in self.entries():
            amount = entry.get("amount", 0)
            for side, sign in (("debit", -1), ("credit", 1)):
                account = entry.get(side, "")
                balances[account] = balances.get(account, 0) + sign * amount
        return {account: change for account, change in balances.items() if change}

    def assert_consistent(self) -> None:
        """Every balance is what its entries say, and no money came into being."""
        moved = self.moved()
        assert sum(moved.values()) == 0
        for party in ("alice", "bob"):
            assert self.account(party)["available"] == OPENING + moved.get(party, 0)
        assert self.row()["escrow"] == moved.get(rows.escrow(self.settlement.key), 0) >= 0

    def undo(self, step: Step) -> Row | None:
        row = self.row()
        committed, reversed_ = sorted(row.get("steps", ())), sorted(row.get("reversed", ()))
        posting = compensation.undo(self.settlement, step, committed, reversed_, LATER)
        return self.table.post(posting) if posting else None

    def stick(self, step: Step) -> Case:
        """Give up on the reversal of a step."""
        case = compensation.case_of(self.settlement, self.row(), step)
        self.table.post(compensation.enter_limbo(self.settlement, case, FAILURE, LATER))
        return case

    def resolve(self, decision: Decision) -> Row:
        row = self.row()
        compensation.check(self.settlement, row, decision)
        case = compensation.stuck(self.settlement, row)
        return self.table.post(
            compensation.resolve(self.settlement, case, resolution(decision), RESOLVER, LATER, TERMS)
        )

    def finish(self) -> None:
        for step in REVERSIBLE:
            self.undo(step)

    def bytes(self) -> str:
        """All there is, to see that nothing has changed."""
        return repr(sorted(self.table.rows(), key=lambda row: (row["pk"], row["sk"])))


def forward(settlement: Settlement) -> dict[Step, Posting]:
    return {
        Step.HOLD: steps.hold(settlement, NOW),
        Step.VERIFY: steps.verify(settlement, VERDICT, NOW),
        Step.RELEASE: steps.release(settlement, replace(TERMS, highest_balances={}), NOW),
        Step.FEE: steps.fee(settlement, NOW),
    }


def claimed(committed: int, settlement: Settlement = SETTLEMENT) -> Books:
    """A settlement of which the first so many steps have committed."""
    parties = [items.open_account(name, settlement.currency, OPENING) for name in ("alice", "bob")]
    books = Books(Table(dict(each.parameters["Item"]) for each in parties), settlement)
    books.table.write(items.claim(settlement, "execution", NOW, TERMS))
    for step in list(Step)[:committed]:
        books.table.post(forward(settlement)[step])
    return books


def compensating(committed: int, settlement: Settlement = SETTLEMENT) -> Books:
    """The same, whose reversal has begun: by a failure, or where it has settled, by a person's order."""
    books = claimed(committed, settlement)
    if books.row()["status"] == Status.SETTLED:
        books.table.post(compensation.requested(settlement, ORDER, LATER, TERMS))
    else:
        books.table.write(reversals.begin(settlement, ERROR, owner=None, execution=REVERSER))
    return books


def in_limbo(committed: int, stuck: Step, settlement: Settlement = SETTLEMENT) -> Books:
    """The same, whose reversal of the step `stuck` got stuck."""
    books = compensating(committed, settlement)
    for step in REVERSIBLE[: REVERSIBLE.index(stuck)]:
        books.undo(step)
    books.stick(stuck)
    return books


def waiting(books: Books, token: str = "token-1") -> None:
    """Let an execution wait for the decision."""
    books.table.write(limbo.await_decision(books.settlement, token, "arn:execution"))
