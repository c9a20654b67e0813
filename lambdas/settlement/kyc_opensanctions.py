"""How to ask OpenSanctions' match API, which the open-source server yente offers as well.

Source: https://www.opensanctions.org/docs/api/matching/. The API screens and has nobody who decides, so
a party that matches a listed one is left for review: whoever reviews sends the verdict to the webhook.
It knows parties by name: an account's id must be one, or this file must learn to look it up.
"""

from typing import Any

from settlement.request import Settlement
from settlement.terms import Terms
from settlement.verdict import KycDecision, Verdict, printable

NAME = "opensanctions"


def path(dataset: str) -> str:
    """Where to post, below the provider's address: each collection of lists has a path of its own."""
    return f"/match/{dataset}"


def authorization(api_key: str) -> str:
    """The header that proves who asks; a yente server of one's own ignores it."""
    return f"ApiKey {api_key}"


def body(settlement: Settlement, terms: Terms) -> dict[str, Any]:
    """One query for each party. `LegalEntity` is the schema for persons and companies alike."""
    parties = {"payer": settlement.payer, "payee": settlement.payee}
    return {
        "queries": {
            party: {"schema": "LegalEntity", "properties": {"name": [account]}}
            for party, account in parties.items()
        }
    }


def read(content: object, settlement: Settlement) -> Verdict:
    """APPROVED where no listed party matches, else REVIEW. Raises ValueError where the answer is none."""
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
