import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

REFERENCE = re.compile(r"[A-Za-z0-9_.:-]{1,100}", re.ASCII)
"""The provider's name for a verification. It has no free text, so logs may show it."""

CHECK = "check:"
"""Prefix of the reference when a settlement waits for a stage's check. No provider may use it."""

REASON_LENGTH_MAX = 500
"""Maximum characters of a reason. A reason may hold personal data, so it is never logged."""


class KycDecision(StrEnum):
    """The provider's decision. REVIEW is not final: a reviewer decides, and a webhook reports the verdict."""

    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    REVIEW = "REVIEW"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    decision: KycDecision
    reference: str
    reason: str
    provider: str

    @classmethod
    def on_record(cls, evidence: Mapping[str, Any]) -> "Verdict":
        return cls(
            decision=KycDecision(evidence["decision"]),
            **{name: evidence[name] for name in ("reference", "reason", "provider")},
        )

    def evidence(self) -> dict[str, str]:
        return asdict(self)


def parse_verdict(content: Mapping[str, Any], provider: str) -> Verdict:
    """Parse a provider's verdict. Raises ValueError, naming the faulty field."""
    decision, reference = content.get("decision"), content.get("reference")
    if decision not in list(KycDecision):
        raise ValueError(f"decision: must be one of {', '.join(KycDecision)}")
    if not (isinstance(reference, str) and REFERENCE.fullmatch(reference)):
        raise ValueError(f"reference: must be a string that matches ^{REFERENCE.pattern}$")
    if reference.startswith(CHECK):
        raise ValueError(f"reference: {CHECK} begins only the names of the stage's checks")
    reason = content.get("reason", "")
    if not isinstance(reason, str):
        raise ValueError("reason: must be a string")
    return Verdict(
        decision=KycDecision(decision), reference=reference, reason=printable(reason), provider=provider
    )


def printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:REASON_LENGTH_MAX])
