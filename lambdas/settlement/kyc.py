"""Who may pay whom: the source of the verdict that VerifyKyc records."""

from settlement.request import Settlement
from settlement.verdict import Verdict


def decide(settlement: Settlement) -> Verdict:
    """Approve every payment, and say in the evidence that nobody was asked: no provider is connected yet."""
    return Verdict(
        decision="APPROVED",
        reference=f"{settlement.key}:verify",
        reason="approved without asking: no KYC provider is connected",
        provider="placeholder",
    )
