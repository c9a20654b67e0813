import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.kyc import _provider as _kyc
from settlement.core.model.orders import Decision, Reversal
from settlement.core.model.settlement import LABELS
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.policy import compensation, outcome
from settlement.core.policy.pager import PagerConfig, resolution_notice
from settlement.http.circuit import State
from settlement.kyc import circuit_events
from settlement.orders import approval
from settlement.orders.requests import PartialReversal
from tests.unit import books
from tests.unit.books import LAST
from tests.unit.contracts import CIRCUIT, ENTERED, GLASS, OUTCOME, RESOLVED, SCHEMAS, faults
from tests.unit.vectors import CONFIG, FAILURE, SETTLEMENT
from tests.world.contracts import checked_outcome
from tests.world.orders import PROOF
from tests.world.saga import COMPLETE, RETRY, WRITE_OFF, Saga

# Outcomes


def rejected() -> Saga:
    saga = books.reached(None)
    saga.reject(FAILURE | {"step": "hold"})
    return saga


def reversed_after(last: Step | None) -> Saga:
    saga = books.begun(last)
    saga.unwind()
    return saga


def decided(decision: Decision) -> Saga:
    saga = books.stuck(Step.RELEASE, Step.RELEASE)
    saga.resolve({order.decision: order for order in (RETRY, WRITE_OFF, COMPLETE)}[decision])
    return saga


LIVES: dict[str, Callable[[], Saga]] = {
    **{f"committed: {last}": partial(books.reached, last) for last in LAST},
    "rejected": rejected,
    **{f"to reverse: {last}": partial(books.begun, last) for last in Step},
    **{f"reversed: {last}": partial(reversed_after, last) for last in Step},
    "in LIMBO": partial(books.stuck, Step.FEE, Step.RELEASE),
    **{f"decided: {decision}": partial(decided, decision) for decision in Decision},
}


def told(life: str, *, replayed: bool = False) -> dict[str, Any]:
    return on_the_wire(outcome.of_state(LIVES[life]().state(), CONFIG, replayed=replayed))


def on_the_wire(document: dict[str, Any]) -> dict[str, Any]:
    wire: dict[str, Any] = json.loads(json.dumps(document))
    return wire


@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("replayed", [True, False])
def test_an_outcome_keeps_its_contract_in_each_stage_of_life(life: str, replayed: bool) -> None:
    outcome_told = told(life, replayed=replayed)

    assert faults(OUTCOME, outcome_told) == []
    assert checked_outcome(outcome_told) is outcome_told
    always = [name for name in outcome_told if name != "covered"]
    assert always == SCHEMAS[OUTCOME]["required"]
    assert list(SCHEMAS[OUTCOME]["properties"]) == [*always, "covered", "reversed_in_part", *LABELS]


def test_the_tested_outcomes_have_every_status_of_the_contract() -> None:
    reached = {told(life)["status"] for life in LIVES}

    assert reached == set(Status) == set(SCHEMAS[OUTCOME]["properties"]["status"]["enum"])


WRONG: dict[str, list[Any]] = {
    "key": [None, 1, "short"],
    "status": [None, "processing", "DONE", 1],
    "payer": [None, 1],
    "payee": [None, 1],
    "amount": [None, 48.2, 4820, "48,20", "-1", "", "1e3"],
    "fee": [None, 0.48, "+1"],
    "currency": [None, "eur", "EU", "4EUR", "POINTSOFOURS1"],
    "escrow": [None, 0, "-0.01"],
    "steps": [None, "hold", ["void"], ["hold", "hold"], {}],
    "reversed": [None, "hold", ["verify"], ["hold", "hold"]],
    "failure": ["too little", {}, {"step": "hold", "error": "E"}, {"step": 1, "error": "E", "cause": ""}, []],
    "next": [
        *(
            None,
            "same_key",
            {},
            {"action": "same_key"},
            {"reason": "why"},
            {"action": "same_key", "reason": ""},
        ),
        *({"action": name, "reason": "why"} for name in (None, "retry", "SAME_KEY", "new_key", "nothing")),
    ],
    "replayed": [None, "true", 0],
    "claimed_at": [None, 0, "2026-11-20", "2026-11-20T12:00:00Z", "yesterday"],
    "finished_at": [False, "then"],
}

INCONSISTENT = [
    ("committed: fee", {"finished_at": None}),
    ("committed: fee", {"escrow": "0.01"}),
    ("committed: fee", {"failure": FAILURE}),
    ("committed: verify", {"finished_at": "2026-11-20T12:00:00.123Z"}),
    ("committed: verify", {"failure": FAILURE}),
    ("to reverse: verify", {"failure": None}),
    ("reversed: verify", {"finished_at": None}),
    ("reversed: verify", {"escrow": "48.20"}),
    ("reversed: verify", {"failure": None}),
    ("rejected", {"failure": None}),
    ("rejected", {"finished_at": None}),
    ("committed: verify", {"next": {"action": "new_key", "reason": "why"}}),
    ("committed: fee", {"next": {"action": "new_key", "reason": "why"}}),
    ("committed: fee", {"next": {"action": "same_key", "reason": "why"}}),
    ("to reverse: verify", {"next": {"action": "new_key", "reason": "why"}}),
    ("reversed: verify", {"next": {"action": "same_key", "reason": "why"}}),
    ("rejected", {"next": {"action": "nothing", "reason": "why"}}),
    ("in LIMBO", {"failure": None}),
    ("in LIMBO", {"finished_at": "2026-11-20T12:00:00.123Z"}),
]
"""Changes after which an outcome's fields contradict each other."""


