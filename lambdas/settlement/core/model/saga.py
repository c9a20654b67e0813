"""The saga as one table: the steps in the order in which they commit, and the facts of each.

The functions, the events and `settle` read it. The state machines and the proof (`proof/`) state their own
rules, so that a wrong row of this table shows there. See docs/internals/add-a-step.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from settlement.core.model.errors import KycUnavailable, SettlementError
from settlement.core.model.layout import FIRST, NEWEST

Party = Literal["payer", "payee", "escrow", "fees"]
"""An account of a movement; the last two are the settlement's escrow, and the fees of its currency."""


class Step(StrEnum):
    """The forward steps, in the order in which they commit."""

    HOLD = "hold"
    VERIFY = "verify"
    RELEASE = "release"
    FEE = "fee"

    def previous(self, layout: int = NEWEST) -> "Step | None":
        """The step that must have committed before this one in a row of this layout; None for the first."""
        order = list(Step)
        earlier = reversed(order[: order.index(self)])
        return next((step for step in earlier if SAGA[step].since <= layout), None)

    @property
    def reversal(self) -> str:
        """The name of the journal entry that reverses this step."""
        return f"compensate:{self.value}"

    @property
    def slot(self) -> str:
        """The attribute of the settlement's row with the time at which this step committed."""
        return f"{self.value}_at"

    @property
    def reversal_slot(self) -> str:
        """The attribute of the settlement's row with the time at which this step was reversed."""
        return f"{self.value}_reversed_at"


class Movement(NamedTuple):
    """The accounts and the amount (minor units) that a step moves, and how its reversal is called.

    `reversed_by` is a state of the compensating machine, `reversed_event` the event of its commit.
    """

    debit: Party
    credit: Party
    amount: Literal["amount", "net", "fee"]
    reversed_by: str
    reversed_event: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts of a step. `state` is its state of the settlement's machine, `event` that of its commit.

    `decides` is the attribute of the row with its decision, which a refusal sets without a commit.
    `cut_off` is the error, with its cause, of a settlement that is reversed because the step ran out of time,
    memory or concurrency; without one, the settlement waits for recovery.
    `since` is the row layout from which on settlements take the step: rows of earlier ones go without it.
    """

    state: str
    event: str
    moves: Movement | None = None
    decides: str | None = None
    has_deadline: bool = True
    cut_off: tuple[type[SettlementError], str] | None = None
    since: int = FIRST


SAGA: Mapping[Step, Facts] = {
    Step.HOLD: Facts(
        state="HoldFunds",
        event="held",
        moves=Movement("payer", "escrow", "amount", "VoidHold", "compensated"),
    ),
    Step.VERIFY: Facts(
        state="VerifyKyc",
        event="verified",
        decides="verdict",
        cut_off=(KycUnavailable, "kyc: no verdict in time"),
    ),
    Step.RELEASE: Facts(
        state="ReleaseFunds",
        event="released",
        moves=Movement("escrow", "payee", "net", "ReclaimFunds", "reclaimed"),
    ),
    Step.FEE: Facts(
        state="CollectFee",
        event="settled",
        moves=Movement("escrow", "fees", "fee", "RefundFee", "fee_refunded"),
        has_deadline=False,
    ),
}

REVERSIBLE = tuple(step for step in reversed(Step) if SAGA[step].moves)
"""The steps that move money, in the order of their reversal."""
