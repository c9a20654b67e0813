"""The stage's terms of business, which the deployment hands to every function."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the stage accepts and charges.

    `currencies` maps each accepted currency to its exponent (ISO 4217); `highest_balances` maps a
    currency to the most that an account may hold, in minor units (absent: no bound).
    `deadline_seconds` is the time to settle of a request that names none. `idempotency_key` is "required",
    or "optional" while clients learn to mint keys.
    """

    currencies: Mapping[str, int]
    highest_balances: Mapping[str, int]
    fee_basis_points: int
    deadline_seconds: int
    recover_after_seconds: int
    idempotency_key: str = "required"

    def time_to_settle(self, requested_seconds: int | None) -> timedelta:
        """How long a settlement may take, by its request or else by the stage."""
        return timedelta(seconds=self.deadline_seconds if requested_seconds is None else requested_seconds)

    @property
    def time_to_recover(self) -> timedelta:
        """How long an execution may drive a settlement before recovery looks whether it still does."""
        return timedelta(seconds=self.recover_after_seconds)

    def scheduled_fee(self, amount: int) -> int:
        """The fee of a request that names none: the stage's basis points of the amount (minor units).

        Rounded down, in favour of the payee, from whose amount it is withheld.
        """
        return amount * self.fee_basis_points // 10_000

    @classmethod
    def from_json(cls, text: str) -> "Terms":
        """The terms as the deployment wrote them into a function's environment or a stack's output.

        While a deployment is under way, they may be those of the next release, and say more.
        """
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in json.loads(text).items() if name in known})
