from dataclasses import dataclass

from settlement.core.model.status import Step


@dataclass(frozen=True, kw_only=True)
class Case:
    """A LIMBO case: the reversal of `step` is stuck. Money is in minor units.

    - `account`: the party that must pay back. If the hold is stuck: the party that must receive.
    - `blocked_account`: the customer who places no holds meanwhile. None: `account` is internal or deleted.
    - `amount`: the stuck amount.
    - `number`: counts from 1.
    - `escrow`: the escrow's balance.
    - `covered`: the steps that losses paid.
    - `done`: the step is reversed, but the reversal's function keeps failing.
    """

    step: Step
    account: str
    blocked_account: str | None
    amount: int
    number: int
    escrow: int
    covered: frozenset[str] = frozenset()
    done: bool = False
