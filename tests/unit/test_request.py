import json
import unicodedata
from dataclasses import replace
from typing import Any

import pytest

from settlement.core.model.errors import InvalidRequest
from settlement.core.model.request import (
    KEY,
    MINTED,
    Request,
    parse_request,
    parse_settlement,
    with_minted_key,
)
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from tests.unit.test_money import NO_AMOUNTS

VALID: dict[str, Any] = {
    "key": "order-2026-000101",
    "payer": "alice",
    "payee": "bob",
    "amount": "48.20",
    "currency": "EUR",
    "fee": "0.48",
}
WITHOUT_FEE, WITHOUT_KEY = (
    {name: value for name, value in VALID.items() if name != absent} for absent in ("fee", "key")
)
FIELDS = [*VALID, "deadline_seconds", "payer_name", "payee_name", "reference", "metadata"]
MESSAGE_LENGTH_MAX = 2_000
"""Longest message: far below the limits of a Lambda error and a state machine's cause."""

NO_TEXTS: list[Any] = [None, 1234567890123456, True, [], ["alice"], {}, ""]
NO_IDS = [
    *NO_TEXTS,
    *("fees:EUR-and-more-text", "order 2026 000101", "order/2026/000101", "order-2026-000101#"),
    *("order-2026-000101\n", "\norder-2026-000101", "order-2026\n000101-x", "order-2026-000101\r"),
    *("order-2026-000101\x00", "órder-2026-000101", "order-٢٠٢٦-000101", "a" * 65, "a" * 300_000),
]
NO_NAMES: list[Any] = [
    *(None, True, 7, 4.5, [], ["Alice"], {}, ""),
    *(" ", "   ", "\u3000", " \xa0\u2009", "A" * 101, "\u3000" + "A" * 101, "A" * 300_000),
    *("Alice\n", "\nAlice", "Al\nice", "Alice\r", "Alice\x00", "Alice\x1b[2J", "Alice\x85", "Alice\x7f"),
    *("Alice\t", "\tAlice", "\x1cAlice", " \nAlice", "Alice\u2028", "\u2029Alice"),
    *("Alice\u202e", "Alice\u200b", "\ufeffAlice", "Alice\ud800"),
    *("\u200c", "\u200d", " \u200c ", "\u200c \u200d", "\u200d\xa0\u200c"),
]
NO_REFERENCES = [text for text in NO_NAMES if text != "A" * 101 and text != "\u3000" + "A" * 101]
NO_REFERENCES += ["A" * 65, "\u3000" + "A" * 65]
JOINED = ("بی\u200cبی", "क्\u200dष", "ന്\u200d")
"""Names with a joiner in Persian, Hindi and, at the end, Malayalam."""

DECIMAL = "must be a decimal string with at most 2 decimals and at most 13 digits before the point"
NAME = "must be printable text of 1 to 100 characters"
LABEL = "must be printable text of 1 to 64 characters"
REFUSED: dict[str, tuple[list[Any], str]] = {
    "key": (
        [*NO_IDS, "k", "k" * 15, "order.2026.000101"],
        "must be a string that matches ^[A-Za-z0-9_-]{16,64}$",
    ),
    "payer": (NO_IDS, "must be a string that matches ^[A-Za-z0-9_.-]{1,64}$"),
    "payee": (NO_IDS, "must be a string that matches ^[A-Za-z0-9_.-]{1,64}$"),
    "amount": (NO_AMOUNTS, DECIMAL),
    "fee": (NO_AMOUNTS, DECIMAL),
    "currency": (
        [*NO_TEXTS, "GBP", "eur", "Eur", "EUR ", "EUR\n"],
        "must be one of CO2, EUR, JPY, KWD, POINTS, USD",
    ),
    "deadline_seconds": (
        [*(29, 0, -30, 86_401, 10**30, 900.0, 899.5, float("nan")), *NO_TEXTS, "900", False, [900]],
        "must be a whole number from 30 to 86400",
    ),
    "payer_name": (NO_NAMES, NAME),
    "payee_name": (NO_NAMES, NAME),
    "reference": (NO_REFERENCES, LABEL),
    "metadata": (
        [
            *(None, True, 7, 4.5, float("nan"), [], ["cart"], "", "cart=7", "{}"),
            {f"m{number}": "x" for number in range(9)},
            {f"m{number}": "x" for number in range(20_000)},
        ],
        "must be a JSON object of at most 8 texts",
    ),
}
"""Values of each field that are invalid on their own, and the expected form."""


def refusal(raw: object, config: StageConfig) -> str:
    with pytest.raises(InvalidRequest) as refused:
        parse_request(raw, config)
    message = str(refused.value)
    assert len(message) <= MESSAGE_LENGTH_MAX
    return message


def short(value: object) -> str:
    return ascii(value)[:30]


