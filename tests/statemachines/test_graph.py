"""Every machine as a graph: where its states lead, and that each of them ends somewhere."""

from typing import Any

import pytest

from settlement.status import Status
from tests.statemachines.definitions import DEFINITIONS, is_terminal, keys, leaves, paths, targets

pytestmark = pytest.mark.parametrize("machine", DEFINITIONS)


def states(machine: str) -> dict[str, Any]:
    return DEFINITIONS[machine]["States"]


def test_a_machine_has_no_kind_of_state_that_these_tests_do_not_follow(machine: str) -> None:
    kinds = {state["Type"] for state in states(machine).values()}

    assert kinds <= {"Task", "Choice", "Succeed", "Fail"}


def test_the_start_and_every_target_exist(machine: str) -> None:
    named = {DEFINITIONS[machine]["StartAt"]}.union(*(targets(state) for state in states(machine).values()))

    assert named <= states(machine).keys()


def test_every_state_can_be_reached(machine: str) -> None:
    reached = {name for path in paths(DEFINITIONS[machine]) for name in path}

    assert reached == states(machine).keys()


def test_every_path_ends(machine: str) -> None:
    dead_ends = [path for path in paths(DEFINITIONS[machine]) if not is_terminal(states(machine)[path[-1]])]

    assert dead_ends == []


def test_no_path_comes_back_to_a_state(machine: str) -> None:
    """A loop has no bound on its time, and Express has one of 300 s."""
    loops = [path for path in paths(DEFINITIONS[machine]) if len(path) != len(set(path))]

    assert loops == []


def test_a_state_either_ends_or_goes_on(machine: str) -> None:
    """A Task that ends still has its catches; a Choice always has a way out."""
    for name, state in states(machine).items():
        way_on = "Default" if state["Type"] == "Choice" else "Next"
        assert (way_on in state) != is_terminal(state), name


def test_no_state_compares_a_status(machine: str) -> None:
    """Statuses are the database's to compare: each transition is a condition on the row."""
    strings = {value for _, value in leaves(DEFINITIONS[machine])} & {status.value for status in Status}
    comparators = {
        key
        for state in states(machine).values()
        for key in keys(state.get("Choices", []))
        if key.startswith("String")
    }

    assert strings == set()
    assert comparators == set()


def test_no_state_is_written_in_jsonata(machine: str) -> None:
    """The embedded AWS and moto must run the very same file, and JSONata fails there."""
    assert not {"QueryLanguage", "Arguments", "Output", "Assign"} & set(keys(DEFINITIONS[machine]))
    assert [value for _, value in leaves(DEFINITIONS[machine]) if "{%" in str(value)] == []


def test_a_failed_execution_says_why(machine: str) -> None:
    """Nothing is reported green that is not finished, and there are two ways to be red."""
    fails = {name: state for name, state in states(machine).items() if state["Type"] == "Fail"}

    assert {name: without_comment(state) for name, state in fails.items()} == {
        "RequestRefused": {"Type": "Fail", "ErrorPath": "$.Error", "CausePath": "$.Cause"},
        "SettlementStalled": {
            "Type": "Fail",
            "Error": "SettlementStalled",
            "CausePath": "States.JsonToString($.error)",
        },
    }


def without_comment(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name != "Comment"}
