"""Requests: one that breaks the contract is refused with a message, and equal content is one request."""

import json
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from settlement.model.errors import InvalidRequest
from settlement.model.request import Request, parse_request, parse_settlement
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from tests.unit.test_money import NO_AMOUNTS, TOO_PRECISE

VALID: dict[str, Any] = {
    "key": "order-2026-000101",
    "payer": "alice",
    "payee": "bob",
    "amount": "48.20",
    "currency": "EUR",
    "fee": "0.48",
}

FIELDS = ", ".join([*VALID, "deadline_seconds", "payer_name", "payee_name"])
MESSAGE_LENGTH_MAX = 2_000
"""Far below the limits of a Lambda function's error and a state machine's cause."""

NO_TEXTS = [
    pytest.param(None, id="null"),
    pytest.param(1234567890123456, id="number"),
    pytest.param(True, id="true"),
    pytest.param([], id="list"),
    pytest.param(["alice"], id="list with an id"),
    pytest.param({}, id="object"),
    pytest.param("", id="empty"),
]
NO_IDS = [
    *NO_TEXTS,
    pytest.param("fees:EUR-and-more-text", id="colon"),
    pytest.param("order 2026 000101", id="blank"),
    pytest.param("order-2026-000101\n", id="trailing newline"),
    pytest.param("\norder-2026-000101", id="leading newline"),
    pytest.param("order-2026\n000101-x", id="newline"),
    pytest.param("order-2026-000101\r", id="trailing carriage return"),
    pytest.param("order-2026-000101\x00", id="NUL"),
    pytest.param("order-2026-000101#", id="hash sign"),
    pytest.param("order/2026/000101", id="slash"),
    pytest.param("órder-2026-000101", id="accent"),
    pytest.param("order-٢٠٢٦-000101", id="Arabic digits"),
    pytest.param("a" * 65, id="65 characters"),
    pytest.param("a" * 300_000, id="300 KB"),
]


def refusal(raw: object, config: StageConfig) -> str:
    with pytest.raises(InvalidRequest) as refused:
        parse_request(raw, config)
    message = str(refused.value)
    assert len(message) <= MESSAGE_LENGTH_MAX
    return message


@pytest.mark.parametrize("field", ["amount", "fee"])
@pytest.mark.parametrize("value", NO_AMOUNTS)
def test_an_amount_on_the_wire_is_a_decimal_string(value: object, field: str, config: StageConfig) -> None:
    message = refusal(VALID | {field: value}, config)

    assert message == f"{field}: must be a decimal string with {message.partition(' with ')[2]}"
    assert "at most 2 decimals" in message


@pytest.mark.parametrize(("currency", "exponent", "text"), TOO_PRECISE)
@pytest.mark.parametrize("field", ["amount", "fee"])
def test_an_amount_fits_its_currency(
    field: str, currency: str, exponent: int, text: str, config: StageConfig
) -> None:
    message = refusal(VALID | {"amount": "90", "fee": "1", "currency": currency, field: text}, config)

    assert message.startswith(f"{field}: must be")
    assert (f"at most {exponent} decimals" if exponent else "no decimals") in message
    assert ";" not in message


@pytest.mark.parametrize("amount", ["0", "0.0", "0.00"])
def test_an_amount_is_greater_than_zero(amount: str, config: StageConfig) -> None:
    without_fee = {name: value for name, value in VALID.items() if name != "fee"}

    assert refusal(without_fee | {"amount": amount}, config) == "amount: must be greater than zero"


@pytest.mark.parametrize("fee", ["48.20", "48.2", "48.21", "1000"])
def test_a_fee_is_less_than_the_amount(fee: str, config: StageConfig) -> None:
    assert refusal(VALID | {"fee": fee}, config) == "fee: must be less than the amount"


@pytest.mark.parametrize(("fee", "minor"), [("0", 0), ("0.00", 0), ("0.01", 1), ("48.19", 4819)])
def test_a_fee_from_zero_to_just_below_the_amount_is_accepted(
    fee: str, minor: int, config: StageConfig
) -> None:
    assert parse_request(VALID | {"fee": fee}, config).fee == minor


@pytest.mark.parametrize(
    "currency",
    [
        pytest.param("GBP", id="not accepted"),
        pytest.param("eur", id="lower case"),
        pytest.param("Eur", id="mixed case"),
        pytest.param("EUR ", id="blank after"),
        pytest.param("EUR\n", id="newline after"),
        *NO_TEXTS,
    ],
)
def test_a_currency_is_one_that_the_stage_accepts(currency: object, config: StageConfig) -> None:
    message = refusal(VALID | {"currency": currency}, config)

    assert message == "currency: must be one of EUR, JPY, KWD, USD"


