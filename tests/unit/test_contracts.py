import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from infra.config import STAGES
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.request import (
    ACCOUNT,
    DEADLINE_SECONDS_MAX,
    DEADLINE_SECONDS_MIN,
    KEY,
    METADATA_BYTES_MAX,
    METADATA_MEMBERS_MAX,
    METADATA_NAME,
    METADATA_VALUE_LENGTH_MAX,
    NAME_LENGTH_MAX,
    REFERENCE_LENGTH_MAX,
    STARTED_BY,
    parse_request,
)
from settlement.core.model.settlement import LABELS, NAMES
from settlement.core.model.stage_config import StageConfig
from tests.unit.contracts import (
    CIRCUIT,
    CONTRACTS,
    ENTERED,
    EVENT,
    GLASS,
    OUTCOME,
    PAYOUT_EVENT,
    PAYRUN_EVENT,
    REQUEST,
    RESOLVED,
    SCHEMAS,
    faults,
)
from tests.unit.test_money import NO_AMOUNTS
from tests.unit.test_request_content import LABELLED, NAMED
from tests.world.templates import PROJECT

each_contract = pytest.mark.parametrize("name", SCHEMAS)

# The files


def test_there_is_a_contract_for_every_input_and_output() -> None:
    assert SCHEMAS.keys() == {
        *(REQUEST, OUTCOME, EVENT, PAYOUT_EVENT, PAYRUN_EVENT, ENTERED, RESOLVED, GLASS, CIRCUIT)
    }


