"""The stage's terms of business, which the deployment hands to every function."""

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the stage accepts and charges.

    `currencies` maps each accepted currency to its exponent (ISO 4217); `highest_balances` maps a
    currency to the most that an account may hold, in minor units (absent: no bound).
    """

    currencies: Mapping[str, int]
    highest_balances: Mapping[str, int]
    fee_basis_points: int
    deadline_seconds: int
    recover_after_seconds: int

    def scheduled_fee(self, amount: int) -> int:
        """The fee of a request that names none: the stage's basis points of the amount (minor units).

        Rounded down, in favour of the payee, from whose amount it is withheld.
        """
        return amount * self.fee_basis_points // 10_000

    @classmethod
    def from_json(cls, text: str) -> "Terms":
        """The terms as the deployment wrote them into a function's environment or a stack's output."""
        return cls(**json.loads(text))
