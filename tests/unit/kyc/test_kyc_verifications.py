from dataclasses import replace
from typing import Any

import pytest

from settlement.core.model.verdict import KycDecision, Verdict
from settlement.kyc import verifications as kyc_verifications
from settlement.kyc.client import PROVIDERS
from tests.unit.vectors import CONFIG, SETTLEMENT


def test_the_provider_has_one_path_and_a_bearer_token() -> None:
    assert PROVIDERS["verifications"] is kyc_verifications
    assert {kyc_verifications.path(dataset) for dataset in ("", "default", "../admin")} == {"/verifications"}
    assert kyc_verifications.authorization("canary") == "Bearer canary"


@pytest.mark.parametrize(
    ("currency", "amount", "written"),
    [("EUR", 4820, "48.20"), ("EUR", 1, "0.01"), ("JPY", 4820, "4820"), ("KWD", 4820, "4.820")],
)
def test_an_amount_is_text_with_the_decimals_of_its_currency(
    currency: str, amount: int, written: str
) -> None:
    settlement = replace(SETTLEMENT, currency=currency, amount=amount, fee=0)

    assert kyc_verifications.body(settlement, CONFIG) == {
        "payer": "alice",
        "payee": "bob",
        "amount": written,
        "currency": currency,
    }


@pytest.mark.parametrize("decision", KycDecision)
def test_an_answer_is_a_verdict_under_the_providers_name(decision: KycDecision) -> None:
    answer = {"decision": decision.value, "reference": "ver_1", "reason": "a\nb", "more": [1]}

    assert kyc_verifications.read(answer, SETTLEMENT) == Verdict(
        decision=decision, reference="ver_1", reason="a b", provider="verifications"
    )


@pytest.mark.parametrize("content", [None, [], [{}], "APPROVED", 1, True], ids=repr)
def test_an_answer_that_is_not_a_verdict_is_refused(content: Any) -> None:
    with pytest.raises(ValueError, match=r"^body: must be a JSON object$"):
        kyc_verifications.read(content, SETTLEMENT)
    with pytest.raises(ValueError, match=r"^decision: "):
        kyc_verifications.read({}, SETTLEMENT)
