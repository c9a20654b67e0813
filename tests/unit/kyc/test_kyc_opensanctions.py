"""OpenSanctions' match API: no answer of any shape approves a listed party.

The answers in `recorded/` follow https://www.opensanctions.org/docs/api/matching/; entities are invented.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from settlement.core.model.errors import KycRequestRefused
from settlement.core.model.verdict import REASON_LENGTH_MAX, REFERENCE, KycDecision, Verdict
from settlement.kyc import opensanctions as kyc_opensanctions
from settlement.kyc.client import PROVIDERS
from tests.unit.vectors import CONFIG, SETTLEMENT

NAMED = replace(SETTLEMENT, payer_name="Alice Muster", payee_name="Bob Muster")
RECORDED = Path(__file__).parents[1] / "recorded"
JUNK: list[Any] = [None, True, 0, 1, -7, "", "x", [], ["x"], [[]], {}, {"x": "y"}]

Trail = tuple[str | int, ...]


def recorded(name: str) -> Any:
    """Return a recorded answer as the client parses it, with floats as text."""
    return json.loads((RECORDED / f"opensanctions.{name}.json").read_text(), parse_float=str)


def read(content: object) -> Verdict:
    return kyc_opensanctions.read(content, SETTLEMENT)


def trails(content: Any, trail: Trail = ()) -> Iterator[Trail]:
    members = content.items() if isinstance(content, dict) else enumerate(content)
    for name, member in members:
        yield (*trail, name)
        if isinstance(member, dict | list):
            yield from trails(member, (*trail, name))


def at(content: Any, trail: Trail) -> Any:
    for name in trail:
        content = content[name]
    return content


def replaced(name: str, trail: Trail, value: Any) -> Any:
    content = recorded(name)
    at(content, trail[:-1])[trail[-1]] = value
    return content


# The question


def test_the_provider_has_its_own_path_and_authorization_scheme() -> None:
    assert PROVIDERS["opensanctions"] is kyc_opensanctions
    assert kyc_opensanctions.path("sanctions") == "/match/sanctions"
    assert kyc_opensanctions.authorization("canary") == "ApiKey canary"


def test_the_query_contains_both_parties_names_and_no_amount() -> None:
    body = kyc_opensanctions.body(NAMED, CONFIG)

    assert body == {
        "queries": {
            "payer": {"schema": "LegalEntity", "properties": {"name": ["Alice Muster"]}},
            "payee": {"schema": "LegalEntity", "properties": {"name": ["Bob Muster"]}},
        }
    }


@pytest.mark.parametrize(
    ("missing", "fields"),
    [
        ({"payer_name": None}, "payer_name"),
        ({"payee_name": None}, "payee_name"),
        ({"payer_name": None, "payee_name": None}, "payer_name, payee_name"),
    ],
    ids=str,
)
def test_a_request_without_a_name_is_refused(missing: dict[str, Any], fields: str) -> None:
    """An id would match no listed party, so the payment would be approved without a screening."""
    with pytest.raises(KycRequestRefused) as refused:
        kyc_opensanctions.body(replace(NAMED, **missing), CONFIG)

    assert str(refused.value) == f"kyc: the provider screens by name; the request has no {fields}"


def test_the_recorded_answers_belong_to_the_tested_query() -> None:
    queries = kyc_opensanctions.body(NAMED, CONFIG)["queries"]

    for path in RECORDED.glob("opensanctions.*.json"):
        responses = json.loads(path.read_text())["responses"]
        asked = {party: response["query"] for party, response in responses.items()}
        assert asked == {party: {"id": None, **query} for party, query in queries.items()}, path


# The answer

PAYER = "payer: NK-7tGzMfFHJTuQ8JhAAz9uYi in us_ofac_sdn, eu_fsf, score 0.93"
PAYEE = "payee: NK-9kWqLmN2bVcXzAsDfGhJkP in un_sc_sanctions, score 1.0"


@pytest.mark.parametrize(
    ("name", "decision", "reason"),
    [
        ("no_match", KycDecision.APPROVED, "no listed party matches"),
        ("near_miss", KycDecision.APPROVED, "no listed party matches"),
        ("payer_matches", KycDecision.REVIEW, PAYER),
        ("payee_matches", KycDecision.REVIEW, PAYEE),
        ("both_match", KycDecision.REVIEW, f"{PAYER}; {PAYEE}"),
    ],
)
def test_a_match_of_either_party_needs_a_persons_decision(
    name: str, decision: KycDecision, reason: str
) -> None:
    assert read(recorded(name)) == Verdict(
        decision=decision, reference=f"{SETTLEMENT.key}:verify", reason=reason, provider="opensanctions"
    )


def test_a_verdicts_reason_contains_no_listed_name() -> None:
    verdict = read(recorded("payer_matches"))

    assert REFERENCE.fullmatch(verdict.reference)
    assert "Petrova" not in verdict.reason


def test_a_reason_with_many_matches_is_cut() -> None:
    content = recorded("both_match")
    content["responses"]["payer"]["results"] *= 40

    verdict = read(content)

    assert verdict.decision is KycDecision.REVIEW
    assert len(verdict.reason) == REASON_LENGTH_MAX


def test_control_characters_from_a_list_are_removed() -> None:
    content = replaced("payer_matches", ("responses", "payer", "results", 0, "id"), "NK\x1b[2J\n")

    assert read(content).reason.startswith("payer: NK [2J  in us_ofac_sdn")


# Malformed answers

PAYER_STATUS, PAYEE_STATUS = (("responses", party, "status") for party in ("payer", "payee"))
PAYEE_RESULTS: Trail = ("responses", "payee", "results")
NO_LISTS: list[Any] = [None, "", "x", {}, {"0": {}}, 0]
NO_RESULTS: list[Any] = [None, 0, "x", [], ["match"], {}]
NO_STATUS: list[Any] = [404, 422, 429, 500, "200", None, "200.0"]


def test_an_answer_with_a_failed_query_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^body: a query has failed$"):
        read(recorded("query_failed"))


@pytest.mark.parametrize("content", [*JUNK, {"responses": None}, {"responses": {}}], ids=repr)
def test_an_answer_without_responses_is_refused(content: Any) -> None:
    with pytest.raises(ValueError, match=r"^body: "):
        read(content)


@pytest.mark.parametrize(
    "trail",
    [
        ("responses",),
        *(
            ("responses", party, *rest)
            for party in ("payer", "payee")
            for rest in ((), ("status",), ("results",))
        ),
        *(("responses", "payer", "results", 0, name) for name in ("id", "datasets", "score", "match")),
    ],
    ids=str,
)
def test_an_answer_lacking_a_deciding_field_is_refused(trail: Trail) -> None:
    content = recorded("payer_matches")
    del at(content, trail[:-1])[trail[-1]]

    with pytest.raises(ValueError, match=r"^body: "):
        read(content)


MALFORMED = [
    *((trail, status) for trail in (PAYER_STATUS, PAYEE_STATUS) for status in NO_STATUS),
    *((PAYEE_RESULTS, results) for results in NO_LISTS),
    *(((*PAYEE_RESULTS, 0), result) for result in NO_RESULTS),
]


@pytest.mark.parametrize(("trail", "value"), MALFORMED, ids=str)
def test_a_failed_query_or_malformed_result_is_refused(trail: Trail, value: Any) -> None:
    told = r"^body: " if trail[-1] == 0 else r"^body: a query has failed$"
    with pytest.raises(ValueError, match=told):
        read(replaced("near_miss", trail, value))


@pytest.mark.parametrize("match", [value for value in JUNK if value is not False], ids=repr)
def test_only_false_counts_as_no_match(match: Any) -> None:
    verdict = read(replaced("near_miss", ("responses", "payee", "results", 0, "match"), match))

    assert verdict.decision is KycDecision.REVIEW


@pytest.mark.parametrize("name", ["payer_matches", "payee_matches"])
def test_no_single_damaged_field_turns_a_match_into_approval(name: str) -> None:
    spoilt = [
        (trail, value)
        for trail in trails(recorded(name))
        for value in JUNK
        if not (trail[-1] == "results" and value == [])  # an answer without a match has an empty list
    ]

    assert len(spoilt) > 500
    for trail, value in spoilt:
        try:
            verdict = read(replaced(name, trail, value))
        except ValueError:
            continue
        assert verdict.decision is KycDecision.REVIEW, (trail, value)
