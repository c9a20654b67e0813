"""A request may name its time to settle, within bounds; one without a key may get one."""

import json
from dataclasses import replace
from typing import Any

import pytest

from settlement.ledger import forward, reversal
from settlement.model.errors import IdempotencyConflict, InvalidRequest
from settlement.model.request import KEY, MINTED, parse_request, parse_settlement, with_minted_key
from settlement.model.stage_config import StageConfig
from settlement.model.state import SettlementState
from settlement.policy import steps
from tests.conftest import NOW
from tests.unit import states
from tests.unit.test_request import VALID, refusal
from tests.unit.vectors import FAILURE

HASHES = {
    None: "d13463c1e640ed9114f62760da3142c9e498ad261d55a5451e18c3ede91227a2",
    600: "c93e8497754df4245b64fe4ba2501ecb1e7ac3e888bbddb2ed82876fc5101590",
}
"""The hashes of one request without and with a deadline. They never change, as rows carry them."""

WITHOUT_KEY = {name: value for name, value in VALID.items() if name != "key"}


def requested(seconds: int | None) -> dict[str, Any]:
    return VALID | ({} if seconds is None else {"deadline_seconds": seconds})


@pytest.mark.parametrize("seconds", [30, 31, 86_399, 86_400])
def test_a_deadline_within_the_bounds_is_accepted(seconds: int, config: StageConfig) -> None:
    assert parse_request(requested(seconds), config).deadline_seconds == seconds


@pytest.mark.parametrize(
    "value",
    [29, 0, -30, 86_401, 10**30, 900.0, 899.5, "900", "", True, False, None, [], [900], {}, float("nan")],
    ids=repr,
)
def test_a_deadline_is_a_whole_number_within_the_bounds(value: object, config: StageConfig) -> None:
    message = refusal(VALID | {"deadline_seconds": value}, config)

    assert message == "deadline_seconds: must be a whole number from 30 to 86400"


@pytest.mark.parametrize("change", [{"deadline_seconds": 31}, {"recover_after_seconds": 601}], ids=str)
@pytest.mark.parametrize("seconds", [30, 600, 86_400])
def test_no_configuration_of_a_stage_moves_the_bounds(
    seconds: int, change: dict[str, int], config: StageConfig
) -> None:
    """A settlement in flight that a new configuration refused could not even be reversed."""
    in_flight, stage = parse_settlement(requested(seconds), config), replace(config, **change)

    assert parse_settlement(in_flight.to_wire(config), stage) == in_flight
    for beyond in (29, 86_401):
        assert (
            refusal(requested(beyond), stage) == "deadline_seconds: must be a whole number from 30 to 86400"
        )


@pytest.mark.parametrize("seconds", HASHES)
def test_the_hash_of_a_request_never_changes(seconds: int | None, config: StageConfig) -> None:
    assert parse_settlement(requested(seconds), config).request_hash == HASHES[seconds]


@pytest.mark.parametrize("seconds", [None, 600])
def test_a_settlement_survives_the_wire_and_its_row(seconds: int | None, config: StageConfig) -> None:
    one = parse_settlement(requested(seconds), config)

    wire, row = one.to_wire(config), one.to_row()

    assert parse_settlement(json.loads(json.dumps(wire)), config) == one
    assert SettlementState.from_row(states.row(one)).settlement == one
    assert ("deadline_seconds" in wire) == ("deadline_seconds" in row) == (seconds is not None)
    assert row.keys() & {"key", "pk"} == set()
    assert row["request_hash"] == HASHES[seconds]


@pytest.mark.parametrize(("first", "second"), [(None, 600), (600, None), (600, 601), (None, 900)], ids=str)
def test_another_deadline_makes_another_request_even_if_it_is_the_stages_own(
    first: int | None, second: int | None, config: StageConfig
) -> None:
    claimed = parse_settlement(requested(first), config)
    row = forward.claim(claimed, "execution", NOW, config).parameters["Item"]
    state = SettlementState.from_row(row)

    assert steps.verify_same_request(parse_request(requested(first), config), state) == claimed
    with pytest.raises(IdempotencyConflict):
        steps.verify_same_request(parse_request(requested(second), config), state)


@pytest.mark.parametrize(
    ("seconds", "deadline_at"),
    [(None, "2026-11-20T12:15:00.123Z"), (600, "2026-11-20T12:10:00.123Z"), (30, "2026-11-20T12:00:30.123Z")],
)
def test_the_deadline_counts_from_the_claim_and_is_not_before_the_first_look(
    seconds: int | None, deadline_at: str, config: StageConfig
) -> None:
    row = forward.claim(parse_settlement(requested(seconds), config), "e", NOW, config).parameters["Item"]

    assert row["deadline_at"] == deadline_at
    assert row["gsi1sk"] == "2026-11-20T12:00:30.123Z" <= deadline_at


@pytest.mark.parametrize(
    ("recover_after", "listed"),
    [(29, "2026-11-20T12:00:29.123Z"), (30, "2026-11-20T12:00:30.123Z"), (31, "2026-11-20T12:00:30.123Z")],
)
def test_a_settlement_is_listed_at_its_deadline_if_that_comes_before_the_first_look(
    recover_after: int, listed: str, config: StageConfig
) -> None:
    stage = replace(config, recover_after_seconds=recover_after)

    row = forward.claim(parse_settlement(requested(30), stage), "e", NOW, stage).parameters["Item"]

    assert (row["deadline_at"], row["gsi1sk"]) == ("2026-11-20T12:00:30.123Z", listed)


def test_a_tombstone_keeps_the_deadline_of_its_request(config: StageConfig) -> None:
    one = parse_settlement(requested(600), config)

    row = reversal.tombstone(one, "execution", FAILURE, NOW).parameters["Item"]

    assert SettlementState.from_row(row).settlement == one


# Keys that the stage mints

SOURCE = "arn:aws:states:eu-west-1:123456789012:execution:machine:name"


def optional(config: StageConfig) -> StageConfig:
    return replace(config, idempotency_key="optional")


def test_a_stage_that_requires_a_key_mints_none(
    config: StageConfig,
) -> None:
    assert with_minted_key(WITHOUT_KEY, SOURCE, config) is WITHOUT_KEY
    assert refusal(WITHOUT_KEY, config) == "key: missing"


def test_a_stage_with_optional_keys_derives_one_from_the_origin_of_the_call(config: StageConfig) -> None:
    one, again, other = (
        with_minted_key(WITHOUT_KEY, source, optional(config)) for source in (SOURCE, SOURCE, "else")
    )

    assert one == again == WITHOUT_KEY | {"key": one["key"]}
    assert one["key"] != other["key"]
    assert one["key"].startswith(MINTED)
    assert len(one["key"]) == len(MINTED) + 32
    assert KEY.fullmatch(one["key"])
    assert "key" not in WITHOUT_KEY
    assert parse_request(one, config).key == one["key"]


@pytest.mark.parametrize("key", [VALID["key"], None, "", 7, "too short"], ids=repr)
def test_a_named_key_is_never_replaced_even_if_it_is_invalid(key: object, config: StageConfig) -> None:
    raw = VALID | {"key": key}

    assert with_minted_key(raw, SOURCE, optional(config)) is raw


@pytest.mark.parametrize("raw", [None, [], "text", 7, True], ids=repr)
def test_only_an_object_gets_a_key(raw: object, config: StageConfig) -> None:
    assert with_minted_key(raw, SOURCE, optional(config)) is raw
    with pytest.raises(InvalidRequest):
        parse_request(raw, optional(config))
