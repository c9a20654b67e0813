from settlement.core.model.verdict import CHECK


def decider(review: str | None) -> str:
    text = review or ""
    if text.startswith(CHECK):
        return f"the callback of the check {text.removeprefix(CHECK)}"
    return "the provider"
