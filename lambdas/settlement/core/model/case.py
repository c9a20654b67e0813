from dataclasses import dataclass

from settlement.core.model.status import Step


@dataclass(frozen=True, kw_only=True)
class Case:
    """A LIMBO case: a stuck reversal of `step`, of `amount` (minor units).

    `account` is the party to pay back or, if the hold is stuck, to receive. `blocked_account` is the customer
    who meanwhile places no holds; None if `account` is internal or deleted. `number` counts from 1. `escrow`
    is the escrow's balance (minor units). `covered` are the steps paid by losses. `done`: the step is
    reversed, but the reversal's function keeps failing.
    """

    step: Step
    account: str
    blocked_account: str | None
    amount: int
    number: int
    escrow: int
    covered: frozenset[str] = frozenset()
    done: bool = False
