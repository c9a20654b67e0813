import json
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.core.ledger import forward, reversal
from settlement.core.model.errors import IdempotencyConflict
from settlement.core.model.request import parse_request, parse_settlement
from settlement.core.model.settlement import OPTIONAL, Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.policy import steps
from tests.unit.test_request import VALID
from tests.unit.vectors import FAILURE
from tests.world.environment import NOW

NAMED = VALID | {"payer_name": "Alice Muster", "payee_name": "Bob & Söhne"}
IN_HASTE = VALID | {"deadline_seconds": 600}
LABELLED = VALID | {"reference": "invoice 2026/4711", "metadata": {"shop": "web", "cart": "c-77120"}}
HASHES = [
    (VALID, "d13463c1e640ed9114f62760da3142c9e498ad261d55a5451e18c3ede91227a2"),
    (IN_HASTE, "c93e8497754df4245b64fe4ba2501ecb1e7ac3e888bbddb2ed82876fc5101590"),
    (NAMED, "498dabb5701e9beb6c638eaea5346c7413e787cc94c34ae6ce309e6f8617d789"),
    (LABELLED, "07ff188a19dff20b2c1913252d7bed80a53f810b30dd1fe4a83e213433eef50d"),
]
"""Requests, each with its hash, which never changes because rows carry it."""


def claimed(request: dict[str, Any], config: StageConfig) -> dict[str, Any]:
    settlement = parse_settlement(request, config)
    row: dict[str, Any] = forward.claim(settlement, "e", NOW, config).parameters["Item"]
    return row


@pytest.mark.parametrize(("request_", "expected"), HASHES, ids=["plain", "deadline", "names", "labels"])
def test_the_hash_of_a_request_never_changes(
    request_: dict[str, Any], expected: str, config: StageConfig
) -> None:
    assert parse_settlement(request_, config).request_hash == expected


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"currency": "JPY", "amount": "4820", "fee": "48"},
        {"currency": "KWD", "amount": "4.820", "fee": "0.048"},
        {"deadline_seconds": 600},
        {"payer_name": "Alice"},
        {"payee_name": "Bob"},
        NAMED,
        {"reference": "invoice 2026/4711"},
        {"metadata": {"cart": "c-77120"}},
        LABELLED | NAMED,
    ],
    ids=str,
)
def test_a_settlement_reads_back_equal_from_wire_row_and_tombstone(
    changes: dict[str, Any], config: StageConfig
) -> None:
    request = VALID | changes
    one = parse_settlement(request, config)
    tombstone = reversal.tombstone(one, "execution", FAILURE, NOW).parameters["Item"]

    wire = json.loads(json.dumps(one.to_wire(config)))

    assert wire == request
    assert parse_settlement(wire, config) == one
    for row in (claimed(request, config), tombstone):
        assert SettlementState.from_row(row).settlement == one
        assert row["request_hash"] == one.request_hash
        assert row.keys() & {"key", *OPTIONAL} == request.keys() - VALID.keys()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *((VALID | {"deadline_seconds": one}, VALID | {"deadline_seconds": 601}) for one in (600, 900)),
        *((VALID, other) for other in (IN_HASTE, VALID | {"deadline_seconds": 900}, NAMED)),
        *((NAMED, VALID | {name: NAMED[name]}) for name in ("payer_name", "payee_name")),
        (NAMED, NAMED | {"payer_name": "alice muster"}),
        (NAMED, NAMED | {"payee_name": "Bob & Soehne"}),
        (NAMED, NAMED | {"payer_name": NAMED["payee_name"], "payee_name": NAMED["payer_name"]}),
        *((LABELLED, VALID | {name: LABELLED[name]}) for name in ("reference", "metadata")),
        (LABELLED, LABELLED | {"reference": "Invoice 2026/4711"}),
        (LABELLED, LABELLED | {"metadata": {"shop": "web", "cart": "c-77121"}}),
        (LABELLED, LABELLED | {"metadata": {"cart": "web", "shop": "c-77120"}}),
        (LABELLED, LABELLED | {"metadata": {"shop": "web"}}),
    ],
    ids=str,
)
def test_another_deadline_name_or_reference_is_a_conflict(
    first: dict[str, Any], second: dict[str, Any], config: StageConfig
) -> None:
    for one, other in ((first, second), (second, first)):
        state = SettlementState.from_row(claimed(one, config))
        assert steps.verify_same_request(parse_request(one, config), state) == state.settlement
        with pytest.raises(IdempotencyConflict):
            steps.verify_same_request(parse_request(other, config), state)


