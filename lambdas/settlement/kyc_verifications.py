"""How to ask a provider that speaks this project's own contract, `docs/contracts/kyc.openapi.yaml`."""

from typing import Any

from settlement import money
from settlement.request import Settlement
from settlement.terms import Terms
from settlement.verdict import Verdict, parse_verdict

NAME = "verifications"


def path(dataset: str) -> str:
    """Where to post, below the provider's address. This provider has no datasets."""
    return "/verifications"


def authorization(api_key: str) -> str:
    """The header that proves who asks."""
    return f"Bearer {api_key}"


def body(settlement: Settlement, terms: Terms) -> dict[str, Any]:
    """What the provider is told of a payment."""
    return {
        "payer": settlement.payer,
        "payee": settlement.payee,
        "amount": money.render(settlement.amount, terms.currencies[settlement.currency]),
        "currency": settlement.currency,
    }


def read(content: object, settlement: Settlement) -> Verdict:
    """The verdict in an answer. Raises ValueError where it is none."""
    if not isinstance(content, dict):
        raise ValueError("body: must be a JSON object")
    return parse_verdict(content, NAME)
