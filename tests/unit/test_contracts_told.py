"""Outcomes at every point of a settlement's life, and events, keep the published contracts."""

import json
import os
from typing import Any

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import CircuitState
from hypothesis import given
from hypothesis import strategies as st

from handlers import _kyc
from settlement.ledger import forward
from settlement.model.orders import Decision
from settlement.model.state import SettlementState
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.policy import compensation, outcome
from settlement.policy.pager import PagerConfig, resolution_notice
from tests.conftest import NOW
from tests.support.contracts import checked_outcome
from tests.unit.books import Books, claimed, compensating, in_limbo
from tests.unit.contracts import CIRCUIT, ENTERED, OUTCOME, RESOLVED, SCHEMAS, faults
from tests.unit.vectors import CONFIG, FAILURE, SETTLEMENT

# Outcomes


def rejected() -> Books:
    books = claimed(0)
    books.table.write(forward.reject(SETTLEMENT, FAILURE | {"step": "hold"}, NOW))
    return books


def compensated(committed: int) -> Books:
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
    **{f"{count} steps to reverse": (lambda count=count: compensating(count)) for count in range(1, 5)},
    **{f"{count} steps reversed": (lambda count=count: compensated(count)) for count in range(1, 5)},
    "in LIMBO": lambda: in_limbo(4, Step.RELEASE),
    **{f"decided: {decision}": (lambda decision=decision: decided(decision)) for decision in Decision},
}
"""A settlement at every point of its life."""


def told(life: str, *, replayed: bool = False) -> dict[str, Any]:
    state = LIVES[life]().state()
    wire: dict[str, Any] = json.loads(json.dumps(outcome.of_state(state, CONFIG, replayed=replayed)))
    return wire


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("replayed", [True, False])
def test_an_outcome_keeps_its_contract_at_every_point_of_a_life(life: str, replayed: bool) -> None:
    outcome_told = told(life, replayed=replayed)

    assert faults(OUTCOME, outcome_told) == []
    assert checked_outcome(outcome_told) is outcome_told


def test_the_lives_reach_every_status_of_the_contract() -> None:
    reached = {told(life)["status"] for life in LIVES}

    assert reached == set(Status) == set(SCHEMAS[OUTCOME]["properties"]["status"]["enum"])


def test_an_outcome_has_the_fields_of_its_contract_and_no_others() -> None:
    outcome_told = told("in LIMBO")

    assert list(outcome_told) == SCHEMAS[OUTCOME]["required"] == list(SCHEMAS[OUTCOME]["properties"])


@pytest.mark.parametrize("currency", ["EUR", "JPY", "KWD"])
def test_an_outcome_keeps_its_contract_in_every_currency(currency: str) -> None:
    state = SettlementState.from_row(claimed(2).row() | {"currency": currency})

    assert faults(OUTCOME, outcome.of_state(state, CONFIG, replayed=False)) == []


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
"""Values that each field of an outcome must never have."""


def test_every_field_of_an_outcome_has_wrong_values() -> None:
    assert list(WRONG) == SCHEMAS[OUTCOME]["required"]


@pytest.mark.parametrize(("field", "value"), [(field, value) for field in WRONG for value in WRONG[field]])
@pytest.mark.parametrize("life", ["2 steps committed", "4 steps committed", "in LIMBO"])
def test_an_outcome_with_a_mistyped_field_breaks_the_contract(life: str, field: str, value: Any) -> None:
    mistyped = told(life) | {field: value}

    assert faults(OUTCOME, mistyped)
    with pytest.raises(AssertionError, match="breaks the contract"):
        checked_outcome(mistyped)


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
        ("2 steps to reverse", {"failure": None}),
        ("2 steps reversed", {"finished_at": None}),
        ("2 steps reversed", {"escrow": "48.20"}),
        ("2 steps reversed", {"failure": None}),
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
    with pytest.raises(AssertionError, match="breaks the contract"):
        checked_outcome(told(life) | changes)


