"""What we tell keeps the published contracts: outcomes at every point of a life, and events."""

import json
import os
from typing import Any

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import CircuitState
from hypothesis import given
from hypothesis import strategies as st

from handlers import _provider
from settlement import compensation, items, outcome
from settlement.paging import Paging, resolved
from settlement.resolution import Decision
from settlement.status import REVERSIBLE, Status, Step
from tests.conftest import NOW
from tests.unit.books import Books, claimed, compensating, in_limbo
from tests.unit.contracts import CIRCUIT, ENTERED, OUTCOME, RESOLVED, SCHEMAS, faults
from tests.unit.vectors import FAILURE, SETTLEMENT, TERMS

# Outcomes


def rejected() -> Books:
    books = claimed(0)
    books.table.write(items.reject(SETTLEMENT, FAILURE | {"step": "hold"}, NOW))
    return books


def given_back(committed: int) -> Books:
    books = compensating(committed)
    books.finish()
    return books


def decided(decision: Decision) -> Books:
    books = in_limbo(3, Step.RELEASE)
    books.resolve(decision)
    return books


LIVES = {
    **{f"{count} steps committed": (lambda count=count: claimed(count)) for count in range(5)},
    "rejected": rejected,
    **{f"{count} steps to give back": (lambda count=count: compensating(count)) for count in range(1, 5)},
    **{f"{count} steps given back": (lambda count=count: given_back(count)) for count in range(1, 5)},
    "in LIMBO": lambda: in_limbo(4, Step.RELEASE),
    **{f"decided: {decision}": (lambda decision=decision: decided(decision)) for decision in Decision},
}
"""A settlement at every point of its life."""


def told(life: str, *, replayed: bool = False) -> dict[str, Any]:
    row = LIVES[life]().row()
    wire: dict[str, Any] = json.loads(
        json.dumps(outcome.of_settlement(SETTLEMENT.key, row, TERMS, replayed=replayed))
    )
    return wire


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("replayed", [True, False])
def test_an_outcome_keeps_its_contract_at_every_point_of_a_life(life: str, replayed: bool) -> None:
    assert faults(OUTCOME, told(life, replayed=replayed)) == []


def test_the_lives_reach_every_status_that_the_contract_knows() -> None:
    reached = {told(life)["status"] for life in LIVES}

    assert reached == set(Status) == set(SCHEMAS[OUTCOME]["properties"]["status"]["enum"])


def test_an_outcome_has_the_fields_of_its_contract_and_no_others() -> None:
    outcome_told = told("in LIMBO")

    assert list(outcome_told) == SCHEMAS[OUTCOME]["required"] == list(SCHEMAS[OUTCOME]["properties"])


@pytest.mark.parametrize("currency", ["EUR", "JPY", "KWD"])
def test_an_outcome_keeps_its_contract_in_every_currency(currency: str) -> None:
    row = claimed(2).row() | {"currency": currency}

    assert faults(OUTCOME, outcome.of_settlement(SETTLEMENT.key, row, TERMS, replayed=False) | {}) == []


WRONG = {
    "key": [None, 1, "short"],
    "status": [None, "processing", "DONE", 1],
    "payer": [None, 1],
    "payee": [None, 1],
    "amount": [None, 48.2, 4820, "48,20", "-1", "", "1e3"],
    "fee": [None, 0.48, "+1"],
    "currency": [None, "eur", "EURO"],
    "escrow": [None, 0, "-0.01"],
    "steps": [None, "hold", ["void"], ["hold", "hold"], {}],
    "reversed": [None, "hold", ["verify"], ["hold", "hold"]],
    "failure": ["too little", {}, {"step": "hold", "error": "E"}, {"step": 1, "error": "E", "cause": ""}, []],
    "replayed": [None, "true", 0],
    "claimed_at": [None, 0, "2026-11-20", "2026-11-20T12:00:00Z", "yesterday"],
    "finished_at": [False, "then"],
}
"""What each field of an outcome must never be."""


def test_every_field_of_an_outcome_is_known_in_wrong_forms() -> None:
    assert list(WRONG) == SCHEMAS[OUTCOME]["required"]


@pytest.mark.parametrize(("field", "value"), [(field, value) for field in WRONG for value in WRONG[field]])
@pytest.mark.parametrize("life", ["2 steps committed", "4 steps committed", "in LIMBO"])
def test_an_outcome_with_a_mistyped_field_breaks_the_contract(life: str, field: str, value: Any) -> None:
    assert faults(OUTCOME, told(life) | {field: value})


@pytest.mark.parametrize("field", WRONG)
def test_an_outcome_with_a_field_missing_or_renamed_breaks_the_contract(field: str) -> None:
    whole = told("in LIMBO")
    without = {name: value for name, value in whole.items() if name != field}

    assert faults(OUTCOME, without)
    assert faults(OUTCOME, without | {field.upper(): whole[field]})