# The fields


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field in REFUSED for value in REFUSED[field][0]], ids=short
)
def test_an_invalid_field_is_refused_without_repeating_its_value(
    field: str, value: object, config: StageConfig
) -> None:
    """The message goes into logs, causes and the dead-letter queue, which must hold no name or amount."""
    assert refusal(VALID | {field: value}, config) == f"{field}: {REFUSED[field][1]}"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("key", key) for key in ("k" * 16, "k" * 64, "ABCxyz-_01234567")),
        *((field, account) for field in ("payer", "payee") for account in ("a", "a" * 64, "a.b-c_D9")),
        *(("deadline_seconds", seconds) for seconds in (30, 31, 86_399, 86_400)),
        *(
            (field, name)
            for field in ("payer_name", "payee_name")
            for name in ("A", "名前", "O'Neill, Seán", "Ünal  A.Ş.", "A" * 100, "-", *JOINED)
        ),
        *(("reference", text) for text in ("A", "名前", "invoice 2026/4711", "A" * 64, "-", *JOINED)),
        ("metadata", {"a": "x"}),
        ("metadata", dict.fromkeys(("A", "a" * 32, "_", ".", "-", "0", "a.b-C_9", "key"), "x")),
        ("metadata", {f"member{number}": "v" * 50 for number in range(8)}),
    ],
    ids=short,
)
def test_a_field_within_its_bounds_is_accepted_unchanged(
    field: str, value: object, config: StageConfig
) -> None:
    assert getattr(parse_request(VALID | {field: value}, config), field) == value


DEEP = json.loads("[" * 900 + "]" * 900)


@pytest.mark.parametrize("value", [*NO_REFERENCES, DEEP, {"a": DEEP}, float("inf")], ids=short)
def test_invalid_metadata_is_refused_without_repeating_its_value(value: object, config: StageConfig) -> None:
    metadata = {"shop": "web", "cart": value}

    assert refusal(VALID | {"metadata": metadata}, config) == f"metadata.cart: {LABEL}"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        *((name, name) for name in ("", "a b", "cart:7", "a/b", "a" * 33)),
        *(
            ("a" * 300_000, "a" * 40),
            ("größe", "gr\\xf6\\xdfe"),
            ("cart\n", "cart\\n"),
            ("\ud800", "\\ud800"),
        ),
    ],
    ids=short,
)
def test_an_invalid_metadata_name_is_refused_in_printable_text(
    name: str, shown: str, config: StageConfig
) -> None:
    message = refusal(VALID | {"metadata": {name: "x"}}, config)

    assert message == f"metadata.{shown}: its name must match ^[A-Za-z0-9_.-]{{1,32}}$"
    assert message.isprintable()


def test_only_a_few_faults_of_metadata_are_named(config: StageConfig) -> None:
    message = refusal(VALID | {"metadata": {f"cart {number}": None for number in range(8)}}, config)

    assert message.count("metadata.cart ") == 5
    assert "metadata: has 11 more faults" in message


@pytest.mark.parametrize(
    ("metadata", "size"),
    [
        ({"a": "x" * 64, "b": "x" * 64, "c": "x" * 64, "d": "x" * 64, "e": "x" * 64, "f": "x" * 64}, 427),
        ({f"{number}" * 32: "x" * 26 for number in range(8)}, 513),
        ({f"{number}" * 32: "x" * 26 for number in range(7)} | {"7" * 31: "x" * 26}, 512),
        ({"a": "名" * 64, "b": "名" * 64, "c": "é" * 53 + "e"}, 513),
        ({"a": "名" * 64, "b": "名" * 64, "c": "é" * 53}, 512),
        (dict.fromkeys("abcd", '"' * 62), 525),
        ({"a": "e\u0301" * 64, "b": "名" * 64, "c": "名" * 57}, 513),  # counted in its composed form
    ],
    ids=short,
)
def test_the_size_of_metadata_is_limited(metadata: dict[str, str], size: int, config: StageConfig) -> None:
    kept = {name: unicodedata.normalize("NFC", value) for name, value in metadata.items()}
    assert len(json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode()) == size

    if size > 512:
        expected = "metadata: must be at most 512 bytes as compact JSON in UTF-8"
        assert refusal(VALID | {"metadata": metadata}, config) == expected
    else:
        assert parse_request(VALID | {"metadata": metadata}, config).metadata == kept


@pytest.mark.parametrize("amount", ["0", "0.0", "0.00"])
def test_an_amount_is_greater_than_zero(amount: str, config: StageConfig) -> None:
    assert refusal(WITHOUT_FEE | {"amount": amount}, config) == "amount: must be greater than zero"


@pytest.mark.parametrize(
    ("fee", "minor"),
    [
        *(("0", 0), ("0.00", 0), ("0.01", 1), ("48.19", 4819)),
        *((fee, None) for fee in ("48.20", "48.2", "99")),
    ],
)
def test_a_fee_is_less_than_the_amount(fee: str, minor: int | None, config: StageConfig) -> None:
    if minor is None:
        assert refusal(VALID | {"fee": fee}, config) == "fee: must be less than the amount"
    else:
        assert parse_request(VALID | {"fee": fee}, config).fee == minor


