"""A KYC provider's answer about a payment, as it goes on record."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The provider's decision, its own reference, and the reason it gives."""

    decision: str
    reference: str
    reason: str
    provider: str

    def evidence(self) -> dict[str, str]:
        """The verdict as the attributes of a journal entry."""
        return asdict(self)
