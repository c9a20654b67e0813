"""OpenSanctions' match API. The open-source server yente offers it, too.

Source: https://www.opensanctions.org/docs/api/matching/. The API only screens names. A match goes to a
review, and a webhook brings the verdict. Never send an account id as a name: it matches no list, so it would
be approved.
"""

from typing import Any

from settlement.core.model.errors import KycRequestRefused
from settlement.core.model.settlement import NAMES, Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.verdict import KycDecision, Verdict, printable

NAME = "opensanctions"


def path(dataset: str) -> str:
    return f"/match/{dataset}"


def authorization(api_key: str) -> str:
    """Return the Authorization header's value. A self-hosted yente server ignores it."""
    return f"ApiKey {api_key}"


def body(settlement: Settlement, config: StageConfig) -> dict[str, Any]:
    """Build a query for both parties. The schema `LegalEntity` covers persons and companies.

    Raises KycRequestRefused if a name is missing, as the claim may be older than the stage's rule.
    """
    if missing := [name for name in NAMES if getattr(settlement, name) is None]:
        raise KycRequestRefused(f"kyc: the provider screens by name; the request has no {', '.join(missing)}")
    parties = {"payer": settlement.payer_name, "payee": settlement.payee_name}
    return {
        "queries": {
            party: {"schema": "LegalEntity", "properties": {"name": [name]}}
            for party, name in parties.items()
        }
    }


def read(content: object, settlement: Settlement) -> Verdict:
    """Read the answer: REVIEW if a listed party matches, otherwise APPROVED.

    Raises ValueError if malformed.
    """
    try:
        matches = [
            f"{party}: {result['id']} in {', '.join(result['datasets'])}, score {result['score']}"
            for party in ("payer", "payee")
            for result in _results(content["responses"][party])  # type: ignore[index]
            if result["match"] is not False
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("body: must have the results of both queries") from error
    return Verdict(
        decision=KycDecision.REVIEW if matches else KycDecision.APPROVED,
        reference=f"{settlement.key}:verify",
        reason=printable("; ".join(matches) or "no listed party matches"),
        provider=NAME,
    )


def _results(response: Any) -> list[Any]:
    if response["status"] != 200 or not isinstance(response["results"], list):
        raise ValueError("body: a query has failed")
    results: list[Any] = response["results"]
    return results