@given(
    money=st.sampled_from([("EUR", 10**13 - 1), ("KWD", 10**12 - 1)]).flatmap(
        lambda limit: st.tuples(st.just(limit[0]), st.integers(1, limit[1]))
    ),
    tenths=st.integers(0, 9),
    order=st.permutations(list(VALID)),
)
def test_trailing_zeros_and_field_order_do_not_change_the_request(
    money: tuple[str, int], tenths: int, order: list[str], config: StageConfig
) -> None:
    currency, units = money
    short = VALID | {"amount": f"{units}.{tenths}", "fee": "0.1", "currency": currency}
    long = VALID | {"amount": f"{units}.{tenths}0", "fee": "0.10", "currency": currency}

    one = parse_settlement({name: short[name] for name in order}, config)

    assert one.request_hash == parse_settlement(long, config).request_hash


SETTLEMENTS = st.builds(
    Settlement,
    key=st.text(max_size=5),
    payer=st.text(max_size=5),
    payee=st.text(max_size=5),
    amount=st.integers(0, 99),
    currency=st.sampled_from(["EUR", "USD"]),
    fee=st.integers(0, 99),
    deadline_seconds=st.none() | st.integers(0, 99),
    payer_name=st.none() | st.text(max_size=5),
    payee_name=st.none() | st.text(max_size=5),
    reference=st.none() | st.text(max_size=5),
    metadata=st.none() | st.dictionaries(st.text(max_size=2), st.text(max_size=2), min_size=1, max_size=2),
)


@given(
    one=SETTLEMENTS, other=SETTLEMENTS, field=st.sampled_from([field.name for field in fields(Settlement)])
)
def test_a_difference_in_any_field_changes_the_requests_hash(
    one: Settlement, other: Settlement, field: str
) -> None:
    changed = replace(one, **{field: getattr(other, field)})

    assert (changed.request_hash == one.request_hash) == (asdict(changed) == asdict(one))


def test_moving_characters_to_another_field_changes_the_requests_hash(settlement: Settlement) -> None:
    shifted = replace(settlement, payer="alic", payee="ebob")
    swapped = replace(settlement, payer=settlement.payee, payee=settlement.payer)

    assert len({settlement.request_hash, shifted.request_hash, swapped.request_hash}) == 3


# The caller's own words


@pytest.mark.parametrize(
    "other",
    [
        LABELLED | {"metadata": {"cart": "c-77120", "shop": "web"}},
        LABELLED | {"metadata": {"cart": "\u3000c-77120 ", "shop": "web"}},
        LABELLED | {"reference": " invoice\xa02026/4711"},
    ],
    ids=ascii,
)
def test_metadata_order_and_outer_spaces_do_not_change_the_request(
    other: dict[str, Any], config: StageConfig
) -> None:
    state = SettlementState.from_row(claimed(LABELLED, config))

    assert steps.verify_same_request(parse_request(other, config), state) == state.settlement


def test_metadata_without_members_is_none(config: StageConfig) -> None:
    assert parse_settlement(VALID | {"metadata": {}}, config) == parse_settlement(VALID, config)
    assert "metadata" not in claimed(VALID | {"metadata": {}}, config)


def test_no_representation_shows_the_callers_reference_or_metadata(config: StageConfig) -> None:
    settlement = parse_settlement(LABELLED, config)

    for shown in (repr(parse_request(LABELLED, config)), repr(settlement), str(settlement)):
        assert "alice" in shown
        assert not [word for word in ("4711", "77120", "shop") if word in shown]


# The deadline


@pytest.mark.parametrize(
    ("seconds", "deadline_at"),
    [(None, "2026-11-20T12:15:00.123Z"), (600, "2026-11-20T12:10:00.123Z"), (30, "2026-11-20T12:00:30.123Z")],
)
def test_the_deadline_counts_from_the_claim(
    seconds: int | None, deadline_at: str, config: StageConfig
) -> None:
    row = claimed(VALID | ({"deadline_seconds": seconds} if seconds else {}), config)

    assert (row["deadline_at"], row["gsi1sk"]) == (deadline_at, "2026-11-20T12:00:30.123Z")


@pytest.mark.parametrize(("recover_after", "listed"), [(29, "29.123Z"), (30, "30.123Z"), (31, "30.123Z")])
def test_a_deadline_before_the_first_look_is_indexed_instead(
    recover_after: int, listed: str, config: StageConfig
) -> None:
    row = claimed(VALID | {"deadline_seconds": 30}, replace(config, recover_after_seconds=recover_after))

    assert (row["deadline_at"], row["gsi1sk"]) == ("2026-11-20T12:00:30.123Z", f"2026-11-20T12:00:{listed}")


@pytest.mark.parametrize(
    "change", [{"deadline_seconds": 31}, {"recover_after_seconds": 601}, {"party_names": "required"}], ids=str
)
@pytest.mark.parametrize("seconds", [30, 600, 86_400])
def test_changed_stage_settings_never_refuse_a_claimed_settlement(
    seconds: int, change: dict[str, Any], config: StageConfig
) -> None:
    """Each step validates its settlement again, and a refused one could not even be reversed."""
    in_flight = parse_settlement(VALID | {"deadline_seconds": seconds}, config)

    assert parse_settlement(in_flight.to_wire(config), replace(config, **change)) == in_flight