def test_the_steps_of_the_contract_are_those_of_the_code() -> None:
    properties = SCHEMAS[OUTCOME]["properties"]

    assert properties["steps"]["items"]["enum"] == list(Step)
    assert properties["reversed"]["items"]["enum"] == [step for step in Step if step is not Step.VERIFY]


@given(error=st.text(), cause=st.text())
def test_every_failure_keeps_its_contract(error: str, cause: str) -> None:
    failure = outcome.failure("hold", {"Error": error, "Cause": cause})

    assert faults(OUTCOME, SCHEMAS[OUTCOME]["examples"][1] | {"failure": failure}) == []


# Events

PAGER = PagerConfig.from_json(os.environ["PAGER"])


def alert(stuck: Step = Step.RELEASE) -> dict[str, Any]:
    state = in_limbo(4, stuck).state()
    case = compensation.stuck_case(state)
    return on_the_bus(PAGER.alert(state, case, CONFIG, number=1, execution="arn:execution"))


def on_the_bus(detail: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(json.dumps(detail))
    return told


def notice(decision: Decision) -> dict[str, Any]:
    return on_the_bus(resolution_notice(SETTLEMENT.key, 1, in_limbo(4, Step.RELEASE).resolve(decision)))


def announced(state: CircuitState, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the event that VerifyKyc puts on the bus when the circuit changes."""
    sent: list[dict[str, Any]] = []

    class Bus:
        def put_events(self, *, Entries: list[dict[str, Any]]) -> dict[str, int]:  # noqa: N803
            sent.extend(Entries)
            return {"FailedEntryCount": 0}

    monkeypatch.setattr(_kyc, "_events", Bus())
    _kyc._changed(state)
    (entry,) = sent
    assert entry["DetailType"] == "KycCircuitChanged"
    detail: dict[str, Any] = json.loads(entry["Detail"])
    return detail


@pytest.mark.parametrize("stuck", REVERSIBLE)
def test_an_alert_keeps_its_contract_for_every_stuck_step(stuck: Step) -> None:
    assert faults(ENTERED, alert(stuck)) == []


def test_an_alert_after_a_refused_decision_keeps_its_contract() -> None:
    assert faults(ENTERED, alert() | {"refused": "complete: there is no release left"}) == []
    assert faults(ENTERED, alert() | {"refused": None})


@pytest.mark.parametrize("decision", Decision)
def test_the_notice_of_a_decision_keeps_its_contract(decision: Decision) -> None:
    assert faults(RESOLVED, notice(decision)) == []


@pytest.mark.parametrize("state", CircuitState)
def test_the_event_of_the_circuit_keeps_its_contract(
    state: CircuitState, monkeypatch: pytest.MonkeyPatch
) -> None:
    detail = announced(state, monkeypatch)

    assert faults(CIRCUIT, detail) == []
    assert list(detail) == SCHEMAS[CIRCUIT]["required"] == list(SCHEMAS[CIRCUIT]["properties"])


def test_the_contracts_have_every_decision_every_state_and_every_reversal() -> None:
    enums = {
        ENTERED: ("stuck_step", {step.reversal for step in REVERSIBLE}),
        RESOLVED: ("decision", set(Decision)),
        CIRCUIT: ("state", {state.value for state in CircuitState}),
    }

    for name, (field, expected) in enums.items():
        assert set(SCHEMAS[name]["properties"][field]["enum"]) == expected


@pytest.mark.parametrize("name", [ENTERED, RESOLVED, CIRCUIT])
def test_an_event_with_a_field_missing_renamed_or_mistyped_breaks_its_contract(name: str) -> None:
    whole = {ENTERED: alert(), RESOLVED: notice(Decision.RETRY), CIRCUIT: SCHEMAS[CIRCUIT]["examples"][0]}[
        name
    ]

    assert list(whole) == SCHEMAS[name]["required"]
    for field in whole:
        without = {other: value for other, value in whole.items() if other != field}
        assert faults(name, without), field
        assert faults(name, without | {field.upper(): whole[field]}), field
        assert faults(name, whole | {field: None}), field
        assert faults(name, whole | {field: [whole[field]]}), field
