"""What each state may read: nothing is read that some path to it did not bring, and nothing is lost."""

import ast
from itertools import pairwise
from typing import Any

import pytest

from infra.functions import LAMBDAS
from tests.statemachines.definitions import DEFINITIONS, TASKS, fields_read, is_terminal, leaves, paths, task

CLAIMED = {"settlement", "claimed_at", "replayed"}
"""What ClaimKey returns, and so what the state is from then on."""

COMPARATORS = {
    kind + comparator
    for kind in ("Numeric", "String", "Timestamp", "Boolean")
    for comparator in ("Equals", "LessThan", "GreaterThan", "LessThanEquals", "GreaterThanEquals")
}

PATH_FIELDS = {"InputPath", "Variable", "ErrorPath", "CausePath", "TimeoutSecondsPath"} | {
    f"{comparator}Path" for comparator in COMPARATORS
}
"""Fields whose value is a path into the state's input, besides those that end in `.$`."""

each_task = pytest.mark.parametrize(("machine", "name"), TASKS)


def reads(state: Any) -> set[str]:
    """The fields that a state takes from its input."""
    own = {name: value for name, value in state.items() if name not in ("Retry", "Catch")}
    expressions = [str(value) for key, value in leaves(own) if key in PATH_FIELDS or key.endswith(".$")]
    return set().union(*(fields_read(expression) for expression in expressions))


def brought(path: list[str], definition: Any) -> set[str]:
    """The fields that are sure to be there on entering the last state of `path`."""
    fields: set[str] = set()
    for name, following in pairwise(path):
        state = definition["States"][name]
        caught = [entry for entry in state.get("Catch", []) if entry["Next"] == following]
        if caught:
            fields = {"Error", "Cause"} if caught[0]["ResultPath"] == "$" else fields | {"error"}
        elif "OutputPath" in state:
            fields = CLAIMED if name == "ClaimKey" else set()
    return fields


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_no_state_reads_what_a_path_to_it_does_not_bring(machine: str) -> None:
    """States.Runtime, for a path that selects nothing, is an error that no Catch sees."""
    definition = DEFINITIONS[machine]
    for path in paths(definition):
        for length in range(2, len(path) + 1):
            missing = reads(definition["States"][path[length - 1]]) - brought(path[:length], definition)
            assert missing == set(), " -> ".join(path[:length])


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_the_first_state_takes_any_input(machine: str) -> None:
    """A request without the fields that it should have reaches the function that says so."""
    definition = DEFINITIONS[machine]

    assert reads(definition["States"][definition["StartAt"]]) == {"$"}


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_two_ways_to_one_state_keep_the_same_input(machine: str) -> None:
    """A catch and a Next to the same state could not be told apart by `brought`."""
    for name, state in DEFINITIONS[machine]["States"].items():
        ways = [state.get("Next"), *(entry["Next"] for entry in state.get("Catch", []))]
        assert len(ways) == len(set(ways)), name


@each_task
def test_a_task_keeps_its_input(machine: str, name: str) -> None:
    """Its result is dropped, or put beside the input; only what ClaimKey returns becomes the state."""
    state = task(machine, name)

    if name == "ClaimKey":
        assert "ResultPath" not in state
        assert state["OutputPath"] == "$.Payload"
    elif is_terminal(state):
        assert state["ResultPath"] == "$.result"
        assert state["OutputPath"] == "$.result.Payload"
    else:
        assert state["ResultPath"] is None
        assert "OutputPath" not in state


@each_task
def test_no_task_hides_or_reshapes_its_state(machine: str, name: str) -> None:
    assert not {"InputPath", "ResultSelector"} & task(machine, name).keys()


@each_task
def test_an_error_is_put_beside_the_input(machine: str, name: str) -> None:
    """But for a refused request, of which nothing was written: there the error is all there is to tell."""
    for entry in task(machine, name)["Catch"]:
        if name == "ClaimKey" and "InvalidRequest" in entry["ErrorEquals"]:
            assert entry["ResultPath"] == "$"
            assert DEFINITIONS[machine]["States"][entry["Next"]]["Type"] == "Fail"
        else:
            assert entry["ResultPath"] == "$.error"


@each_task
def test_a_state_hands_its_function_what_the_handler_reads(machine: str, name: str) -> None:
    payload = {key.removesuffix(".$") for key in task(machine, name)["Parameters"]["Payload"]}

    assert payload == handler_reads(name) | {"settlement", "execution"}


@each_task
def test_every_function_is_told_who_executes_it(machine: str, name: str) -> None:
    """The execution's name is the settlement's owner, and stands on every log line."""
    assert task(machine, name)["Parameters"]["Payload"]["execution.$"] == "$$.Execution.Name"


def handler_reads(state: str) -> set[str]:
    """The fields that a handler takes from its event."""
    module = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in state)[1:]
    tree = ast.parse((LAMBDAS / "handlers" / f"{module}.py").read_text())
    return {
        node.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "event"
        and isinstance(node.slice, ast.Constant)
    }