def test_payer_and_payee_must_be_different(config: StageConfig) -> None:
    assert refusal(VALID | {"payee": "alice"}, config) == "payee: must be another account than the payer's"


# The whole


@pytest.mark.parametrize("raw", [None, [], [VALID], "", json.dumps(VALID), 0, 48.2, True, False], ids=short)
def test_a_request_is_a_json_object(raw: object, config: StageConfig) -> None:
    assert refusal(raw, config) == f"request: must be a JSON object with the fields {', '.join(FIELDS)}"


@pytest.mark.parametrize("field", [name for name in VALID if name != "fee"])
def test_a_missing_field_is_named(field: str, config: StageConfig) -> None:
    incomplete = {name: value for name, value in VALID.items() if name != field}

    assert refusal(incomplete, config) == f"{field}: missing"


def test_every_field_at_fault_is_named_at_once(config: StageConfig) -> None:
    raw = {"amount": 1, "fee": None, "currency": "EUR", "note": "", "payer_name": 1, "payee_name": ""}

    message = refusal(raw, config)

    named = [problem.partition(":")[0] for problem in message.split("; ") if ":" in problem]
    assert named == ["amount", "fee", "key", "note", "payee", "payee_name", "payer", "payer_name"]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        *(([name], [name]) for name in ("note", "Amount", "amount ", "", "__class__")),
        (["a\nb"], ["a\\nb"]),
        (["a\x1b[31mb"], ["a\\x1b[31mb"]),
        (["größe\ud800"], ["gr\\xf6\\xdfe\\ud800"]),
        (["n" * 300_000], ["n" * 40]),
        ([f"field-{number}" for number in range(5)], [f"field-{number}" for number in range(5)]),
        (
            [f"field-{number:05}" for number in range(20_000)],
            [*(f"field-{number:05}" for number in range(5)), None],
        ),
    ],
    ids=short,
)
def test_unknown_fields_are_named_in_a_short_printable_message(
    names: list[str], shown: list[str | None], config: StageConfig
) -> None:
    """A function's error above 256 KB ends in States.DataLimitExceeded, which no Catch sees.

    A lone surrogate is legal in JSON, but the Lambda runtime could not send it as UTF-8.
    """
    message = refusal(VALID | dict.fromkeys(names, "x"), config)

    unknown = f": unknown field; the fields are {', '.join(FIELDS)}"
    assert message == "; ".join(
        "request: has 19995 more unknown fields" if name is None else f"{name}{unknown}" for name in shown
    )
    assert message.isprintable()


def test_a_valid_request_with_or_without_fee_is_accepted_unchanged(config: StageConfig) -> None:
    expected = Request(
        key="order-2026-000101",
        payer="alice",
        payee="bob",
        amount=4820,
        currency="EUR",
        fee=48,
        deadline_seconds=None,
    )

    assert parse_request(VALID, config) == expected
    assert parse_request(VALID, config).settlement(7).fee == 48
    assert parse_request(VALID | {"fee": "0"}, config).settlement(7).fee == 0
    assert parse_request(WITHOUT_FEE, config).fee is None
    assert parse_request(WITHOUT_FEE, config).settlement(7).fee == 7


@pytest.mark.parametrize(
    "raw", [None, {}, VALID | {"amount": 48.2}, VALID | {"owner": "x"}, WITHOUT_FEE], ids=short
)
def test_a_claimed_settlement_must_name_its_fee(raw: object, config: StageConfig) -> None:
    message = "^fee: missing; a claimed settlement names its fee$" if raw is WITHOUT_FEE else ": "

    with pytest.raises(InvalidRequest, match=message):
        parse_settlement(raw, config)
    assert parse_settlement(VALID, config) == Settlement(
        key="order-2026-000101", payer="alice", payee="bob", amount=4820, currency="EUR", fee=48
    )


# Minted keys

SOURCE = "arn:aws:states:eu-west-1:123456789012:execution:machine:name"


def test_no_key_is_minted_if_the_stage_requires_one(config: StageConfig) -> None:
    assert with_minted_key(WITHOUT_KEY, SOURCE, config) is WITHOUT_KEY


def test_an_optional_key_is_derived_from_the_execution(optional: StageConfig) -> None:
    one, again, other = (
        with_minted_key(WITHOUT_KEY, source, optional) for source in (SOURCE, SOURCE, "else")
    )

    assert one == again == WITHOUT_KEY | {"key": one["key"]}
    assert one["key"] != other["key"]
    assert one["key"].startswith(MINTED)
    assert len(one["key"]) == len(MINTED) + 32
    assert KEY.fullmatch(one["key"])
    assert "key" not in WITHOUT_KEY


@pytest.mark.parametrize(
    "raw", [*(VALID | {"key": key} for key in (VALID["key"], None, "", 7)), None, [], "text", 7], ids=short
)
def test_a_key_is_minted_only_for_an_object_without_one(raw: object, optional: StageConfig) -> None:
    assert with_minted_key(raw, SOURCE, optional) is raw


@pytest.fixture
def optional(config: StageConfig) -> StageConfig:
    return replace(config, idempotency_key="optional")
