"""The published contracts are sound, and that of the request says what its parser does."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from infra.settings import STAGES
from settlement.errors import InvalidRequest
from settlement.request import (
    ACCOUNT,
    DEADLINE_SECONDS_MAX,
    DEADLINE_SECONDS_MIN,
    KEY,
    parse_request,
)
from settlement.terms import Terms
from tests.support.templates import PROJECT
from tests.unit.contracts import CIRCUIT, CONTRACTS, ENTERED, OUTCOME, REQUEST, RESOLVED, SCHEMAS, faults
from tests.unit.test_money import NO_AMOUNTS

each_contract = pytest.mark.parametrize("name", SCHEMAS)

# The files


def test_there_is_a_contract_for_all_that_comes_in_and_goes_out() -> None:
    assert SCHEMAS.keys() == {REQUEST, OUTCOME, ENTERED, RESOLVED, CIRCUIT}


@each_contract
def test_a_contract_is_a_schema_of_its_draft(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])

    assert SCHEMAS[name]["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert SCHEMAS[name]["$id"] == f"urn:settlement:{name}"


@each_contract
def test_a_contract_says_what_it_means_and_keeps_to_its_own_examples(name: str) -> None:
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
def test_requests_are_closed_and_all_else_is_open(name: str) -> None:
    example = SCHEMAS[name]["examples"][0]

    assert bool(faults(name, example | {"a_new_field": 1})) == (name == REQUEST)


@each_contract
def test_the_overview_names_every_contract(name: str) -> None:
    assert f"[`{name}`]({name}.schema.json)" in (CONTRACTS / "README.md").read_text()


# Requests

VALID: dict[str, Any] = {
    "key": "order-2026-000101",
    "payer": "alice",
    "payee": "bob",
    "amount": "48.20",
    "currency": "EUR",
    "fee": "0.48",
    "deadline_seconds": 120,
}

ONLY_THE_PARSER = {
    "payer and payee are one": ({"payee": "alice"}, "payee: must be another account than the payer's"),
    "the fee is the amount": ({"fee": "48.2"}, "fee: must be less than the amount"),
    "too many decimals for the currency": ({"amount": "48.201"}, "amount: must be a decimal string with "),
    "decimals without the currency having any": (
        {"amount": "48.20", "currency": "JPY", "fee": "0"},
        "amount: must be a decimal string with no decimals",
    ),
    "too many digits for the currency": ({"amount": "9" * 14}, "amount: must be a decimal string with "),
    "a currency that the stage does not accept": ({"currency": "GBP"}, "currency: must be one of "),
    "a whole number written with a fraction": (
        {"deadline_seconds": 60.0},
        "deadline_seconds: must be a whole number from ",
    ),
    "a line break after a key": ({"key": "order-2026-000101\n"}, "key: must be a string that matches "),
    "a line break after an account": ({"payer": "alice\n"}, "payer: must be a string that matches "),
    "a line break after an amount": ({"amount": "48.20\n"}, "amount: must be a decimal string with "),
    "a line break after a currency": ({"currency": "EUR\n"}, "currency: must be one of "),
}
"""What a schema cannot say, or not to each validator, and what InvalidRequest says of it instead."""


def refusal(request: Any, terms: Terms) -> str | None:
    """What the parser has against a request; None where it takes it."""
    try:
        parse_request(request, terms)
    except InvalidRequest as refused:
        return str(refused)
    return None


DECIMAL = r"(0|[1-9][0-9]*)(\.[0-9]+)?\n?"


def excused(problem: str, request: dict[str, Any]) -> bool:
    """Whether what the parser has against a request is one of the things that a schema cannot see."""
    name, _, expected = problem.partition(": ")
    value = request[name]
    if expected.startswith("must be a string that matches "):
        return bool(value.endswith("\n"))
    if expected.startswith("must be a decimal string with "):
        return re.fullmatch(DECIMAL, value) is not None
    if expected.startswith("must be one of "):
        return re.fullmatch(r"[A-Z]{3}\n?", value) is not None
    if expected.startswith("must be a whole number from "):
        return type(value) is float and value.is_integer() and 30 <= value <= 86_400
    return problem in (
        "payee: must be another account than the payer's",
        "fee: must be less than the amount",
    )


def test_the_schema_knows_the_fields_that_the_parser_knows(terms: Terms) -> None:
    schema, told = SCHEMAS[REQUEST], refusal(VALID | {"note": ""}, terms)
    missing = refusal({}, terms)

    assert told == f"note: unknown field; the fields are {', '.join(schema['properties'])}"
    assert missing == "; ".join(f"{name}: missing" for name in sorted(schema["required"]))


def test_the_schema_knows_keys_and_accounts_as_the_parser_does() -> None:
    patterns = {name: of.get("pattern") for name, of in SCHEMAS[REQUEST]["properties"].items()}

    assert patterns["key"] == f"^{KEY.pattern}$"
    assert patterns["payer"] == patterns["payee"] == f"^{ACCOUNT.pattern}$"


@pytest.mark.parametrize(
    ("currency", "amount"), [("EUR", "9" * 13 + ".99"), ("KWD", "1.234"), ("JPY", "9" * 15)]
)
def test_the_longest_and_most_precise_amounts_are_taken(currency: str, amount: str, terms: Terms) -> None:
    request = VALID | {"currency": currency, "amount": amount, "fee": "0"}

    assert (refusal(request, terms), faults(REQUEST, request)) == (None, [])


@pytest.mark.parametrize("stage", STAGES)
def test_the_bounds_of_a_deadline_are_the_parsers_and_its_default_is_the_stages(stage: str) -> None:
    terms, bounds = Terms.from_json(STAGES[stage].terms), SCHEMAS[REQUEST]["properties"]["deadline_seconds"]

    assert (bounds["minimum"], bounds["maximum"]) == (DEADLINE_SECONDS_MIN, DEADLINE_SECONDS_MAX)
    assert f"({terms.deadline_seconds})" in bounds["description"]


def test_a_valid_request_is_one_by_schema_and_parser(terms: Terms) -> None:
    assert (refusal(VALID, terms), faults(REQUEST, VALID)) == (None, [])


@pytest.mark.parametrize("what", ONLY_THE_PARSER)
def test_what_only_the_parser_refuses_is_known(what: str, terms: Terms) -> None:
    changes, message = ONLY_THE_PARSER[what]
    request = VALID | changes

    told = refusal(request, terms)

    assert told is not None
    assert told.startswith(message)
    assert ";" not in told
    assert faults(REQUEST, request) == []
    assert excused(told, request)


@pytest.mark.parametrize("field", VALID)
@pytest.mark.parametrize(
    "value", [*NO_AMOUNTS, "", "x", "a b", "k" * 65, "0", "0.00", "eur", 29, 86_401, 60.5]
)
def test_what_the_schema_refuses_the_parser_refuses(field: str, value: Any, terms: Terms) -> None:
    agree(VALID | {field: value}, terms)


def agree(request: dict[str, Any], terms: Terms) -> None:
    """Both take the request, or both refuse it, or the parser does for what the schema cannot see."""
    told, found = refusal(request, terms), faults(REQUEST, request)

    if told is None:
        assert found == []
    elif not found:
        assert [problem for problem in told.split("; ") if not excused(problem, request)] == []


GARBAGE = (
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
    "currency": st.sampled_from(["EUR", "JPY", "KWD", "USD", "GBP", "eur", "EUR\n", "EURO"]),
    "fee": AMOUNTS,
    "deadline_seconds": st.integers(0, 90_000) | st.floats(0, 90_000).map(round).map(float),
    "note": st.just(""),
}


@given(
    changes=st.dictionaries(st.sampled_from(list(FIELDS)), st.none(), max_size=3).flatmap(
        lambda names: st.fixed_dictionaries({name: st.one_of(FIELDS[name], GARBAGE) for name in names})
    ),
    left_out=st.sets(st.sampled_from(list(VALID)), max_size=2),
)
def test_schema_and_parser_agree_on_every_request(
    changes: dict[str, Any], left_out: set[str], terms: Terms
) -> None:
    agree({name: value for name, value in (VALID | changes).items() if name not in left_out}, terms)


@pytest.mark.parametrize("value", [None, [], [VALID], "", 0, True, json.dumps(VALID)], ids=repr)
def test_what_is_no_object_is_no_request(value: Any, terms: Terms) -> None:
    assert faults(REQUEST, value)
    assert refusal(value, terms)


def shown() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every request that the repository shows, by where it stands: in the examples, and in the docs."""
    for line in (PROJECT / "examples" / "settlements.jsonl").read_text().splitlines():
        yield "settlements.jsonl", json.loads(line)
    for path in (
        PROJECT / "README.md",
        *(PROJECT / "docs").rglob("*.md"),
        *(PROJECT / "examples").rglob("*.py"),
    ):
        for found in re.findall(r'\{[^{}]*"payer"[^{}]*\}', path.read_text()):
            if '"key", "' not in found:  # the list of fields, not a request
                yield path.name, json.loads(found)


SHOWN = list(shown())
REFUSED_EXAMPLES = {"order-2026-000110": True, "order-2026-000111": False}
"""Examples of what is refused, and whether the schema sees it: a JSON number does, half a yen does not."""


def test_the_requests_that_are_shown_are_found() -> None:
    assert {"settlements.jsonl", "README.md", "starting.md"} <= {where for where, _ in SHOWN}


@pytest.mark.parametrize(("where", "request_shown"), SHOWN)
def test_every_request_that_is_shown_is_one(where: str, request_shown: dict[str, Any], terms: Terms) -> None:
    refused = where == "settlements.jsonl" and request_shown["key"] in REFUSED_EXAMPLES

    assert bool(refusal(request_shown, terms)) == refused
    assert bool(faults(REQUEST, request_shown)) == (refused and REFUSED_EXAMPLES[request_shown["key"]])
