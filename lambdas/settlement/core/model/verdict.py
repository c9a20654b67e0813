"""A KYC provider's verdict on a payment, as it goes on record."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

REFERENCE = re.compile(r"[A-Za-z0-9_.:-]{1,100}", re.ASCII)
"""The provider's own name for a verification. It may be logged, so it must not be free text."""

REASON_LENGTH_MAX = 500
"""Most characters of a provider's reason on record. It may hold personal data, and is never logged."""


class KycDecision(StrEnum):
    """A provider's decision. REVIEW is no verdict yet: a reviewer decides, and a webhook reports it."""

    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    REVIEW = "REVIEW"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The provider's decision, its own reference, and its reason."""

    decision: KycDecision
    reference: str
    reason: str
    provider: str

    @classmethod
    def on_record(cls, evidence: Mapping[str, Any]) -> "Verdict":
        """Return the verdict of its evidence."""
        return cls(
            decision=KycDecision(evidence["decision"]),
            **{name: evidence[name] for name in ("reference", "reason", "provider")},
        )

    def evidence(self) -> dict[str, str]:
        """Return the verdict as the attributes of a journal entry."""
        return asdict(self)


def parse_verdict(content: Mapping[str, Any], provider: str) -> Verdict:
    """Check `decision`, `reference` and `reason` (optional). Raises ValueError, naming the field at fault."""
    decision, reference = content.get("decision"), content.get("reference")
    if decision not in list(KycDecision):
        raise ValueError(f"decision: must be one of {', '.join(KycDecision)}")
    if not (isinstance(reference, str) and REFERENCE.fullmatch(reference)):
        raise ValueError(f"reference: must be a string that matches ^{REFERENCE.pattern}$")
    reason = content.get("reason", "")
    if not isinstance(reason, str):
        raise ValueError("reason: must be a string")
    return Verdict(
        decision=KycDecision(decision), reference=reference, reason=printable(reason), provider=provider
    )


def printable(text: str) -> str:
    """Return a provider's text without control characters, cut to the length that goes on record."""
    return "".join(char if char.isprintable() else " " for char in text[:REASON_LENGTH_MAX])
