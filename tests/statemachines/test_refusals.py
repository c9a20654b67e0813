"""The target of each refusal: a state catches by name those that its writes can raise, and no other."""

from typing import Any

import pytest

from settlement.model.status import Status, Step
from tests.statemachines.definitions import DEFINITIONS, caught, retried, task
from tests.statemachines.refusals import (
    FENCED,
    FORWARD,
    LIMBO,
    ORDERED,
    OWN,
    REVERSAL,
    in_the_way_of,
    meaning,
    raised,
)
from tests.unit.conditions import admits

CONFLICT = "IdempotencyConflict"
"""The row belongs to another request: this execution must neither reject nor reverse it."""

ON_REFUSAL = {
    "HoldFunds": "RejectSettlement",
    "VerifyKyc": "Compensate",
    "ReleaseFunds": "Compensate",
    "CollectFee": "Compensate",
    "RejectSettlement": "Compensate",
}


def caught_by_name(machine: str, name: str) -> dict[str, str]:
    """Return each error that a state catches by its name, and the state that it leads to."""
    return {
        error: entry["Next"]
        for entry in task(machine, name)["Catch"]
        for error in entry["ErrorEquals"]
        if not error.startswith("States.")
    }


@pytest.mark.parametrize("name", FORWARD)
def test_a_settlement_turns_back_for_exactly_the_refusals_that_a_step_raises(name: str) -> None:
    refusals = (raised(FORWARD[name]) | OWN.get(name, set())) - {CONFLICT}

    assert "StepFenced" in refusals
    assert caught_by_name("settlement", name) == dict.fromkeys(refusals, ON_REFUSAL[name])


@pytest.mark.parametrize("name", FORWARD)
def test_a_row_of_another_request_stalls_a_settlement(name: str) -> None:
    assert CONFLICT in raised(FORWARD[name])
    assert caught(task("settlement", name), CONFLICT) == "SettlementStalled"


def test_a_payment_without_an_approval_is_reversed_for_one_of_four_reasons() -> None:
    """Only an unavailable provider is asked again. An open circuit outlasts every retry of the machine."""
    state = task("settlement", "VerifyKyc")

    assert OWN["VerifyKyc"] == {"KycRejected", "KycRequestRefused", "KycUnavailable", "KycCircuitOpen"}
    assert OWN["VerifyKyc"] & retried(state) == {"KycUnavailable"}
    assert {caught(state, error) for error in OWN["VerifyKyc"]} == {"Compensate"}


@pytest.mark.parametrize("error", ["SignatureRefused", "SettlementNotFound", "StartUnavailable"])
def test_no_machine_names_an_error_that_only_triggered_functions_raise(error: str) -> None:
    assert [each for each, text in DEFINITIONS.items() if error in str(text)] == []


@pytest.mark.parametrize(
    ("name", "refusals"),
    [
        ("RefundFee", set()),
        ("ReclaimFunds", {"AccountNotFound", "CurrencyMismatch", "InsufficientFunds"}),
        ("VoidHold", {"AccountNotFound", "CurrencyMismatch", "EscrowMismatch"}),
    ],
)
def test_a_refused_reversal_goes_to_limbo_at_once(name: str, refusals: set[str]) -> None:
    """Another try does not bring back money that the payee has spent. StepFenced leads back to the row."""
    state = task("compensation", name)

    assert raised(REVERSAL[name]) >= refusals | {"StepFenced", CONFLICT}
    for refusal in raised(REVERSAL[name]) - {"StepFenced"}:
        assert refusal not in retried(state)
        assert caught(state, refusal) == "EnterLimbo"
    assert caught_by_name("compensation", name) == {"StepFenced": "BeginCompensation"}


@pytest.mark.parametrize("name", REVERSAL)
def test_a_fenced_reversal_finds_something_new_at_the_beginning(name: str) -> None:
    """StepFenced leads back to the row. If that had not changed, it would lead there for ever.

    A row that is still COMPENSATING, with the step committed and not reversed, sends the machine to the
    same reversal again: any other fault of the row must have another name, and end in LIMBO.
    """
    committed, _ = REVERSAL[name]
    step = {"RefundFee": Step.FEE, "ReclaimFunds": Step.RELEASE, "VoidHold": Step.HOLD}[name]

    same = [
        row
        for row in in_the_way_of(committed.settlement)
        if row["status"] == Status.COMPENSATING
        and row["request_hash"] == committed.entry.parameters["Item"]["request_hash"]
        and step in row.get("steps", ())
        and step not in row.get("reversed", ())
    ]

    assert same
    for row in same:
        if not admits(committed.settlement, row):
            assert type(meaning(committed.settlement, row)).__name__ != "StepFenced", row


@pytest.mark.parametrize("name", LIMBO)
def test_a_fenced_step_of_a_case_looks_at_the_row_again(name: str) -> None:
    assert "StepFenced" in raised(LIMBO[name])
    assert caught_by_name("compensation", name) == {"StepFenced": "BeginCompensation"}


def test_an_alert_about_a_settlement_that_has_left_limbo_looks_at_the_row_again() -> None:
    """The handler writes nothing, so no condition refuses it: it finds out by reading."""
    assert caught_by_name("compensation", "PrepareAlert") == {"StepFenced": "BeginCompensation"}


def test_a_refused_decision_is_reported_with_the_next_alert() -> None:
    """On call is alerted again, with the reason; nothing was written."""
    state = task("compensation", "ResolveLimbo")

    assert "ResolutionRefused" in raised(LIMBO["ResolveLimbo"])
    for refusal in ("ResolutionRefused", "InvalidRequest"):
        assert refusal not in retried(state)
        assert caught(state, refusal) == "PrepareAlert"


def test_a_compensation_is_refused_for_exactly_what_its_beginning_raises() -> None:
    """An unclaimed key is not among them: it gets a tombstone before it is fenced."""
    parsed = {"InvalidRequest", "ResolutionRefused"}

    assert raised(ORDERED) == {"NotReversible", CONFLICT}
    assert raised(FENCED) == {"StepFenced", CONFLICT}
    refusals = raised(ORDERED) | (raised(FENCED) - {"StepFenced"}) | parsed
    assert caught_by_name("compensation", "BeginCompensation") == dict.fromkeys(refusals, "RequestRefused")


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_only_the_first_state_leads_to_a_refused_request(machine: str) -> None:
    states: dict[str, Any] = DEFINITIONS[machine]["States"]
    leading = {
        name
        for name, state in states.items()
        if any(entry["Next"] == "RequestRefused" for entry in state.get("Catch", ()))
    }

    assert leading == {DEFINITIONS[machine]["StartAt"]}
