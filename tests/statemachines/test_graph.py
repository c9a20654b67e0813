"""Every machine as a graph: its states, the ways between them, and an end on every way."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.status import Status
from tests.statemachines.definitions import (
    DEFINITIONS,
    Way,
    is_terminal,
    keys,
    leaves,
    paths,
    targets,
    ways,
)

each_machine = pytest.mark.parametrize("machine", DEFINITIONS)

STALLED = {"Type": "Fail", "CausePath": "States.JsonToString($.error)"}
REFUSED = {"Type": "Fail", "ErrorPath": "$.Error", "CausePath": "$.Cause"}
FAILS = {
    "settlement": {
        "RequestRefused": REFUSED,
        "SettlementStalled": STALLED | {"Error": "SettlementStalled"},
        "CompensationUnfinished": {
            "Type": "Fail",
            "Error": "SettlementStalled",
            "CausePath": "States.Format('the compensating execution was not started or did not succeed: {}',"
            " $.compensation.Error)",
        },
    },
    "compensation": {
        "RequestRefused": REFUSED,
        "CompensationStalled": STALLED | {"Error": "CompensationStalled"},
        "PagerUnreachable": {
            "Type": "Fail",
            "Error": "PagerUnreachable",
            "CausePath": "States.JsonToString($.alert)",
        },
    },
}
"""Every way to fail. PagerUnreachable has the alert that was not delivered. CompensationUnfinished has no
cause of the child execution, as that holds its input.
"""


def states(machine: str) -> dict[str, Any]:
    return DEFINITIONS[machine]["States"]


def on_a_cycle(machine: str, follows: Callable[[str, Way], bool]) -> set[str]:
    """Return the states that lead back to themselves by the ways that `follows` admits."""
    following = {
        name: {way.target for way in ways(state) if follows(name, way)}
        for name, state in states(machine).items()
    }

    def reached(name: str) -> set[str]:
        seen: set[str] = set()
        pending = set(following[name])
        while pending:
            seen |= pending
            pending = set().union(*(following[each] for each in pending)) - seen
        return seen

    return {name for name in following if name in reached(name)}


@each_machine
def test_a_machine_has_no_kind_of_state_that_these_tests_do_not_follow(machine: str) -> None:
    kinds = {state["Type"] for state in states(machine).values()}

    assert kinds <= {"Task", "Choice", "Wait", "Succeed", "Fail"}


@each_machine
def test_the_start_and_every_target_exist(machine: str) -> None:
    named = {DEFINITIONS[machine]["StartAt"]}.union(*(targets(state) for state in states(machine).values()))

    assert named <= states(machine).keys()


@each_machine
def test_every_state_can_be_reached(machine: str) -> None:
    reached = {name for path in paths(DEFINITIONS[machine]) for name in path}

    assert reached == states(machine).keys()


@each_machine
def test_every_path_ends_or_returns_to_a_state_that_leads_to_an_end(machine: str) -> None:
    every = list(paths(DEFINITIONS[machine]))
    ended = {name for path in every if is_terminal(states(machine)[path[-1]]) for name in path}

    dead_ends = [path for path in every if path[-1] not in ended]

    assert dead_ends == []


def test_no_path_of_a_settlement_returns_to_a_state() -> None:
    """A loop has no bound on its time, and Express has one of 300 s."""
    assert on_a_cycle("settlement", lambda name, way: True) == set()


def test_every_loop_of_a_compensation_has_the_fence_or_a_wait_for_a_person_in_it() -> None:
    """The fence reads the row again, and the wait takes time. No other loop exists."""
    past = {"BeginCompensation", "AwaitResolution"}

    assert on_a_cycle("compensation", lambda name, way: True) >= past
    assert on_a_cycle("compensation", lambda name, way: name not in past) == set()


def test_no_two_alerts_follow_each_other_without_a_wait_or_a_decision_in_between() -> None:
    """A wait that fails at once takes no time: an alert after it would alert as fast as the machine runs.

    The ways that take time are not followed here: a wait that ends (`States.Timeout`) or that a person ends,
    a decision that was carried out, a Wait state. Nor is StepFenced, which leads away from LIMBO.
    """

    def takes_no_time(name: str, way: Way) -> bool:
        if states("compensation")[name]["Type"] == "Wait":
            return False
        errors = way.rule.get("ErrorEquals", [])
        decided = name in ("AwaitResolution", "ResolveLimbo") and way.how == "Next"
        waited = name == "AwaitResolution" and errors == ["States.Timeout"]
        return not (decided or waited or errors == ["StepFenced"])

    assert on_a_cycle("compensation", lambda name, way: True) >= {"PageOnCall", "AwaitResolution"}
    assert "PageOnCall" not in on_a_cycle("compensation", takes_no_time)


def test_a_payment_in_review_is_only_reported() -> None:
    """No wait, no step and no reversal: the webhook or the end of the review starts the next execution."""
    (in_review,) = (way for way in ways(states("settlement")["IsInReview"]) if way.how == "Choices 0")
    after: set[str] = set()
    pending = {in_review.target}
    while pending:
        after |= pending
        pending = {target for name in pending for target in targets(states("settlement")[name])} - after

    assert after == {"ReportOutcome", "SettlementStalled"}


def test_a_release_comes_only_after_a_verdict() -> None:
    """The one way to the release: VerifyKyc has succeeded, and the payment is not in review."""
    entrances = {
        target: [
            (name, way.how)
            for name, state in states("settlement").items()
            for way in ways(state)
            if way.target == target
        ]
        for target in ("IsInReview", "ReleaseFunds")
    }

    assert entrances == {
        "IsInReview": [("VerifyKyc", "Next")],
        "ReleaseFunds": [("IsInReview", "Default")],
    }


@each_machine
def test_a_state_either_ends_or_leads_on(machine: str) -> None:
    """A Task that ends still has its catches; a Choice always has a way out."""
    for name, state in states(machine).items():
        way_on = "Default" if state["Type"] == "Choice" else "Next"
        assert (way_on in state) != is_terminal(state), name


@each_machine
def test_no_state_compares_a_status(machine: str) -> None:
    """The database compares statuses: each transition is a condition on the row."""
    strings = {value for _, value in leaves(DEFINITIONS[machine])} & {status.value for status in Status}
    comparators = {
        key
        for state in states(machine).values()
        for key in keys(state.get("Choices", []))
        if key.startswith("String")
    }

    assert strings == set()
    assert comparators == set()


@each_machine
def test_no_state_is_written_in_jsonata(machine: str) -> None:
    """The embedded AWS and moto must run the very same file, and JSONata fails there."""
    assert not {"QueryLanguage", "Arguments", "Output", "Assign"} & set(keys(DEFINITIONS[machine]))
    assert [value for _, value in leaves(DEFINITIONS[machine]) if "{%" in str(value)] == []


@each_machine
def test_a_failed_execution_says_why(machine: str) -> None:
    """Every way to fail has a name of its own."""
    fails = {name: state for name, state in states(machine).items() if state["Type"] == "Fail"}

    assert {name: without_comment(state) for name, state in fails.items()} == FAILS[machine]


@each_machine
def test_a_machine_succeeds_only_with_an_outcome_from_a_function(machine: str) -> None:
    """No Succeed, no Pass: a failed compensation must not be reported as a success."""
    ends = {name for name, state in states(machine).items() if is_terminal(state)} - FAILS[machine].keys()

    settles = {"CollectFee", "RejectSettlement"} if machine == "settlement" else set()
    assert ends == {"ReportOutcome"} | settles


def without_comment(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name != "Comment"}
