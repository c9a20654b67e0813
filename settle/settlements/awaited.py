from settlement.core.model.verdict import CHECK


def decider(review: str | None) -> str:
    """Return who ends a review: the KYC provider, or the sender of a check's callback."""
    text = review or ""
    if text.startswith(CHECK):
        return f"the callback of the check {text.removeprefix(CHECK)}"
    return "the provider"