@pytest.mark.parametrize("field", ["payer", "payee", "key"])
@pytest.mark.parametrize("value", NO_IDS)
def test_an_id_is_a_plain_word(value: object, field: str, config: StageConfig) -> None:
    message = refusal(VALID | {field: value}, config)

    assert message.startswith(f"{field}: must be a string that matches ^[A-Za-z0-9_")
    assert ";" not in message


@pytest.mark.parametrize("length", [0, 1, 15, 65])
def test_a_key_of_another_length_is_refused(length: int, config: StageConfig) -> None:
    message = refusal(VALID | {"key": "k" * length}, config)

    assert message == "key: must be a string that matches ^[A-Za-z0-9_-]{16,64}$"


@pytest.mark.parametrize("key", ["k" * 16, "k" * 64, "ABCxyz-_01234567"])
def test_a_key_of_16_to_64_plain_characters_is_accepted(key: str, config: StageConfig) -> None:
    assert parse_request(VALID | {"key": key}, config).key == key


def test_a_key_has_no_point_but_an_account_may(config: StageConfig) -> None:
    assert refusal(VALID | {"key": "order.2026.000101"}, config).startswith("key: must be")
    assert parse_request(VALID | {"payer": "a.b-c_D9"}, config).payer == "a.b-c_D9"


@pytest.mark.parametrize("account", ["a", "a" * 64])
def test_an_account_of_1_to_64_characters_is_accepted(account: str, config: StageConfig) -> None:
    assert parse_request(VALID | {"payee": account}, config).payee == account


def test_payer_and_payee_are_two_accounts(config: StageConfig) -> None:
    assert refusal(VALID | {"payee": "alice"}, config) == "payee: must be another account than the payer's"


@pytest.mark.parametrize("field", [name for name in VALID if name != "fee"])
def test_a_missing_field_is_named(field: str, config: StageConfig) -> None:
    incomplete = {name: value for name, value in VALID.items() if name != field}

    assert refusal(incomplete, config) == f"{field}: missing"


def test_every_field_at_fault_is_named_at_once(config: StageConfig) -> None:
    message = refusal({"amount": 1, "fee": None, "currency": "EUR", "note": ""}, config)

    named = [problem.partition(":")[0] for problem in message.split("; ") if ":" in problem]
    assert named == ["amount", "fee", "key", "note", "payee", "payer"]


@pytest.mark.parametrize("name", ["note", "Amount", "amount ", "", "größe", "__class__"])
def test_an_unknown_field_is_refused_by_its_name(name: str, config: StageConfig) -> None:
    message = refusal(VALID | {name: "x"}, config)

    assert message.endswith(f": unknown field; the fields are {FIELDS}")
    assert not name.isascii() or message.startswith(name)


def test_an_unknown_field_with_a_huge_name_does_not_blow_up_the_message(config: StageConfig) -> None:
    message = refusal(VALID | {"n" * 300_000: "x"}, config)

    assert message.startswith("nnnn")
    assert len(message) < 200


def test_many_unknown_fields_do_not_blow_up_the_message(config: StageConfig) -> None:
    """A function's error above 256 KB ends in States.DataLimitExceeded, which no Catch sees."""
    message = refusal(VALID | {f"field-{number}": "x" for number in range(20_000)}, config)

    assert len(message) < 1_000
    assert "request: has 19995 more unknown fields" in message.split("; ")


def test_five_unknown_fields_are_all_named(config: StageConfig) -> None:
    message = refusal(VALID | {f"field-{number}": "x" for number in range(5)}, config)

    assert message.count("unknown field") == 5
    assert "more" not in message


@pytest.mark.parametrize(
    "name", ["a\nb", "a\rb", "a\x1b[31mb", "a\x00b", "\ud800"], ids=["LF", "CR", "ESC", "NUL", "surrogate"]
)
def test_an_unknown_field_cannot_write_into_terminals_and_logs(name: str, config: StageConfig) -> None:
    """A lone surrogate is legal in JSON, but not in UTF-8: the Lambda runtime could not send the error."""
    message = refusal(VALID | {name: "x"}, config)

    assert "unknown field" in message
    assert message.isprintable()


@pytest.mark.parametrize(
    "raw",
    [None, [], [VALID], "", json.dumps(VALID), 0, 48.2, True, False],
    ids=["null", "empty list", "list", "empty string", "string", "zero", "number", "true", "false"],
)
def test_a_request_is_a_json_object(raw: object, config: StageConfig) -> None:
    assert refusal(raw, config) == f"request: must be a JSON object with the fields {FIELDS}"


def test_an_empty_object_misses_every_field(config: StageConfig) -> None:
    assert (
        refusal({}, config)
        == "amount: missing; currency: missing; key: missing; payee: missing; payer: missing"
    )


