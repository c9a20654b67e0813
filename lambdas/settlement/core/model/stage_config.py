"""The stage's rules of business, which the deployment passes to every function."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta

from settlement.core.model.layout import FIRST


@dataclass(frozen=True, kw_only=True)
class StageConfig:
    """The currencies, fees, limits and times of a stage.

    `currencies` maps each accepted currency or asset to its exponent; `highest_balances` maps one to the most
    that an account may hold, in minor units (absent: no bound).
    `fee` is "schedule" if the stage alone sets a fee, "client" if a request may, between floor and ceiling.
    `deadline_seconds` is the time to settle of a request that names none. `idempotency_key` is "required",
    or "optional" while clients learn to mint keys. `party_names` is "required" on a stage whose KYC provider
    screens by name, else "optional".
    An entry is deleted `retention_days` after it was posted; None keeps it for ever. The shortest time that
    entries of the stage were ever given is `shortest_retention_days`.
    `approvals` maps a decision to the number of persons that it needs (absent: one). A reversal of more than
    `reverse_over` in its currency (minor units) needs two.
    `row_layout` is the newest layout of a settlement's row that the functions write.
    """

    currencies: Mapping[str, int]
    highest_balances: Mapping[str, int]
    fee_basis_points: int
    deadline_seconds: int
    recover_after_seconds: int
    fee: str = "schedule"
    fee_floor_basis_points: int = 0
    fee_ceiling_basis_points: int = 0
    idempotency_key: str = "required"
    party_names: str = "optional"
    retention_days: int | None = None
    shortest_retention_days: int | None = None
    approvals: Mapping[str, int] = field(default_factory=dict)
    reverse_over: Mapping[str, int] = field(default_factory=dict)
    row_layout: int = FIRST

    def time_to_settle(self, requested_seconds: int | None) -> timedelta:
        """Return the time to settle that the request names, or else the stage's."""
        return timedelta(seconds=self.deadline_seconds if requested_seconds is None else requested_seconds)

    @property
    def time_to_recover(self) -> timedelta:
        """The time that an execution has before recovery looks at its settlement."""
        return timedelta(seconds=self.recover_after_seconds)

    def scheduled_fee(self, amount: int) -> int:
        """Return the fee of a request that names none: the stage's basis points of `amount` (minor units).

        Rounded down, in favour of the payee, from whose amount it is withheld.
        """
        return amount * self.fee_basis_points // 10_000

    def persons_for(self, decision: str, amount: int, currency: str) -> int:
        """Return how many persons a decision needs, on a settlement of this amount (minor units)."""
        persons = self.approvals.get(decision, 1)
        is_large = decision == "reverse" and amount > self.reverse_over.get(currency, amount)
        return max(persons, 2) if is_large else persons

    def fee_bounds(self, amount: int) -> tuple[int, int]:
        """Return the lowest and the highest fee that a first claim may name, in minor units, rounded down."""
        if self.fee != "client":
            return self.scheduled_fee(amount), self.scheduled_fee(amount)
        floor, ceiling = self.fee_floor_basis_points, self.fee_ceiling_basis_points
        return amount * floor // 10_000, amount * ceiling // 10_000

    @classmethod
    def from_json(cls, text: str) -> "StageConfig":
        """Return the configuration in a function's environment or a stack's output.

        Unknown fields are ignored: during a deployment they may be those of the next release.
        """
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in json.loads(text).items() if name in known})
