import json
from dataclasses import asdict, fields, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.config import STAGES
from settlement.core.model.request import DEADLINE_SECONDS_MAX, DEADLINE_SECONDS_MIN
from settlement.core.model.stage_config import StageConfig

AMOUNTS = st.integers(1, 10**15 - 1)


def test_a_configuration_reads_back_equal_from_json(config: StageConfig) -> None:
    assert StageConfig.from_json(json.dumps(asdict(config))) == config


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_the_functions_can_parse_every_stages_configuration(stage: str) -> None:
    written = json.loads(STAGES[stage].stage_config)
    config = StageConfig.from_json(STAGES[stage].stage_config)
    numbers = [*config.currencies.values(), *config.highest_balances.values(), config.fee_basis_points]

    assert written.keys() == {field.name for field in fields(StageConfig)}
    assert set(config.currencies) == {*STAGES[stage].currencies, *STAGES[stage].assets}
    assert config.highest_balances.keys() <= config.currencies.keys()
    assert {type(number) for number in numbers} == {int}
    assert config.recover_after_seconds <= config.deadline_seconds
    assert DEADLINE_SECONDS_MIN <= config.deadline_seconds <= DEADLINE_SECONDS_MAX
    assert config.idempotency_key in ("required", "optional")
    assert config.fee in ("schedule", "client")


@given(amount=AMOUNTS, basis_points=st.integers(0, 9_999))
def test_the_scheduled_fee_is_the_rate_rounded_down_to_units(
    amount: int, basis_points: int, config: StageConfig
) -> None:
    fee = replace(config, fee_basis_points=basis_points).scheduled_fee(amount)

    assert type(fee) is int
    assert fee * 10_000 <= amount * basis_points < (fee + 1) * 10_000
    assert 0 <= fee < amount


@given(amount=AMOUNTS, points=st.lists(st.integers(0, 9_999), min_size=3, max_size=3).map(sorted))
def test_the_scheduled_fee_is_within_the_bounds_of_the_clients(
    amount: int, points: list[int], config: StageConfig
) -> None:
    floor, scheduled, ceiling = points
    clients = replace(
        config,
        fee="client",
        fee_floor_basis_points=floor,
        fee_basis_points=scheduled,
        fee_ceiling_basis_points=ceiling,
    )

    lowest, highest = clients.fee_bounds(amount)

    assert 0 <= lowest <= clients.scheduled_fee(amount) <= highest < amount
    assert replace(clients, fee="schedule").fee_bounds(amount) == (clients.scheduled_fee(amount),) * 2


def test_an_unknown_fee_rule_allows_only_the_scheduled_fee(config: StageConfig) -> None:
    unknown = replace(config, fee="tiers")

    assert unknown.fee_bounds(4820) == (48, 48)


@pytest.mark.parametrize(
    ("text", "error"),
    [("{}", TypeError), ('{"currencies":{}}', TypeError), ("[]", AttributeError), ("null", AttributeError)],
)
def test_an_incomplete_configuration_is_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        StageConfig.from_json(text)


def test_a_configuration_of_the_neighbouring_releases_can_be_read(config: StageConfig) -> None:
    """During a deployment, the configuration can be older or newer than the code that reads it."""
    newer = asdict(config) | {"surcharge": 1, "fee_basis_points": 7}

    assert StageConfig.from_json(json.dumps(newer)) == replace(config, fee_basis_points=7)
    for name in (
        "idempotency_key",
        "party_names",
        "fee",
        "fee_floor_basis_points",
        "fee_ceiling_basis_points",
    ):
        del newer[name]
    before = StageConfig.from_json(json.dumps(newer))
    assert before == replace(config, fee_basis_points=7, fee="schedule", fee_ceiling_basis_points=0)
    del newer["deadline_seconds"]
    with pytest.raises(TypeError, match="deadline_seconds"):
        StageConfig.from_json(json.dumps(newer))


@pytest.mark.parametrize(("requested", "seconds"), [(None, 900), (30, 30), (901, 901)])
def test_the_settling_time_is_the_requests_or_else_the_stages(
    requested: int | None, seconds: int, config: StageConfig
) -> None:
    assert config.time_to_settle(requested) == timedelta(seconds=seconds)
    assert config.time_to_recover == timedelta(seconds=30)
