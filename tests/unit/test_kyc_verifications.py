"""What the provider of our own contract is told of a payment, and how its answer is read."""

from dataclasses import replace
from typing import Any

import pytest

from settlement import kyc_verifications
from settlement.kyc import PROVIDERS
from settlement.verdict import KycDecision, Verdict
from tests.unit.vectors import SETTLEMENT, TERMS


def test_settings_find_it_by_its_name() -> None:
    assert PROVIDERS["verifications"] is kyc_verifications


@pytest.mark.parametrize("dataset", ["", "default", "../admin"])
def test_there_is_one_path_whatever_the_dataset(dataset: str) -> None:
    assert kyc_verifications.path(dataset) == "/verifications"


def test_who_asks_is_proven_by_a_bearer_token() -> None:
    assert kyc_verifications.authorization("canary") == "Bearer canary"


@pytest.mark.parametrize(
    ("currency", "amount", "written"),
    [("EUR", 4820, "48.20"), ("EUR", 1, "0.01"), ("JPY", 4820, "4820"), ("KWD", 4820, "4.820")],
)
def test_an_amount_is_told_in_its_currencys_decimals_and_as_text(
    currency: str, amount: int, written: str
) -> None:
    settlement = replace(SETTLEMENT, currency=currency, amount=amount, fee=0)

    assert kyc_verifications.body(settlement, TERMS) == {
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
def test_an_answer_that_is_no_object_is_none(content: Any) -> None:
    with pytest.raises(ValueError, match=r"^body: must be a JSON object$"):
        kyc_verifications.read(content, SETTLEMENT)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({}, "decision"),
        ({"decision": "MAYBE", "reference": "ver_1"}, "decision"),
        ({"decision": "APPROVED"}, "reference"),
        ({"decision": "APPROVED", "reference": "ver_1", "reason": None}, "reason"),
    ],
)
def test_an_answer_out_of_contract_names_the_field_at_fault(content: Any, field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        kyc_verifications.read(content, SETTLEMENT)
