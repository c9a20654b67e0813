"""A request may name its time to settle, within bounds; one that names no key may get one."""

import json
from dataclasses import replace
from typing import Any

import pytest

from settlement import items, reversals, rows, steps
from settlement.errors import IdempotencyConflict, InvalidRequest
from settlement.request import KEY, MINTED, Settlement, named, parse_request, parse_settlement
from settlement.terms import Terms
from tests.conftest import NOW
from tests.unit.test_request import VALID, refusal
from tests.unit.vectors import FAILURE

HASHES = {
    None: "d13463c1e640ed9114f62760da3142c9e498ad261d55a5451e18c3ede91227a2",
    600: "c93e8497754df4245b64fe4ba2501ecb1e7ac3e888bbddb2ed82876fc5101590",
}
"""Of the same request without and with a deadline, for ever: rows carry them."""

WITHOUT_KEY = {name: value for name, value in VALID.items() if name != "key"}


def asked(seconds: int | None) -> dict[str, Any]:
    return VALID | ({} if seconds is None else {"deadline_seconds": seconds})


@pytest.mark.parametrize("seconds", [30, 31, 86_399, 86_400])
def test_a_deadline_within_the_bounds_is_taken(seconds: int, terms: Terms) -> None:
    assert parse_request(asked(seconds), terms).deadline_seconds == seconds


@pytest.mark.parametrize(
    "value",
    [29, 0, -30, 86_401, 10**30, 900.0, 899.5, "900", "", True, False, None, [], [900], {}, float("nan")],
    ids=repr,
)
def test_what_is_no_whole_number_within_the_bounds_is_no_deadline(value: object, terms: Terms) -> None:
    message = refusal(VALID | {"deadline_seconds": value}, terms)

    assert message == "deadline_seconds: must be a whole number from 30 to 86400"


@pytest.mark.parametrize("change", [{"deadline_seconds": 31}, {"recover_after_seconds": 601}], ids=str)
@pytest.mark.parametrize("seconds", [30, 600, 86_400])
def test_no_settings_of_a_stage_move_the_bounds_and_strand_what_is_under_way(
    seconds: int, change: dict[str, int], terms: Terms
) -> None:
    """Refused on its way by another setting than the one it was claimed under, nobody could give it back."""
    under_way, stage = parse_settlement(asked(seconds), terms), replace(terms, **change)

    assert parse_settlement(under_way.to_wire(terms), stage) == under_way
    for beyond in (29, 86_401):
        assert refusal(asked(beyond), stage) == "deadline_seconds: must be a whole number from 30 to 86400"


@pytest.mark.parametrize("seconds", HASHES)
def test_the_hash_of_a_request_never_changes(seconds: int | None, terms: Terms) -> None:
    assert parse_settlement(asked(seconds), terms).request_hash == HASHES[seconds]


@pytest.mark.parametrize("seconds", [None, 600])
def test_a_settlement_survives_the_wire_and_its_row(seconds: int | None, terms: Terms) -> None:
    one = parse_settlement(asked(seconds), terms)

    wire, row = one.to_wire(terms), one.to_row()

    assert parse_settlement(json.loads(json.dumps(wire)), terms) == one
    assert Settlement.of_row({**rows.settlement_key(one.key), **row, "status": "PROCESSING"}) == one
    assert ("deadline_seconds" in wire) == ("deadline_seconds" in row) == (seconds is not None)
    assert row.keys() & {"key", "pk"} == set()
    assert row["request_hash"] == HASHES[seconds]


@pytest.mark.parametrize(("first", "second"), [(None, 600), (600, None), (600, 601), (None, 900)], ids=str)
def test_another_deadline_makes_another_request_even_where_it_is_the_stages_own(
    first: int | None, second: int | None, terms: Terms
) -> None:
    claimed = parse_settlement(asked(first), terms)
    row = items.claim(claimed, "execution", NOW, terms).parameters["Item"]

    assert steps.admitted(parse_request(asked(first), terms), row) == claimed
    with pytest.raises(IdempotencyConflict):
        steps.admitted(parse_request(asked(second), terms), row)


@pytest.mark.parametrize(
    ("seconds", "deadline_at"),
    [(None, "2026-11-20T12:15:00.123Z"), (600, "2026-11-20T12:10:00.123Z"), (30, "2026-11-20T12:00:30.123Z")],
)
def test_the_deadline_counts_from_the_claim_and_is_not_before_the_first_look(
    seconds: int | None, deadline_at: str, terms: Terms
) -> None:
    row = items.claim(parse_settlement(asked(seconds), terms), "e", NOW, terms).parameters["Item"]

    assert row["deadline_at"] == deadline_at
    assert row["gsi1sk"] == "2026-11-20T12:00:30.123Z" <= deadline_at


@pytest.mark.parametrize(
    ("recover_after", "listed"),
    [(29, "2026-11-20T12:00:29.123Z"), (30, "2026-11-20T12:00:30.123Z"), (31, "2026-11-20T12:00:30.123Z")],
)
def test_a_settlement_is_listed_at_its_deadline_where_that_comes_before_the_first_look(
    recover_after: int, listed: str, terms: Terms
) -> None:
    stage = replace(terms, recover_after_seconds=recover_after)

    row = items.claim(parse_settlement(asked(30), stage), "e", NOW, stage).parameters["Item"]

    assert (row["deadline_at"], row["gsi1sk"]) == ("2026-11-20T12:00:30.123Z", listed)


def test_a_key_that_was_refused_unclaimed_keeps_the_deadline_of_its_request(terms: Terms) -> None:
    one = parse_settlement(asked(600), terms)

    row = reversals.refuse_unclaimed(one, "execution", FAILURE, NOW).parameters["Item"]

    assert Settlement.of_row(row) == one


# Keys that the stage mints

SOURCE = "arn:aws:states:eu-west-1:123456789012:execution:machine:name"


def optional(terms: Terms) -> Terms:
    return replace(terms, idempotency_key="optional")


def test_where_a_key_is_required_none_is_minted_and_the_request_is_refused_by_its_name(terms: Terms) -> None:
    assert named(WITHOUT_KEY, SOURCE, terms) is WITHOUT_KEY
    assert refusal(WITHOUT_KEY, terms) == "key: missing"


def test_where_it_is_optional_a_request_without_gets_one_by_what_it_came_with(terms: Terms) -> None:
    one, again, other = (named(WITHOUT_KEY, source, optional(terms)) for source in (SOURCE, SOURCE, "else"))

    assert one == again == WITHOUT_KEY | {"key": one["key"]}
    assert one["key"] != other["key"]
    assert one["key"].startswith(MINTED)
    assert len(one["key"]) == len(MINTED) + 32
    assert KEY.fullmatch(one["key"])
    assert "key" not in WITHOUT_KEY
    assert parse_request(one, terms).key == one["key"]


@pytest.mark.parametrize("key", [VALID["key"], None, "", 7, "too short"], ids=repr)
def test_a_key_that_is_named_is_never_replaced_however_wrong_it_is(key: object, terms: Terms) -> None:
    raw = VALID | {"key": key}

    assert named(raw, SOURCE, optional(terms)) is raw


@pytest.mark.parametrize("raw", [None, [], "text", 7, True], ids=repr)
def test_what_is_no_request_gets_no_key(raw: object, terms: Terms) -> None:
    assert named(raw, SOURCE, optional(terms)) is raw
    with pytest.raises(InvalidRequest):
        parse_request(raw, optional(terms))
