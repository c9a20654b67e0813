"""The stage's terms: the same on both sides of the deployment, and a fee that is never too high."""

import json
from dataclasses import asdict, fields, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.settings import STAGES
from settlement.request import DEADLINE_SECONDS_MAX, DEADLINE_SECONDS_MIN
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


@pytest.mark.parametrize(
    ("text", "error"),
    [("{}", TypeError), ('{"currencies":{}}', TypeError), ("[]", AttributeError), ("null", AttributeError)],
)
def test_a_function_does_not_start_on_incomplete_terms(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        Terms.from_json(text)


def test_a_function_reads_the_terms_of_the_next_release_but_for_what_it_does_not_know(terms: Terms) -> None:
    """While a deployment is under way, either may be ahead of the other: no payment waits for that."""
    newer = asdict(terms) | {"surcharge": 1, "fee_basis_points": 7}

    assert Terms.from_json(json.dumps(newer)) == replace(terms, fee_basis_points=7)
    del newer["deadline_seconds"]
    with pytest.raises(TypeError, match="deadline_seconds"):
        Terms.from_json(json.dumps(newer))


BEFORE_THE_CHANGE = (
    '{"currencies":{"EUR":2},"highest_balances":{},"fee_basis_points":100,"deadline_seconds":900,'
    '"recover_after_seconds":30}'
)
"""What a function's environment held before requests could name a deadline, or leave out their key."""


def test_an_environment_from_before_the_change_is_still_read_and_asks_for_a_key() -> None:
    terms = Terms.from_json(BEFORE_THE_CHANGE)

    assert terms.idempotency_key == "required"


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_every_stage_says_itself_how_long_a_request_may_take_and_whether_it_needs_a_key(stage: str) -> None:
    written, terms = json.loads(STAGES[stage].terms), Terms.from_json(STAGES[stage].terms)

    assert written.keys() == {field.name for field in fields(Terms)}
    assert terms.recover_after_seconds <= terms.deadline_seconds
    assert DEADLINE_SECONDS_MIN <= terms.deadline_seconds <= DEADLINE_SECONDS_MAX
    assert terms.idempotency_key in ("required", "optional")


@pytest.mark.parametrize(("requested", "seconds"), [(None, 900), (30, 30), (901, 901)])
def test_the_time_to_settle_is_the_requests_or_else_the_stages(
    requested: int | None, seconds: int, terms: Terms
) -> None:
    assert terms.time_to_settle(requested) == timedelta(seconds=seconds)
    assert terms.time_to_recover == timedelta(seconds=30)
