"""The saga's table: the steps in commit order, and their facts.

The state machines and the proof do not use this table. They state its rules again, and so reveal a wrong row.
See docs/internals/add-a-step.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from settlement.core.model.errors import KycUnavailable, SettlementError
from settlement.core.model.layout import FIRST, NEWEST

Party = Literal["payer", "payee", "escrow", "fees"]
"""A side of a movement. `escrow` is the settlement's account, `fees` the currency's."""


class Step(StrEnum):
    HOLD = "hold"
    VERIFY = "verify"
    RELEASE = "release"
    FEE = "fee"

    def previous(self, layout: int = NEWEST) -> "Step | None":
        order = list(Step)
        earlier = reversed(order[: order.index(self)])
        return next((step for step in earlier if SAGA[step].since <= layout), None)

    @property
    def reversal(self) -> str:
        return f"compensate:{self.value}"

    @property
    def slot(self) -> str:
        return f"{self.value}_at"

    @property
    def reversal_slot(self) -> str:
        return f"{self.value}_reversed_at"


class Movement(NamedTuple):
    """The money that a step moves.

    - `reversed_by`: the state of the compensating machine that reverses the step.
    - `reversed_event`: the event of the reversal.
    """

    debit: Party
    credit: Party
    amount: Literal["amount", "net", "fee"]
    reversed_by: str
    reversed_event: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts of a step.

    - `state`: the step's state in the state machine.
    - `event`: the event of the step's commit.
    - `decides`: the row's attribute for the step's decision. A refusal sets it and commits no step.
    - `cut_off`: the failure to report after the step ran out of time, memory or concurrency. None: the
      settlement waits for recovery.
    - `since`: the first row layout with the step.
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
"""Steps that move money, in the order of reversal."""
