"""The stage's terms: the same on both sides of the deployment, and a fee that is never too high."""

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.settings import STAGES
from settlement.terms import Terms

AMOUNTS = st.integers(1, 10**15 - 1)


def test_terms_survive_the_environment(terms: Terms) -> None:
    assert Terms.from_json(json.dumps(asdict(terms))) == terms


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_functions_understand_the_terms_of_every_stage(stage: str) -> None:
    terms = Terms.from_json(STAGES[stage].terms)

    assert set(terms.currencies) == set(STAGES[stage].currencies)
    assert terms.highest_balances.keys() <= terms.currencies.keys()
    numbers = [*terms.currencies.values(), *terms.highest_balances.values(), terms.fee_basis_points]
    assert {type(number) for number in numbers} == {int}


@pytest.mark.parametrize(
    ("amount", "fee"),
    [(4820, 48), (4899, 48), (4900, 49), (99, 0), (100, 1), (1, 0), (10**15 - 1, 10**13 - 1)],
)
def test_the_scheduled_fee_is_rounded_down(amount: int, fee: int, terms: Terms) -> None:
    assert terms.scheduled_fee(amount) == fee


@given(amount=AMOUNTS, basis_points=st.integers(0, 9_999))
def test_the_scheduled_fee_is_whole_and_neither_above_the_rate_nor_a_unit_below(
    amount: int, basis_points: int, terms: Terms
) -> None:
    fee = replace(terms, fee_basis_points=basis_points).scheduled_fee(amount)

    assert type(fee) is int
    assert fee * 10_000 <= amount * basis_points < (fee + 1) * 10_000
    assert 0 <= fee < amount


@pytest.mark.parametrize("text", ["{}", '{"currencies":{}}', "[]", "null"])
def test_a_function_does_not_start_on_incomplete_terms(text: str) -> None:
    with pytest.raises(TypeError):
        Terms.from_json(text)


def test_a_function_does_not_start_on_terms_that_it_does_not_know(terms: Terms) -> None:
    newer = json.dumps(asdict(terms) | {"surcharge": 1})

    with pytest.raises(TypeError, match="surcharge"):
        Terms.from_json(newer)
