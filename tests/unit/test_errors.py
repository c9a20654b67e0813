"""The errors: their names are a contract, and what is final is never retried."""

import json
from pathlib import Path
from typing import Any

import pytest

from settlement import errors
from settlement.errors import Refusal, SettlementError, StoreUnavailable
from settlement.status import REVERSIBLE, Step

MACHINES = sorted((Path(__file__).parents[2] / "statemachines").glob("*.asl.json"))
STATES: list[dict[str, Any]] = [
    state for machine in MACHINES for state in json.loads(machine.read_text())["States"].values()
]
OF_THE_PLATFORM = {"ExecutionAlreadyExists"}
"""Errors of the platform's that have no dot: what Step Functions itself reports where it starts a machine."""

OURS = {
    name: error
    for name, error in vars(errors).items()
    if isinstance(error, type) and issubclass(error, SettlementError)
}
REFUSALS = sorted(name for name, error in OURS.items() if issubclass(error, Refusal) and error is not Refusal)


def names_in(clause: str) -> set[str]:
    matchers = [matcher for state in STATES for matcher in state.get(clause, [])]
    return {name for matcher in matchers for name in matcher["ErrorEquals"]}


@pytest.mark.parametrize("clause", ["Retry", "Catch"])
def test_a_name_in_the_state_machine_is_an_error_of_ours_or_of_the_platform(clause: str) -> None:
    """Step Functions compares names as text: a misspelt one matches nothing and nobody is told."""
    ours = {name for name in names_in(clause) if "." not in name}

    assert ours
    assert ours - OF_THE_PLATFORM <= OURS.keys() - {"SettlementError", "Refusal"}


def test_both_machines_are_read() -> None:
    assert [machine.name for machine in MACHINES] == ["compensation.asl.json", "settlement.asl.json"]
    assert names_in("Catch") >= OF_THE_PLATFORM


def test_a_refusal_is_never_retried() -> None:
    assert not names_in("Retry") & set(REFUSALS)


@pytest.mark.parametrize("step", REVERSIBLE)
@pytest.mark.parametrize(
    ("error", "target"),
    [
        ("EscrowMismatch", "EnterLimbo"),
        ("InsufficientFunds", "EnterLimbo"),
        ("StepFenced", "BeginCompensation"),
    ],
)
def test_a_reversal_that_waits_for_a_person_goes_to_limbo_and_a_fenced_one_looks_again(
    step: Step, error: str, target: str
) -> None:
    """Were a mismatch taken for a fence, the machine would go round and round."""
    (state,) = (
        state
        for state in STATES
        if any(catcher["ResultPath"] == f"$.stuck.{step}" for catcher in state.get("Catch", ()))
    )

    catcher = next(each for each in state["Catch"] if {error, "States.ALL"} & set(each["ErrorEquals"]))

    assert error in REFUSALS
    assert catcher["Next"] == target


def test_an_unknown_outcome_is_retried_and_no_refusal() -> None:
    assert not issubclass(StoreUnavailable, Refusal)
    assert StoreUnavailable.__name__ in names_in("Retry")
