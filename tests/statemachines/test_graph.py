from collections.abc import Callable

import pytest

from settlement.core.model.status import Status
from tests.statemachines.definitions import (
    DEFINITIONS,
    Way,
    entrances,
    is_terminal,
    keys,
    leaves,
    paths,
    states,
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
"""All Fail states. CompensationUnfinished omits the child execution's cause, which contains the input."""


def reached(following: dict[str, set[str]], name: str) -> set[str]:
    seen: set[str] = set()
    pending = following[name]
    while pending:
        seen |= pending
        pending = set().union(*(following[each] for each in pending)) - seen
    return seen


def on_a_cycle(machine: str, follows: Callable[[str, Way], bool]) -> set[str]:
    """Return the states on a cycle of transitions that `follows` admits."""
    following = {
        name: {way.target for way in ways(state) if follows(name, way)}
        for name, state in states(machine).items()
    }
    return {name for name in following if name in reached(following, name)}


@each_machine
def test_every_state_can_be_reached_and_leads_to_an_end(machine: str) -> None:
    """A Task that ends still has its catches; a Choice always has a default."""
    every = list(paths(DEFINITIONS[machine]))
    ended = {name for path in every if is_terminal(states(machine)[path[-1]]) for name in path}

    assert {name for path in every for name in path} == states(machine).keys()
    assert [path for path in every if path[-1] not in ended] == []
    for name, state in states(machine).items():
        way_on = "Default" if state["Type"] == "Choice" else "Next"
        assert (way_on in state) != is_terminal(state), name


def test_the_settlement_machine_has_no_loop() -> None:
    """Loops have no time limit, and Express has 300 s."""
    assert on_a_cycle("settlement", lambda name, way: True) == set()


def test_each_loop_of_the_compensation_fences_or_waits() -> None:
    """The fence reads the row again, and the wait takes time."""
    past = {"BeginCompensation", "AwaitResolution"}

    assert on_a_cycle("compensation", lambda name, way: True) >= past
    assert on_a_cycle("compensation", lambda name, way: name not in past) == set()


def test_two_alerts_are_separated_by_a_wait_or_decision() -> None:
    """An alert after an instantly failed wait would repeat at the machine's speed."""

    def takes_no_time(name: str, way: Way) -> bool:
        if states("compensation")[name]["Type"] == "Wait":
            return False
        errors = way.rule.get("ErrorEquals", [])
        # Slow are a wait that times out, or that a person ends, and a decision. StepFenced leaves LIMBO.
        decided = name in ("AwaitResolution", "ResolveLimbo") and way.how == "Next"
        waited = name == "AwaitResolution" and errors == ["States.Timeout"]
        return not (decided or waited or errors == ["StepFenced"])

    assert on_a_cycle("compensation", lambda name, way: True) >= {"PageOnCall", "AwaitResolution"}
    assert "PageOnCall" not in on_a_cycle("compensation", takes_no_time)


def test_release_can_only_be_reached_from_verify() -> None:
    """After a review, its verdict or its end starts another execution."""
    following = {name: set(targets(state)) for name, state in states("settlement").items()}
    into = [(source, way.how) for source, way in entrances("settlement", "ReleaseFunds")]

    assert reached(following, "ReportOutcome") == {"SettlementStalled"}
    assert into == [("VerifyKyc", "Next")]


def test_every_step_but_the_hold_starts_a_compensation_on_refusal() -> None:
    """A refused hold has claimed nothing to reverse."""
    following = {name: set(targets(state)) for name, state in states("settlement").items()}

    assert DEFINITIONS["settlement"]["StartAt"] == "HoldFunds"
    assert reached(following, "RejectSettlement") == {"RequestRefused", "ReportOutcome", "SettlementStalled"}
    sources = {source for source, _ in entrances("settlement", "Compensate")}
    assert sources == {"VerifyKyc", "ReleaseFunds", "CollectFee"}


def test_a_compensation_begins_with_the_first_reversal_that_is_due() -> None:
    """Uncommitted steps are not reversed. The hold is last, and also ends an unheld settlement."""
    decided = states("compensation")["IsDecided"]

    assert decided["Choices"] == [
        {"Variable": "$.resolution", "IsPresent": True, "Next": "ResolveLimbo"},
        {"Variable": "$.finished", "BooleanEquals": True, "Next": "ReportOutcome"},
        {"Variable": "$.in_limbo", "BooleanEquals": True, "Next": "PrepareAlert"},
        {"Variable": "$.fee_due", "BooleanEquals": True, "Next": "RefundFee"},
        {"Variable": "$.release_due", "BooleanEquals": True, "Next": "ReclaimFunds"},
    ]
    assert decided["Default"] == "VoidHold"
    assert states("compensation")["VoidHold"]["Next"] == "ReportOutcome"


@each_machine
def test_no_state_compares_a_status(machine: str) -> None:
    """The database compares statuses, as conditions on the row."""
    strings = {value for _, value in leaves(DEFINITIONS[machine])} & {status.value for status in Status}
    choices = [state.get("Choices", []) for state in states(machine).values()]

    assert strings == set()
    assert [key for key in keys(choices) if key.startswith("String")] == []


@each_machine
def test_no_state_uses_jsonata(machine: str) -> None:
    """The embedded AWS and moto run the same file, without JSONata."""
    assert not {"QueryLanguage", "Arguments", "Output", "Assign"} & set(keys(DEFINITIONS[machine]))
    assert [value for _, value in leaves(DEFINITIONS[machine]) if "{%" in str(value)] == []


@each_machine
def test_an_execution_ends_with_an_outcome_or_a_listed_failure(
    machine: str,
) -> None:
    kinds = {state["Type"] for state in states(machine).values()}
    ends = {name: state for name, state in states(machine).items() if is_terminal(state)}
    fails = {
        name: {field: value for field, value in state.items() if field != "Comment"}
        for name, state in ends.items()
        if state["Type"] == "Fail"
    }
    settles = {"CollectFee", "RejectSettlement"} if machine == "settlement" else set()

    assert kinds <= {"Task", "Choice", "Wait", "Fail"}, "these tests follow no other kind"
    assert fails == FAILS[machine]
    assert ends.keys() - fails.keys() == {"ReportOutcome"} | settles