@pytest.mark.parametrize(
    ("life", "changes"),
    [
        ("4 steps committed", {"finished_at": None}),
        ("4 steps committed", {"escrow": "0.01"}),
        ("4 steps committed", {"failure": FAILURE}),
        ("2 steps committed", {"finished_at": "2026-11-20T12:00:00.123Z"}),
        ("2 steps committed", {"failure": FAILURE}),
        ("2 steps to give back", {"failure": None}),
        ("2 steps given back", {"finished_at": None}),
        ("2 steps given back", {"escrow": "48.20"}),
        ("2 steps given back", {"failure": None}),
        ("rejected", {"failure": None}),
        ("rejected", {"finished_at": None}),
        ("in LIMBO", {"failure": None}),
        ("in LIMBO", {"finished_at": "2026-11-20T12:00:00.123Z"}),
    ],
    ids=str,
)
def test_an_outcome_is_final_or_not_in_all_of_its_fields(life: str, changes: dict[str, Any]) -> None:
    assert faults(OUTCOME, told(life)) == []
    assert faults(OUTCOME, told(life) | changes)


def test_the_steps_of_the_contract_are_the_steps_that_there_are() -> None:
    properties = SCHEMAS[OUTCOME]["properties"]

    assert properties["steps"]["items"]["enum"] == list(Step)
    assert properties["reversed"]["items"]["enum"] == [step for step in Step if step is not Step.VERIFY]


@given(error=st.text(), cause=st.text())
def test_a_failure_keeps_its_contract_whatever_has_failed(error: str, cause: str) -> None:
    failure = outcome.failure("hold", {"Error": error, "Cause": cause})

    assert faults(OUTCOME, SCHEMAS[OUTCOME]["examples"][1] | {"failure": failure}) == []


# Events

PAGING = Paging.from_json(os.environ["PAGING"])


def paged(stuck: Step = Step.RELEASE, **changes: Any) -> dict[str, Any]:
    books = in_limbo(4, stuck)
    row = books.row() | changes
    page = PAGING.page(
        SETTLEMENT, compensation.stuck(SETTLEMENT, row), row, TERMS, number=1, execution="arn:execution"
    )
    return on_the_bus(page)


def on_the_bus(detail: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(json.dumps(detail))
    return told


def news(decision: Decision) -> dict[str, Any]:
    return on_the_bus(resolved(SETTLEMENT.key, 1, in_limbo(4, Step.RELEASE).resolve(decision)))


def announced(state: CircuitState, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What VerifyKyc puts on the bus when the circuit changes."""
    sent: list[dict[str, Any]] = []

    class Bus:
        def put_events(self, *, Entries: list[dict[str, Any]]) -> dict[str, int]:  # noqa: N803
            sent.extend(Entries)
            return {"FailedEntryCount": 0}

    monkeypatch.setattr(_provider, "_events", Bus())
    _provider._changed(state)
    (entry,) = sent
    assert entry["DetailType"] == "KycCircuitChanged"
    detail: dict[str, Any] = json.loads(entry["Detail"])
    return detail


@pytest.mark.parametrize("stuck", REVERSIBLE)
def test_a_page_keeps_its_contract_whatever_is_stuck(stuck: Step) -> None:
    assert faults(ENTERED, paged(stuck)) == []


def test_a_page_after_a_refused_decision_keeps_its_contract() -> None:
    assert faults(ENTERED, paged() | {"refused": "complete: there is no release left"}) == []
    assert faults(ENTERED, paged() | {"refused": None})


@pytest.mark.parametrize("decision", Decision)
def test_the_news_of_a_decision_keeps_its_contract(decision: Decision) -> None:
    assert faults(RESOLVED, news(decision)) == []


@pytest.mark.parametrize("state", CircuitState)
def test_the_news_of_the_circuit_keeps_its_contract(
    state: CircuitState, monkeypatch: pytest.MonkeyPatch
) -> None:
    detail = announced(state, monkeypatch)

    assert faults(CIRCUIT, detail) == []
    assert list(detail) == SCHEMAS[CIRCUIT]["required"] == list(SCHEMAS[CIRCUIT]["properties"])


def test_the_contracts_know_every_decision_every_state_and_every_reversal() -> None:
    enums = {
        ENTERED: ("stuck_step", {step.reversal for step in REVERSIBLE}),
        RESOLVED: ("decision", set(Decision)),
        CIRCUIT: ("state", {state.value for state in CircuitState}),
    }

    for name, (field, expected) in enums.items():
        assert set(SCHEMAS[name]["properties"][field]["enum"]) == expected


@pytest.mark.parametrize("name", [ENTERED, RESOLVED, CIRCUIT])
def test_an_event_with_a_field_missing_renamed_or_mistyped_breaks_its_contract(name: str) -> None:
    whole = {ENTERED: paged(), RESOLVED: news(Decision.RETRY), CIRCUIT: SCHEMAS[CIRCUIT]["examples"][0]}[name]

    assert list(whole) == SCHEMAS[name]["required"]
    for field in whole:
        without = {other: value for other, value in whole.items() if other != field}
        assert faults(name, without), field
        assert faults(name, without | {field.upper(): whole[field]}), field
        assert faults(name, whole | {field: None}), field
        assert faults(name, whole | {field: [whole[field]]}), field
