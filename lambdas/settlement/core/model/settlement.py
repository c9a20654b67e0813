import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from settlement.core.model import money
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import exponent_of

NAMES = ("payer_name", "payee_name")
"""The parties' names. They are personal data, for a KYC provider that screens by name."""

LABELS = ("reference", "metadata")
"""The caller's own words. The saga passes them on in outcomes and never reads them."""

OPTIONAL = ("deadline_seconds", *NAMES, *LABELS)
"""Fields hashed only if present, so a new field does not change older requests' hashes."""

_HASHED = ("key", "payer", "payee", "amount", "currency", "fee")
"""Fields hashed in every request. Never change this list, because rows keep their old hashes."""

FIELDS = (*_HASHED, *OPTIONAL)

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def hash_of(content: dict[str, Any]) -> str:
    return hashlib.sha256(_CANONICAL.encode(content).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """One payment.

    `amount` and `fee` are minor units of `currency`. `deadline_seconds` is None for the stage's default. Log
    lines use `repr`, which omits names and the caller's words.
    """

    key: str
    payer: str
    payee: str
    amount: int
    currency: str
    fee: int
    deadline_seconds: int | None = None
    payer_name: str | None = field(default=None, repr=False)
    payee_name: str | None = field(default=None, repr=False)
    reference: str | None = field(default=None, repr=False)
    metadata: Mapping[str, str] | None = field(default=None, repr=False, hash=False)

    @property
    def net(self) -> int:
        """The amount for the payee, in minor units."""
        return self.amount - self.fee

    @cached_property
    def request_hash(self) -> str:
        content = {name: getattr(self, name) for name in _HASHED}
        content |= {name: value for name in OPTIONAL if (value := getattr(self, name)) is not None}
        return hash_of(content)

    @property
    def labels(self) -> dict[str, Any]:
        return {name: value for name in LABELS if (value := getattr(self, name)) is not None}

    def to_row(self) -> dict[str, Any]:
        content = self._content() | {"request_hash": self.request_hash}
        del content["key"]
        return content

    def exponent(self, config: StageConfig) -> int:
        return exponent_of(f"SETTLEMENT#{self.key}", self.currency, config)

    def to_wire(self, config: StageConfig) -> dict[str, Any]:
        """The settlement as the state machines' JSON, with its fee."""
        exponent = self.exponent(config)
        return self._content() | {
            "amount": money.render(self.amount, exponent),
            "fee": money.render(self.fee, exponent),
        }

    def _content(self) -> dict[str, Any]:
        return {name: value for name in FIELDS if (value := getattr(self, name)) is not None}
