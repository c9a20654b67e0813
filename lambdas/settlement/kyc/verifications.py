"""A KYC provider that speaks this project's own contract, `docs/contracts/kyc.openapi.yaml`."""

from typing import Any

from settlement.core.model import money
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.verdict import Verdict, parse_verdict

NAME = "verifications"


def path(dataset: str) -> str:
    """Return the path below the provider's address. This provider has no datasets."""
    return "/verifications"


def authorization(api_key: str) -> str:
    """Return the header that proves the caller's identity."""
    return f"Bearer {api_key}"


def body(settlement: Settlement, config: StageConfig) -> dict[str, Any]:
    """Return the question about a payment."""
    return {
        "payer": settlement.payer,
        "payee": settlement.payee,
        "amount": money.render(settlement.amount, settlement.exponent(config)),
        "currency": settlement.currency,
    }


def read(content: object, settlement: Settlement) -> Verdict:
    """Return the verdict of an answer. Raises ValueError for a malformed one."""
    if not isinstance(content, dict):
        raise ValueError("body: must be a JSON object")
    return parse_verdict(content, NAME)
