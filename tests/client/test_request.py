import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from settlement_client import InvalidRequest, Request, mint_key
from settlement_client.request import KEY
from tests.client.payments import PAYMENT, REQUESTS, request
from tests.unit.contracts import REQUEST, SCHEMAS, faults

FIELDS = SCHEMAS[REQUEST]["properties"].keys() - {"AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID"}


@pytest.mark.parametrize("example", REQUESTS, ids=lambda example: example["key"])
def test_each_example_request_of_the_contract_is_sent_unchanged(example: dict[str, Any]) -> None:
    sent = json.loads(Request(**example).to_json())

    assert sent == example
    assert faults(REQUEST, sent) == []


def test_the_requests_fields_are_those_of_the_contract() -> None:
    assert Request.__dataclass_fields__.keys() == FIELDS


@pytest.mark.parametrize(
    ("amount", "sent"),
    [(Decimal("48.20"), "48.20"), (Decimal("48E+2"), "4800"), ("48.2", "48.2"), (Decimal("0.00000001"),) * 2],
)
def test_an_amount_is_sent_as_a_decimal_string(amount: Decimal | str, sent: str | Decimal) -> None:
    content = json.loads(request(amount=amount).to_json())

    assert content["amount"] == format(sent, "f") if isinstance(sent, Decimal) else sent
    assert faults(REQUEST, content) == []


AMOUNT = "must be a Decimal or a decimal string"
TEXT = "must be printable text of 1 to"
WRONG = [
    ("key", "short", "must be a string that matches"),
    ("key", "order-2026-000101\n", "must be a string that matches"),
    ("key", None, "must be a string that matches"),
    ("payer", "fees:EUR", "must be a string that matches"),
    ("payee", PAYMENT["payer"], "must be another account than the payer's"),
    ("amount", 48.2, AMOUNT),
    ("amount", 48, AMOUNT),
    ("amount", True, AMOUNT),
    ("amount", Decimal("NaN"), AMOUNT),
    ("amount", Decimal("-1"), AMOUNT),
    ("amount", Decimal("1E+16"), AMOUNT),
    ("amount", Decimal("1E+999999999999999999"), AMOUNT),
    ("amount", Decimal("1E-999999"), AMOUNT),
    ("amount", "048.20", AMOUNT),
    ("amount", "\u0661", AMOUNT),
    ("amount", "0.00", "must be greater than zero"),
    ("fee", 0.5, AMOUNT),
    ("fee", "48.20", "must be less than the amount"),
    ("currency", "eur", "must be a string that matches"),
    ("deadline_seconds", 29, "must be a whole number from 30 to 86400"),
    ("deadline_seconds", 86_401, "must be a whole number from 30 to 86400"),
    ("deadline_seconds", 60.0, "must be a whole number from 30 to 86400"),
    ("deadline_seconds", True, "must be a whole number from 30 to 86400"),
    ("payer_name", "", TEXT),
    ("payee_name", "a\nb", TEXT),
    ("payee_name", "\ud800", TEXT),
    ("reference", "x" * 65, TEXT),
    ("metadata", ["shop"], "must be a mapping of at most 8 texts"),
    ("metadata", {str(number): "x" for number in range(9)}, "must be a mapping of at most 8 texts"),
    ("metadata", {"a shop": "web"}, "the name of a member must match"),
]


@pytest.mark.parametrize(("name", "value", "words"), WRONG, ids=str)
def test_the_error_names_only_the_wrong_field(name: str, value: object, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        request(**{name: value})

    (problem,) = str(refused.value).split("; ")
    assert problem.startswith(f"{name}: {words}")


def test_all_wrong_fields_are_named_at_once() -> None:
    with pytest.raises(InvalidRequest) as refused:
        request(key="short", amount=1.5, metadata={"shop": 1})

    named = [problem.partition(":")[0] for problem in str(refused.value).split("; ")]
    assert named == ["key", "amount", "metadata.shop"]


def test_a_requests_repr_shows_no_party_names_reference_or_metadata() -> None:
    shown = repr(request(payer_name="Dora", payee_name="Emil", reference="invoice", metadata={"shop": "web"}))

    assert not any(word in shown for word in ("Dora", "Emil", "invoice", "web"))


_TEXTS = st.text(max_size=70) | st.sampled_from(
    ["order-2026-000101", "48.20", "0", "EUR", "dora", " ", "\x7f"]
)
_VALUES = {
    "amount": _TEXTS | st.from_regex(r"[0-9]{1,17}(\.[0-9]{1,9})?", fullmatch=True) | st.floats(),
    "fee": st.none() | _TEXTS | st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,9})?", fullmatch=True),
    "deadline_seconds": st.none() | st.integers(20, 90_000) | st.booleans(),
    "metadata": st.none() | st.dictionaries(_TEXTS, _TEXTS | st.integers(), max_size=10),
    **dict.fromkeys(("payer_name", "payee_name", "reference"), st.none() | _TEXTS),
    **dict.fromkeys(("key", "payer", "payee", "currency"), _TEXTS),
}


def problems_of(**changes: Any) -> str:
    try:
        request(**changes)
    except InvalidRequest as refused:
        return str(refused)
    return ""


@example(("fee", "0\n"))
@example(("key", "order-2026-000101\n"))
@example(("payer_name", "Dora\n"))
@given(st.sampled_from(sorted(_VALUES)).flatmap(lambda name: st.tuples(st.just(name), _VALUES[name])))
def test_the_client_accepts_what_the_contract_accepts(field: tuple[str, Any]) -> None:
    """Exceptions are the rules that the contract states only in words: another payee, a fee below the amount.

    A last line break is one too, because in Python, unlike in JSON Schema, `$` matches before it.
    """
    name, value = field
    content = {one: given for one, given in (PAYMENT | {name: value}).items() if given is not None}

    problems = problems_of(**{name: value})

    in_words = any(words in problems for words in ("another account", "less than the amount"))
    ends_in_a_line_break = isinstance(value, str) and value.endswith("\n")
    assert bool(problems) == (in_words or ends_in_a_line_break or faults(REQUEST, content) != [])
    if not problems:
        assert json.loads(request(**{name: value}).to_json()) == content


@given(st.from_regex(r"[A-Za-z0-9_-]{1,47}", fullmatch=True))
def test_a_minted_key_fits_the_contract_and_is_always_new(prefix: str) -> None:
    first, second = mint_key(prefix), mint_key(prefix)

    assert KEY.fullmatch(first)
    assert first.startswith(f"{prefix}-")
    assert first != second


@pytest.mark.parametrize("prefix", ["x" * 48, "an order", "order\n"])
def test_minting_a_key_is_refused_if_the_prefix_is_invalid(prefix: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^prefix: "):
        mint_key(prefix)