@each_contract
def test_a_contract_is_a_valid_schema_listed_in_the_overview(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])

    assert SCHEMAS[name]["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert SCHEMAS[name]["$id"] == f"urn:settlement:{name}"
    assert f"[`{name}`]({name}.schema.json)" in (CONTRACTS / "README.md").read_text()


@each_contract
def test_a_contract_describes_its_fields_and_accepts_its_own_examples(name: str) -> None:
    schema = SCHEMAS[name]

    undescribed = [field for field, of in schema["properties"].items() if "description" not in of]
    badly_exemplified = [
        (field, example)
        for field, of in schema["properties"].items()
        for example in of.get("examples", ())
        if not Draft202012Validator(of).is_valid(example)
    ]

    assert undescribed == badly_exemplified == []
    assert schema["description"]
    assert [faults(name, example) for example in schema["examples"]] == [[]] * len(schema["examples"]) != []


@each_contract
def test_only_the_request_contract_refuses_unknown_fields(name: str) -> None:
    example = SCHEMAS[name]["examples"][0]

    assert bool(faults(name, example | {"a_new_field": 1})) == (name == REQUEST)


# Requests

VALID: dict[str, Any] = {**LABELLED, **NAMED, "deadline_seconds": 120}

ONLY_THE_PARSER: list[dict[str, Any]] = [
    {"payee": "alice"},
    {"fee": "48.2"},
    {"amount": "48.201"},
    {"amount": "48.20", "currency": "JPY", "fee": "0"},
    {"amount": "9" * 14},
    {"currency": "GBP"},
    {"deadline_seconds": 60.0},
    {"key": "order-2026-000101\n"},
    {"payer": "alice\n"},
    {"amount": "48.20\n"},
    {"currency": "EUR\n"},
    {"payer_name": "Alice\n"},
    {"payee_name": "Bob\u202e"},
    {"payee_name": "\u3000\xa0"},
    {"payee_name": "\u200c \u200d"},
    {"reference": "\u0958" * 33},
    {"metadata": {"cart": "a\u202e"}},
    {"metadata": {"cart": "a\n"}},
    {"metadata": {"cart\n": "a"}},
    {"metadata": dict.fromkeys("abcde", "é" * 64)},
    {"payee_name": "\u0958" * 51},  # its composed form is longer than it is written
]
"""Requests that the parser refuses, but that a schema, or some validators, cannot."""


def refusal(request: Any, config: StageConfig) -> str | None:
    try:
        parse_request(request, config)
    except InvalidRequest as refused:
        return str(refused)
    return None


DECIMAL = r"(0|[1-9][0-9]*)(\.[0-9]+)?\n?"


def excused(problem: str, request: dict[str, Any]) -> bool:
    """Return whether the parser's problem is one that a schema cannot express."""
    name, _, expected = problem.partition(": ")
    name, _, member = name.encode().decode("unicode_escape").partition(".")
    value = request[name][member] if member else request[name]
    if expected.startswith(("must be a string that matches ", "its name must match ")):
        return bool((member or value).endswith("\n"))
    if expected.startswith("must be a decimal string with "):
        return re.fullmatch(DECIMAL, value) is not None
    if expected.startswith("must be one of "):
        return re.fullmatch(r"[A-Z][A-Z0-9]{2,11}\n?", value) is not None
    if expected.startswith("must be a whole number from "):
        return type(value) is float and value.is_integer() and 30 <= value <= 86_400
    if expected.startswith("must be printable text of "):
        composed = unicodedata.normalize("NFC", value)
        return not value.isprintable() or len(composed) > len(value)
    return problem in (
        "payee: must be another account than the payer's",
        "fee: must be less than the amount",
        "metadata: must be at most 512 bytes as compact JSON in UTF-8",
    )


def test_schema_and_parser_have_the_same_fields(config: StageConfig) -> None:
    schema, told = SCHEMAS[REQUEST], refusal(VALID | {"note": ""}, config)
    missing = refusal({}, config)

    fields = [name for name in schema["properties"] if name != STARTED_BY]
    assert told == f"note: unknown field; the fields are {', '.join(fields)}"
    assert refusal(VALID | {STARTED_BY: "arn:aws:states"}, config) is None
    assert missing == "; ".join(f"{name}: missing" for name in sorted(schema["required"]))


def test_schema_and_parser_have_the_same_patterns_and_bounds() -> None:
    fields = SCHEMAS[REQUEST]["properties"]
    seconds = fields["deadline_seconds"]

    assert fields["key"]["pattern"] == f"^{KEY.pattern}$"
    assert fields["payer"]["pattern"] == fields["payee"]["pattern"] == f"^{ACCOUNT.pattern}$"
    assert (seconds["minimum"], seconds["maximum"]) == (DEADLINE_SECONDS_MIN, DEADLINE_SECONDS_MAX)
    assert {fields[name]["maxLength"] for name in NAMES} == {NAME_LENGTH_MAX}
    metadata = fields["metadata"]
    assert fields["reference"]["maxLength"] == REFERENCE_LENGTH_MAX
    assert metadata["maxProperties"] == METADATA_MEMBERS_MAX
    assert metadata["propertyNames"]["pattern"] == f"^{METADATA_NAME.pattern}$"
    assert metadata["additionalProperties"]["maxLength"] == METADATA_VALUE_LENGTH_MAX
    assert f"At most {METADATA_BYTES_MAX} bytes" in metadata["description"]
    texts = (*(fields[name] for name in NAMES), fields["reference"], metadata["additionalProperties"])
    assert len({text["pattern"] for text in texts}) == 1


@pytest.mark.parametrize("stage", STAGES)
def test_the_contract_states_the_stages_default_deadline(stage: str) -> None:
    seconds = StageConfig.from_json(STAGES[stage].stage_config).deadline_seconds

    assert f"({seconds})" in SCHEMAS[REQUEST]["properties"]["deadline_seconds"]["description"]


@pytest.mark.parametrize(
    ("currency", "amount"),
    [("EUR", "9" * 13 + ".99"), ("KWD", "1.234"), ("JPY", "9" * 15), ("CO2", "0.001"), ("POINTS", "1")],
)
def test_the_longest_and_most_precise_amounts_are_accepted(
    currency: str, amount: str, config: StageConfig
) -> None:
    request = VALID | {"currency": currency, "amount": amount, "fee": "0"}

    assert (refusal(request, config), faults(REQUEST, request)) == (None, [])


@pytest.mark.parametrize("changes", ONLY_THE_PARSER, ids=ascii)
def test_faults_that_only_the_parser_can_find_are_listed(
    changes: dict[str, Any], config: StageConfig
) -> None:
    request = VALID | changes

    told = refusal(request, config)

    assert (refusal(VALID, config), faults(REQUEST, VALID)) == (None, [])
    assert told is not None
    assert ";" not in told
    assert faults(REQUEST, request) == []
    assert excused(told, request)


@pytest.mark.parametrize("field", VALID)
@pytest.mark.parametrize(
    "value", [*NO_AMOUNTS, "", "x", "a b", "k" * 65, "0", "0.00", "eur", 29, 86_401, 60.5]
)
def test_the_parser_refuses_every_request_that_the_schema_refuses(
    field: str, value: Any, config: StageConfig
) -> None:
    agree(VALID | {field: value}, config)


@pytest.mark.parametrize("name", [" " * 100 + "A", "A" + "\u3000" * 100, "e\u0308" * 100])
def test_only_the_schema_refuses_a_name_too_long_before_normalisation(name: str, config: StageConfig) -> None:
    request = VALID | {"payer_name": name}

    assert refusal(request, config) is None
    assert faults(REQUEST, request)
    agree(request, config)


def agree(request: dict[str, Any], config: StageConfig) -> None:
    """Check that schema and parser agree, except on faults that a schema cannot express."""
    told, found = refusal(request, config), faults(REQUEST, request)

    if told is None:
        kept = parse_request(request, config)  # the stack counts a name as it keeps it, the schema as written
        written = {name: getattr(kept, name) for name in (*NAMES, *LABELS) if request.get(name)}
        assert faults(REQUEST, request | written) == []
    elif not found:
        assert [problem for problem in told.split("; ") if not excused(problem, request)] == []


GARBAGE: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.just([])
)
AMOUNTS = st.from_regex(r"[0-9]{1,16}(\.[0-9]{0,5})?\n?", fullmatch=True)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "key": st.from_regex(r"[A-Za-z0-9_.-]{14,66}\n?", fullmatch=True),
    "payer": st.from_regex(r"[A-Za-z0-9_.:-]{0,66}\n?", fullmatch=True) | st.just("bob"),
    "payee": st.from_regex(r"[A-Za-z0-9_.:-]{0,66}\n?", fullmatch=True) | st.just("alice"),
    "amount": AMOUNTS,
    "currency": st.sampled_from(
        ["EUR", "JPY", "KWD", "CO2", "POINTS", "GBP", "eur", "EUR\n", "EURO", "POINTS\n", "CO", "2CO"]
    ),
    "fee": AMOUNTS,
    "deadline_seconds": st.integers(0, 90_000) | st.floats(0, 90_000).map(round).map(float),
    "payer_name": st.text(max_size=101)
    | st.sampled_from([" ", " Alice ", "A" * 100, "A" * 101, "\x85", " " * 100 + "A", "e\u0308" * 51]),
    "payee_name": st.text(max_size=101) | st.sampled_from([" Bob\u3000", "\u3000", "\u200c", "\u0958" * 51]),
    "reference": st.text(max_size=65) | st.sampled_from([" ", " R\u3000", "\u0958" * 33, "e\u0308" * 40]),
    "metadata": st.dictionaries(
        st.text("aZ0_.- \n", min_size=1, max_size=33),
        st.text(max_size=65) | st.sampled_from(["é" * 64, "\u0958" * 33, "e\u0308" * 40, " x "]),
        max_size=9,
    ),
    "note": st.just(""),
    STARTED_BY: GARBAGE,
}


