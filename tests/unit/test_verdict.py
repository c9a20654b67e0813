from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.core.model.verdict import REASON_LENGTH_MAX, KycDecision, Verdict, parse_verdict, printable

ANSWER: dict[str, Any] = {"decision": "APPROVED", "reference": "ver_1", "reason": "nothing is known"}
REFERENCE_FAULT = r"^reference: must be a string that matches \^\[A-Za-z0-9_\.:-\]\{1,100\}\$$"


@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED", "REVIEW"])
def test_an_answer_is_parsed_and_recorded_without_loss(decision: str) -> None:
    answer = ANSWER | {"decision": decision}

    verdict = parse_verdict(answer, "acme")

    assert verdict == Verdict(
        decision=KycDecision(decision), reference="ver_1", reason="nothing is known", provider="acme"
    )
    assert type(verdict.decision) is KycDecision
    assert verdict.evidence() == answer | {"provider": "acme"}
    assert all(isinstance(value, str) for value in verdict.evidence().values())


def test_an_answer_may_lack_a_reason_and_have_extra_fields() -> None:
    verdict = parse_verdict({"decision": "REVIEW", "reference": "r", "score": "0.9", "provider": "x"}, "acme")

    assert verdict == Verdict(decision=KycDecision.REVIEW, reference="r", reason="", provider="acme")


@pytest.mark.parametrize(
    "decision",
    [None, "", "approved", "Approved", "APPROVED ", "APPROVED\n", "PENDING", True, 1, [], ["APPROVED"], {}],
    ids=repr,
)
def test_any_other_decision_is_refused(decision: Any) -> None:
    with pytest.raises(ValueError, match=r"^decision: must be one of APPROVED, REJECTED, REVIEW$"):
        parse_verdict(ANSWER | {"decision": decision}, "acme")


@pytest.mark.parametrize("name", ["decision", "reference"])
def test_a_field_that_is_missing_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: "):
        parse_verdict({field: value for field, value in ANSWER.items() if field != name}, "acme")


@pytest.mark.parametrize("reference", ["a", "a" * 100, "ver_1", "NK-7.b:c", "0"])
def test_a_reference_in_the_contracts_form_is_kept(reference: str) -> None:
    assert parse_verdict(ANSWER | {"reference": reference}, "acme").reference == reference


@pytest.mark.parametrize(
    "reference",
    [
        *(None, "", "a" * 101, "a b", "a\n", "\na", "a/b", "a,b", "\u00e9", "\u0661", "a\u0000"),
        *(1, True, ["a"], {}),
    ],
    ids=repr,
)
def test_a_reference_that_could_be_free_text_is_refused(reference: Any) -> None:
    with pytest.raises(ValueError, match=REFERENCE_FAULT) as refused:
        parse_verdict(ANSWER | {"reference": reference}, "acme")

    assert not isinstance(reference, str) or len(reference) < 2 or reference not in str(refused.value)


@pytest.mark.parametrize("reason", [None, 1, True, ["a"], {"text": "a"}], ids=repr)
def test_a_reason_that_is_not_text_is_refused(reason: Any) -> None:
    with pytest.raises(ValueError, match=r"^reason: must be a string$"):
        parse_verdict(ANSWER | {"reason": reason}, "acme")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("a listed party: Zo\u00eb \u5f20", "a listed party: Zo\u00eb \u5f20"),
        ("a\nb\r\tc", "a b  c"),
        ("\x1b[31mred\x07\x00", " [31mred  "),
        ("evil\u202etxt\u2028end", "evil txt end"),
        ("half\ud800", "half "),
        ("x" * REASON_LENGTH_MAX, "x" * REASON_LENGTH_MAX),
        ("x" * REASON_LENGTH_MAX + "y", "x" * REASON_LENGTH_MAX),
    ],
    ids=ascii,
)
def test_a_reason_is_cut_and_freed_of_control_characters(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert parse_verdict(ANSWER | {"reason": text}, "acme").reason == shown


@given(st.text(max_size=REASON_LENGTH_MAX * 2))
def test_any_text_of_a_provider_becomes_printable(text: str) -> None:
    shown = printable(text)

    assert len(shown) == min(len(text), REASON_LENGTH_MAX)
    assert shown.isprintable()
    assert shown.encode().decode() == shown
    assert printable(shown) == shown
