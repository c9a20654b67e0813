"""The stage's terms of business, which the deployment hands to every function."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass


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

        Rounded down, so the payer is never charged more than the rate.
        """
        return amount * self.fee_basis_points // 10_000

    def to_json(self) -> str:
        """The form in which the terms travel in a function's environment and in a stack's output."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Terms":
        """The inverse of `to_json`."""
        return cls(**json.loads(text))
