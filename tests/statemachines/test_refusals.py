"""Where each refusal leads: a state catches by name those that its writes can raise, and no other."""

from typing import Any

import pytest

from settlement.status import Status, Step
from tests.statemachines.definitions import DEFINITIONS, caught, retried, task
from tests.statemachines.refusals import (
    FENCED,
    FORWARD,
    LIMBO,
    ORDERED,
    OWN,
    REVERSAL,
    in_the_way_of,
    raised,
)
from tests.unit.conditions import admits

CONFLICT = "IdempotencyConflict"
"""The row is another request's, and not this execution's to reject or to reverse."""

ON_REFUSAL = {
    "HoldFunds": "RejectSettlement",
    "VerifyKyc": "Compensate",
    "ReleaseFunds": "Compensate",
    "CollectFee": "Compensate",
    "RejectSettlement": "Compensate",
}


def caught_by_name(machine: str, name: str) -> dict[str, str]:
    """Each error that a state catches by its name, and where it leads."""
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


def test_what_the_provider_does_to_a_payment_has_three_names() -> None:
    """A rejection and a refused request are final; what is unavailable is so at last."""
    state = task("settlement", "VerifyKyc")

    assert OWN["VerifyKyc"] == {"KycRejected", "KycRequestRefused", "KycUnavailable"}
    assert OWN["VerifyKyc"] & retried(state) == {"KycUnavailable"}
    assert {caught(state, error) for error in OWN["VerifyKyc"]} == {"Compensate"}


@pytest.mark.parametrize("error", ["SignatureRefused", "SettlementNotFound", "StartUnavailable"])
def test_no_machine_names_what_only_a_trigger_runs_into(error: str) -> None:
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
    """What the payee has spent does not come back by asking again; who has gone on is another matter."""
    state = task("compensation", name)

    assert raised(REVERSAL[name]) >= refusals | {"StepFenced", CONFLICT}
    for refusal in raised(REVERSAL[name]) - {"StepFenced"}:
        assert refusal not in retried(state)
        assert caught(state, refusal) == "EnterLimbo"
    assert caught_by_name("compensation", name) == {"StepFenced": "BeginCompensation"}


@pytest.mark.parametrize("name", REVERSAL)
def test_a_fenced_reversal_finds_something_new_at_the_beginning(name: str) -> None:
    """StepFenced leads back to the row. Where that is just as it was, it would lead there for ever.

    A row that is still COMPENSATING, with the step committed and not reversed, sends the machine to the
    same reversal again: whatever is wrong with it, then, must have another name, and end in LIMBO.
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
            assert type(committed.settlement.refusal(row)).__name__ != "StepFenced", row


@pytest.mark.parametrize("name", LIMBO)
def test_who_comes_too_late_to_a_case_looks_at_the_row_again(name: str) -> None:
    assert "StepFenced" in raised(LIMBO[name])
    assert caught_by_name("compensation", name) == {"StepFenced": "BeginCompensation"}


def test_a_page_about_what_is_not_in_limbo_any_more_looks_at_the_row_again() -> None:
    """It writes nothing, and so has no row that refuses it: the handler finds out by reading."""
    assert caught_by_name("compensation", "PreparePage") == {"StepFenced": "BeginCompensation"}


def test_a_decision_that_makes_no_sense_is_told_on_the_next_page() -> None:
    """Those who made it are paged again, and hear why; nothing was written."""
    state = task("compensation", "ResolveLimbo")

    assert "ResolutionRefused" in raised(LIMBO["ResolveLimbo"])
    for refusal in ("ResolutionRefused", "InvalidRequest"):
        assert refusal not in retried(state)
        assert caught(state, refusal) == "PreparePage"


def test_a_compensation_is_refused_for_exactly_what_its_beginning_raises() -> None:
    """A key that was never claimed is not among it: it is claimed, as finished, before it is fenced."""
    parsed = {"InvalidRequest", "ResolutionRefused"}

    assert raised(ORDERED) == {"NotReversible", CONFLICT}
    assert raised(FENCED) == {"StepFenced", CONFLICT}
    refusals = raised(ORDERED) | (raised(FENCED) - {"StepFenced"}) | parsed
    assert caught_by_name("compensation", "BeginCompensation") == dict.fromkeys(refusals, "RequestRefused")


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_nothing_but_a_state_that_found_the_request_to_be_none_says_it_is_refused(machine: str) -> None:
    states: dict[str, Any] = DEFINITIONS[machine]["States"]
    leading = {
        name
        for name, state in states.items()
        if any(entry["Next"] == "RequestRefused" for entry in state.get("Catch", ()))
    }

    assert leading == {DEFINITIONS[machine]["StartAt"]}