@pytest.mark.parametrize(
    ("life", "changes"),
    [*(("in LIMBO", {field: value}) for field in WRONG for value in WRONG[field]), *INCONSISTENT],
    ids=str,
)
def test_a_mistyped_or_inconsistent_field_breaks_the_outcomes_contract(
    life: str, changes: dict[str, Any]
) -> None:
    changed = told(life) | changes

    assert faults(OUTCOME, changed)
    with pytest.raises(AssertionError, match="breaks the contract"):
        checked_outcome(changed)


def test_the_steps_of_the_contract_are_those_of_the_code() -> None:
    properties = SCHEMAS[OUTCOME]["properties"]

    assert list(WRONG) == SCHEMAS[OUTCOME]["required"]
    assert properties["steps"]["items"]["enum"] == list(Step)
    assert properties["reversed"]["items"]["enum"] == [step for step in Step if step in REVERSIBLE]


@given(error=st.text(), cause=st.text())
def test_every_failure_keeps_its_contract(error: str, cause: str) -> None:
    failure = outcome.failure("hold", {"Error": error, "Cause": cause})

    assert faults(OUTCOME, SCHEMAS[OUTCOME]["examples"][1] | {"failure": failure}) == []


# Events

PAGER = PagerConfig.from_json(os.environ["PAGER"])
GLASS_PROOF = PROOF | {"break_glass": "yes"}
ALONE = replace(WRITE_OFF, proof=GLASS_PROOF)


def alert(stuck: Step = Step.RELEASE) -> dict[str, Any]:
    state = books.stuck(Step.FEE, stuck).state()
    case = compensation.stuck_case(state)
    return on_the_wire(PAGER.alert(state, case, CONFIG, number=1, execution="arn:execution"))


def notice(order: Any = RETRY) -> dict[str, Any]:
    saga = books.stuck(Step.FEE, Step.RELEASE)
    saga.resolve(order)
    evidence = saga.ledger.store.evidence(SETTLEMENT.key, "resolve:1")
    assert evidence
    return on_the_wire(resolution_notice(SETTLEMENT.key, 1, evidence))


@pytest.mark.parametrize("stuck", REVERSIBLE)
def test_an_alert_keeps_its_contract_for_stuck_steps_and_refusals(stuck: Step) -> None:
    for told_before in ({}, {"refused": "complete: there is no release left"}):
        assert faults(ENTERED, alert(stuck) | told_before) == []
    assert faults(ENTERED, alert(stuck) | {"refused": None})


@pytest.mark.parametrize("order", [RETRY, WRITE_OFF, COMPLETE], ids=lambda order: order.decision.value)
def test_the_notice_of_a_decision_keeps_its_contract(order: Any) -> None:
    assert faults(RESOLVED, notice(order)) == []


def broken_glass(order: approval.AnyOrder = ALONE) -> dict[str, Any]:
    state = books.stuck(Step.FEE, Step.RELEASE).state()
    return on_the_wire(approval.broken_glass(state, order, CONFIG, PAGER))


@pytest.mark.parametrize(
    "order",
    [
        ALONE,
        Reversal(reason="sent twice", by="ops", proof=GLASS_PROOF),
        PartialReversal(reason="one back", by="ops", proof=GLASS_PROOF, part=1, amount=1),
    ],
    ids=approval.decision_of,
)
def test_a_break_glass_page_keeps_its_contract(order: approval.AnyOrder) -> None:
    assert faults(GLASS, broken_glass(order)) == []


@pytest.mark.parametrize("state", State)
def test_the_event_of_the_circuit_keeps_its_contract(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []

    class Bus:
        def put_events(self, *, Entries: list[dict[str, Any]]) -> dict[str, int]:  # noqa: N803
            sent.extend(Entries)
            return {"FailedEntryCount": 0}

    monkeypatch.setattr(circuit_events, "_client", Bus())
    _kyc._changed(state)

    (entry,) = sent
    detail = json.loads(entry["Detail"])
    assert entry["DetailType"] == "KycCircuitChanged"
    assert faults(CIRCUIT, detail) == []
    assert list(detail) == SCHEMAS[CIRCUIT]["required"] == list(SCHEMAS[CIRCUIT]["properties"])


def test_the_contracts_enums_are_those_of_the_code() -> None:
    enums = {
        ENTERED: ("stuck_step", {step.reversal for step in REVERSIBLE}),
        RESOLVED: ("decision", set(Decision)),
        GLASS: ("decision", {*Decision, "reverse", "reverse-part"}),
        CIRCUIT: ("state", {state.value for state in State}),
    }

    for name, (field, expected) in enums.items():
        assert set(SCHEMAS[name]["properties"][field]["enum"]) == expected


@pytest.mark.parametrize("name", [OUTCOME, ENTERED, RESOLVED, GLASS, CIRCUIT])
def test_a_missing_renamed_or_mistyped_field_breaks_a_documents_contract(name: str) -> None:
    wholes = {
        OUTCOME: told("in LIMBO"),
        ENTERED: alert(),
        RESOLVED: notice(),
        GLASS: broken_glass(),
        CIRCUIT: SCHEMAS[CIRCUIT]["examples"][0],
    }
    whole = wholes[name]

    assert list(whole) == SCHEMAS[name]["required"]
    for field in whole:
        without = {other: value for other, value in whole.items() if other != field}
        assert faults(name, without), field
        assert faults(name, without | {field.upper(): whole[field]}), field
        assert name == OUTCOME or faults(name, whole | {field: None}), field
        assert faults(name, whole | {field: [whole[field]]}), field