def test_a_valid_request_is_accepted_unchanged(config: StageConfig) -> None:
    assert parse_request(VALID, config) == Request(
        key="order-2026-000101",
        payer="alice",
        payee="bob",
        amount=4820,
        currency="EUR",
        fee=48,
        deadline_seconds=None,
    )


def test_a_request_may_leave_the_fee_to_the_stage(config: StageConfig) -> None:
    request = parse_request({name: value for name, value in VALID.items() if name != "fee"}, config)

    assert request.fee is None
    assert request.settlement(7).fee == 7


def test_a_named_fee_takes_precedence_over_the_schedule(config: StageConfig) -> None:
    assert parse_request(VALID | {"fee": "0"}, config).settlement(7).fee == 0


def test_a_settlement_in_flight_names_its_fee(config: StageConfig) -> None:
    unnamed = {name: value for name, value in VALID.items() if name != "fee"}

    with pytest.raises(InvalidRequest, match=r"^fee: missing"):
        parse_settlement(unnamed, config)


@pytest.mark.parametrize("raw", [None, [], {}, VALID | {"amount": 48.2}, VALID | {"owner": "x"}])
def test_a_settlement_in_flight_is_checked_like_a_request(raw: object, config: StageConfig) -> None:
    with pytest.raises(InvalidRequest):
        parse_settlement(raw, config)


@pytest.mark.parametrize(("currency", "amount"), [("EUR", "48.20"), ("JPY", "4820"), ("KWD", "4.820")])
def test_a_settlement_survives_the_way_between_two_states(
    currency: str, amount: str, settlement: Settlement, config: StageConfig
) -> None:
    sent = replace(settlement, currency=currency)

    wire = json.loads(json.dumps(sent.to_wire(config)))

    assert wire["amount"] == amount
    assert parse_settlement(wire, config) == sent


def test_equal_requests_written_differently_are_one_request(config: StageConfig) -> None:
    short = parse_settlement(VALID | {"amount": "48.2", "fee": "0.5"}, config)
    long = parse_settlement(VALID | {"amount": "48.20", "fee": "0.50"}, config)

    assert short.request_hash == long.request_hash


@given(
    money=st.sampled_from([("EUR", 10**13 - 1), ("KWD", 10**12 - 1)]).flatmap(
        lambda limit: st.tuples(st.just(limit[0]), st.integers(1, limit[1]))
    ),
    tenths=st.integers(0, 9),
    order=st.permutations(list(VALID)),
)
def test_neither_zeros_nor_the_order_of_fields_make_another_request(
    money: tuple[str, int], tenths: int, order: list[str], config: StageConfig
) -> None:
    """Up to the most whole units that an amount may have: it has 15 digits, some of them decimals."""
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
)


@pytest.mark.parametrize("field", [field.name for field in fields(Settlement)])
@given(one=SETTLEMENTS, other=SETTLEMENTS)
def test_a_difference_in_any_field_makes_another_request(
    field: str, one: Settlement, other: Settlement
) -> None:
    assume(getattr(one, field) != getattr(other, field))

    changed = replace(one, **{field: getattr(other, field)})

    assert changed.request_hash != one.request_hash


@given(one=SETTLEMENTS, other=SETTLEMENTS)
def test_only_equal_settlements_have_equal_hashes(one: Settlement, other: Settlement) -> None:
    assert (one.request_hash == other.request_hash) == (asdict(one) == asdict(other))


def test_characters_moved_from_one_field_to_the_next_make_another_request(settlement: Settlement) -> None:
    shifted = replace(settlement, payer="alic", payee="ebob")
    swapped = replace(settlement, payer=settlement.payee, payee=settlement.payer)

    assert len({settlement.request_hash, shifted.request_hash, swapped.request_hash}) == 3


TEXT = st.text(st.characters(), max_size=20)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
JSON = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)
ALMOST_VALID = st.fixed_dictionaries(
    {},
    optional={name: st.just(value) | JSON for name, value in VALID.items()}
    | {"deadline_seconds": st.just(900) | JSON, "note": JSON}
    | {name: st.just("Alice Muster") | JSON for name in ("payer_name", "payee_name")},
)


@given(raw=JSON | ALMOST_VALID)
def test_any_json_is_a_request_or_refused_and_nothing_else(raw: object, config: StageConfig) -> None:
    request, message = None, ""
    try:
        request = parse_request(raw, config)
    except InvalidRequest as refused:
        message = str(refused)
    if request is None:
        assert 0 < len(message) <= MESSAGE_LENGTH_MAX
        return
    assert isinstance(raw, dict)
    assert raw.keys() <= {*VALID, "deadline_seconds", "payer_name", "payee_name"}
    assert type(request.deadline_seconds) in (int, type(None))
    assert type(request.amount) is int
    assert request.amount > (request.fee or 0) >= 0
    assert request.payer != request.payee
