"""A payment, in canonical form."""

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
"""The names of the parties: personal data, for a KYC provider that screens by name."""

LABELS = ("reference", "metadata")
"""The caller's own words about a payment: the stage passes them on, in each outcome, and reads none."""

OPTIONAL = ("deadline_seconds", *NAMES, *LABELS)
"""The fields in the hash of a request that has them. Others keep the hash that they had without these."""

_HASHED = ("key", "payer", "payee", "amount", "currency", "fee")
"""The fields in every hash. Fixed for ever, even if `FIELDS` grows: rows in flight carry old hashes."""

FIELDS = (*_HASHED, *OPTIONAL)
"""The fields of a request, and of a settlement on its way from one state to the next."""

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def hash_of(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a request's content: the fields that it has, in canonical form."""
    return hashlib.sha256(_CANONICAL.encode(content).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """One payment. `amount` and `fee` are minor units of `currency`.

    `deadline_seconds` is the time to settle that the request names; None leaves it to the stage.
    The names and the caller's own words are not in its `repr`, so that no log line or error shows them.
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
        """The amount that the payee receives, in minor units: the fee is withheld."""
        return self.amount - self.fee

    @cached_property
    def request_hash(self) -> str:
        """The SHA-256 of the canonical content: equal requests have equal hashes, however they are written.

        A field that is added later must not change the hash of requests without it.
        """
        content = {name: getattr(self, name) for name in _HASHED}
        content |= {name: value for name in OPTIONAL if (value := getattr(self, name)) is not None}
        return hash_of(content)

    @property
    def labels(self) -> dict[str, Any]:
        """The caller's own words, as outcomes have them: those that the request has."""
        return {name: value for name in LABELS if (value := getattr(self, name)) is not None}

    def to_row(self) -> dict[str, Any]:
        """Return the request's attributes of the settlement's row, except the key, which is the row's own."""
        content = self._content() | {"request_hash": self.request_hash}
        del content["key"]
        return content

    def exponent(self, config: StageConfig) -> int:
        """Return the decimals of the currency. Raises MalformedRow if the stage does not have it."""
        return exponent_of(f"SETTLEMENT#{self.key}", self.currency, config)

    def to_wire(self, config: StageConfig) -> dict[str, Any]:
        """Return the settlement as the state machines carry it: in the request's form, fee included."""
        exponent = self.exponent(config)
        return self._content() | {
            "amount": money.render(self.amount, exponent),
            "fee": money.render(self.fee, exponent),
        }

    def _content(self) -> dict[str, Any]:
        return {name: value for name in FIELDS if (value := getattr(self, name)) is not None}
