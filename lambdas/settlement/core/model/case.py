"""A case of LIMBO: one stuck reversal of one settlement."""

from dataclasses import dataclass

from settlement.core.model.status import Step


@dataclass(frozen=True, kw_only=True)
class Case:
    """A stuck reversal of `step`, which should move `amount` (minor units).

    `account` is the party that blocks it: the one to pay back, or for a hold the one to receive.
    `blocked_account` is the customer who places no holds meanwhile; None if `account` is internal or gone.
    `number` counts the settlement's cases from 1.
    `escrow` is the balance of the settlement's escrow meanwhile (minor units).
    `covered` are the steps whose reversal the losses have covered in earlier cases.
    `done` means that the step is already reversed, but its function keeps failing.
    """

    step: Step
    account: str
    blocked_account: str | None
    amount: int
    number: int
    escrow: int
    covered: frozenset[str] = frozenset()
    done: bool = False