@given(
    changes=st.dictionaries(st.sampled_from(list(FIELDS)), st.none(), max_size=3).flatmap(
        lambda names: st.fixed_dictionaries({name: st.one_of(FIELDS[name], GARBAGE) for name in names})
    ),
    left_out=st.sets(st.sampled_from(list(VALID)), max_size=2),
)
def test_schema_and_parser_agree_on_every_request(
    changes: dict[str, Any], left_out: set[str], config: StageConfig
) -> None:
    agree({name: value for name, value in (VALID | changes).items() if name not in left_out}, config)


@pytest.mark.parametrize("value", [None, [], [VALID], "", 0, True, json.dumps(VALID)], ids=repr)
def test_only_an_object_is_a_request(value: Any, config: StageConfig) -> None:
    assert faults(REQUEST, value)
    assert refusal(value, config)


def shown() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (file name, request) for each request in the examples and docs."""
    for line in (PROJECT / "examples" / "settlements.jsonl").read_text().splitlines():
        yield "settlements.jsonl", json.loads(line)
    for path in (
        PROJECT / "README.md",
        *(PROJECT / "docs").rglob("*.md"),
        *(PROJECT / "examples").rglob("*.py"),
    ):
        for found in re.findall(r'\{[^{}]*"payer"[^{}]*\}', path.read_text()):
            if '"key", "' not in found and '"status"' not in found:  # a list of fields, an outcome
                yield path.name, json.loads(found)


SHOWN = list(shown())
REFUSED_EXAMPLES = {"order-2026-000110": True, "order-2026-000111": False}
"""Refused examples, and whether the schema refuses them too: it refuses a JSON number, but not half a yen."""


def test_the_test_finds_the_requests_shown_on_pages() -> None:
    assert {"settlements.jsonl", "start.md", "starting.md"} <= {where for where, _ in SHOWN}


@pytest.mark.parametrize(("where", "request_shown"), SHOWN)
def test_every_request_shown_on_a_page_is_valid(
    where: str, request_shown: dict[str, Any], config: StageConfig
) -> None:
    refused = where == "settlements.jsonl" and request_shown["key"] in REFUSED_EXAMPLES

    assert bool(refusal(request_shown, config)) == refused
    assert bool(faults(REQUEST, request_shown)) == (refused and REFUSED_EXAMPLES[request_shown["key"]])
