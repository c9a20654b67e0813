"""A KYC provider under this project's contract, `docs/contracts/kyc.openapi.yaml`."""

from typing import Any

from settlement.core.model import money
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.verdict import Verdict, parse_verdict

NAME = "verifications"


def path(dataset: str) -> str:
    return "/verifications"


def authorization(api_key: str) -> str:
    return f"Bearer {api_key}"


def body(settlement: Settlement, config: StageConfig) -> dict[str, Any]:
    return {
        "payer": settlement.payer,
        "payee": settlement.payee,
        "amount": money.render(settlement.amount, settlement.exponent(config)),
        "currency": settlement.currency,
    }


def read(content: object, settlement: Settlement) -> Verdict:
    """Read an answer. Raises ValueError if malformed."""
    if not isinstance(content, dict):
        raise ValueError("body: must be a JSON object")
    return parse_verdict(content, NAME)
