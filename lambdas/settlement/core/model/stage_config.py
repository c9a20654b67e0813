import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta

from settlement.core.model.layout import FIRST


@dataclass(frozen=True, kw_only=True)
class StageConfig:
    """The stage's business rules. Money is in minor units.

    - `currencies`: each accepted code, with its exponent.
    - `highest_balances`: an account's highest balance. An unlisted currency has no limit.
    - `fee`: "schedule", or "client" if a request may name a fee between floor and ceiling.
    - `deadline_seconds`: the default of a request.
    - `idempotency_key`: "required", or "optional" while clients learn to mint keys.
    - `party_names`: "required" if the KYC provider screens by name.
    - `retention_days`: the age at which entries are deleted. None: never.
    - `shortest_retention_days`: the smallest `retention_days` ever.
    - `approvals`: the number of persons for each decision. An unlisted decision needs one.
    - `reverse_over`: a larger reversal needs two persons.
    - `row_layout`: the newest layout that functions write.
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
        return timedelta(seconds=self.deadline_seconds if requested_seconds is None else requested_seconds)

    @property
    def time_to_recover(self) -> timedelta:
        return timedelta(seconds=self.recover_after_seconds)

    def scheduled_fee(self, amount: int) -> int:
        """The fee in minor units, rounded down in favour of the payee."""
        return amount * self.fee_basis_points // 10_000

    def persons_for(self, decision: str, amount: int, currency: str) -> int:
        persons = self.approvals.get(decision, 1)
        is_large = decision == "reverse" and amount > self.reverse_over.get(currency, amount)
        return max(persons, 2) if is_large else persons

    def fee_bounds(self, amount: int) -> tuple[int, int]:
        """Lowest and highest fee of a first claim, in minor units."""
        if self.fee != "client":
            return self.scheduled_fee(amount), self.scheduled_fee(amount)
        floor, ceiling = self.fee_floor_basis_points, self.fee_ceiling_basis_points
        return amount * floor // 10_000, amount * ceiling // 10_000

    @classmethod
    def from_json(cls, text: str) -> "StageConfig":
        """Parse the configuration.

        Unknown fields are ignored: a deployment may set the next release's fields early.
        """
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in json.loads(text).items() if name in known})
