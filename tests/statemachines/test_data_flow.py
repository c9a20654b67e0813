"""The data of each state: every field that it reads is brought by all ways to it, and none is lost."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.statemachines.definitions import (
    DEFINITIONS,
    INVOCATIONS,
    PUTS,
    STARTS,
    TASKS,
    Way,
    fields_read,
    is_terminal,
    leaves,
    targets,
    task,
    ways,
)
from tests.statemachines.handlers import (
    ANSWERS,
    STATE_READERS,
    event_looked_for,
    event_read,
    returned,
    state_looked_for,
    state_read,
)

OWNER = "$$.Execution.Name"
"""The owner of a settlement: the execution that runs it."""

KEPT = {
    "VerifyKyc": "$.kyc",
    "PageOnCall": "$.put",
    "AnnounceResolution": "$.put",
    "AwaitResolution": "$.resolution",
}
"""The answers that are put beside the input, for a later state, and where."""

SELECTED = {"VerifyKyc": {"in_review.$": "$.Payload.in_review"}}
"""The fields that are selected from a kept answer."""

STUCK = {"RefundFee": "fee", "ReclaimFunds": "release", "VoidHold": "hold"}
"""The name under which each stuck reversal is passed to EnterLimbo."""

REFUSED = {"ClaimKey", "BeginCompensation"}
"""The states that may refuse the request itself, before anything is written."""

WHOLE = STATE_READERS.keys()
"""The states that pass the whole state to their function."""

NEEDED = {"PrepareAlert": {"settlement", "alerts"}, "ReportOutcome": {"settlement"}}
"""The fields of the state without which these of the functions fail."""

NAME_TAKEN = {"StepFunctions.ExecutionAlreadyExistsException", "ExecutionAlreadyExists"}
"""The errors of a start that has succeeded before: they say nothing about the settlement."""

COMPARATORS = {
    kind + comparator
    for kind in ("Numeric", "String", "Timestamp", "Boolean")
    for comparator in ("Equals", "LessThan", "GreaterThan", "LessThanEquals", "GreaterThanEquals")
}

PATH_FIELDS = {"InputPath", "ErrorPath", "CausePath", "SecondsPath", "TimeoutSecondsPath"} | {
    f"{comparator}Path" for comparator in COMPARATORS
}
"""Fields whose value is a path into the state's input, besides those that end in `.$`."""

Merge = Callable[[set[str], set[str]], set[str]]

each_task = pytest.mark.parametrize(("machine", "name"), TASKS)
each_invocation = pytest.mark.parametrize(("machine", "name"), INVOCATIONS)


def reads(state: Any) -> set[str]:
    """Return the fields that a state takes from its input, on any way out of it."""
    others = ("Retry", "Catch", "Choices", "ResultSelector")  # the last one reads the answer
    own = {name: value for name, value in state.items() if name not in others}
    expressions = [str(value) for key, value in leaves(own) if key in PATH_FIELDS or key.endswith(".$")]
    compared = [
        comparison["Variable"]
        for choice in state.get("Choices", ())
        for comparison in choice.get("And", [choice])
        if "IsPresent" not in comparison
    ]
    return set().union(*(fields_read(expression) for expression in expressions + compared))


def brought(name: str, state: Any, way: Way, fields: set[str]) -> set[str]:
    """Return the fields that are certain after a state that was entered with `fields`."""
    if way.how.startswith("Catch"):
        where = way.rule["ResultPath"]
        return {"Error", "Cause"} if where == "$" else fields | (fields_read(where) if where else set())
    if way.how.startswith("Choices"):
        parts = way.rule.get("And", [way.rule])
        return fields.union(*(fields_read(part["Variable"]) for part in parts if part.get("IsPresent")))
    if state.get("OutputPath") == "$.Payload":
        return ANSWERS[name]
    kept = state.get("ResultPath") if state["Type"] == "Task" else None
    return fields | ({kept.removeprefix("$.")} if kept else set())


def entering(definition: Any, merge: Merge = set.intersection) -> dict[str, set[str]]:
    """Return, for each state, the fields that every way to it brings, loops included.

    With `set.union` for `merge`, return the fields that any way brings.
    """
    known: dict[str, set[str]] = {definition["StartAt"]: set()}
    pending = [definition["StartAt"]]
    while pending:
        name = pending.pop()
        state = definition["States"][name]
        for way in ways(state):
            fields = brought(name, state, way, known[name])
            merged = merge(fields, known.get(way.target, fields))
            if merged != known.get(way.target):
                known[way.target] = merged
                pending.append(way.target)
    return known


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_no_state_reads_a_field_that_a_way_to_it_does_not_bring(machine: str) -> None:
    """States.Runtime, for a path that selects nothing, is an error that no Catch sees."""
    definition = DEFINITIONS[machine]
    sure = entering(definition)

    assert sure.keys() == definition["States"].keys()
    for name, state in definition["States"].items():
        assert reads(state) - {"$"} <= sure[name], name


def test_a_field_that_one_way_round_a_loop_lacks_is_not_relied_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The analysis itself: Second has `b` at first, but not when it is entered from Third."""
    loop: dict[str, Any] = {
        "StartAt": "First",
        "States": {
            "First": {"Type": "Task", "ResultPath": "$.b", "Next": "Second"},
            "Second": {"Type": "Task", "ResultPath": None, "Next": "Third"},
            "Third": {"Type": "Task", "OutputPath": "$.Payload", "Next": "Second"},
        },
    }

    monkeypatch.setitem(ANSWERS, "Third", {"a"})

    assert entering(loop) == {"First": set(), "Second": set(), "Third": set()}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_fields_followed_here_are_those_that_the_handler_returns(name: str) -> None:
    assert returned(name) == ANSWERS[name]


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_handler_that_gets_the_whole_state_finds_the_fields_that_it_needs(name: str) -> None:
    needed, guarded = state_read(name), state_looked_for(name)

    if name == DEFINITIONS["compensation"]["StartAt"]:
        assert needed <= guarded
        assert guarded == {"settlement", "error", "owner", "reversal", "resolution", "case"}
    else:
        assert needed - guarded == NEEDED[name]
        for definition in DEFINITIONS.values():
            assert needed - guarded <= entering(definition).get(name, NEEDED[name])


def test_a_report_always_learns_whether_the_settlement_was_replayed() -> None:
    """The compensating machine never replays, and has no such field."""
    assert "replayed" in state_looked_for("ReportOutcome")
    assert "replayed" in entering(DEFINITIONS["settlement"])["ReportOutcome"]


def test_a_report_gets_an_error_exactly_if_a_compensation_was_started_for_it() -> None:
    """With an error in the state, a settlement in flight is reported as COMPENSATING."""
    definition = DEFINITIONS["settlement"]
    sure, maybe = entering(definition), entering(definition, set.union)
    ways_there = [
        (name, state, way)
        for name, state in definition["States"].items()
        for way in ways(state)
        if way.target == "ReportOutcome"
    ]

    assert "error" in state_looked_for("ReportOutcome")
    assert {name for name, _, _ in ways_there} == {"IsReplay", "IsInReview", "Compensate"}
    for name, state, way in ways_there:
        known = sure if name == "Compensate" else maybe
        assert ("error" in brought(name, state, way, known[name])) == (name == "Compensate"), name
    assert "error" not in entering(DEFINITIONS["compensation"], set.union)["ReportOutcome"]


def test_a_machine_that_returns_to_its_first_state_differs_from_one_that_begins() -> None:
    """It has a `case` in its state. An error beside that did not stop the settlement."""
    definition = DEFINITIONS["compensation"]
    sure = entering(definition)

    without = [
        (name, way.how)
        for name, state in definition["States"].items()
        for way in ways(state)
        if way.target == definition["StartAt"] and "case" not in brought(name, state, way, sure[name])
    ]

    assert without == []


def test_one_reversal_is_stuck_at_a_time() -> None:
    """EnterLimbo takes the one entry of `stuck`: no way to a reversal brings an earlier entry."""
    maybe = entering(DEFINITIONS["compensation"], set.union)

    assert "stuck" in maybe["EnterLimbo"]
    assert [name for name in ("RefundFee", "ReclaimFunds", "VoidHold") if "stuck" in maybe[name]] == []


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_the_first_state_takes_any_input(machine: str) -> None:
    """A request that lacks fields reaches the function that refuses it by name."""
    definition = DEFINITIONS[machine]

    assert reads(definition["States"][definition["StartAt"]]) == {"$"}


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_only_a_state_whose_answer_is_not_needed_ignores_its_error(machine: str) -> None:
    """A second start of the same name counts as a start; a decision is committed before it is announced."""
    states = DEFINITIONS[machine]["States"]

    same = {name for name, state in states.items() if len(targets(state)) != len(set(targets(state)))}

    assert same == ({"Compensate"} if machine == "settlement" else {"AnnounceResolution"})


@each_task
def test_a_task_keeps_its_input(machine: str, name: str) -> None:
    """Its result is dropped, or put beside the input; only the answers of four functions become the state."""
    state = task(machine, name)

    if name in ANSWERS:
        assert "ResultPath" not in state
        assert state["OutputPath"] == "$.Payload"
    elif is_terminal(state):
        assert state["ResultPath"] == "$.result"
        assert state["OutputPath"] == "$.result.Payload"
    else:
        assert state["ResultPath"] == KEPT.get(name)
        assert "OutputPath" not in state


@each_task
def test_no_task_hides_or_reshapes_its_state(machine: str, name: str) -> None:
    assert "InputPath" not in task(machine, name)
    assert task(machine, name).get("ResultSelector") == SELECTED.get(name)


@each_task
def test_an_error_is_put_beside_the_input(machine: str, name: str) -> None:
    """Except for a refused request, before anything is written: there the error replaces the input.

    A name that is taken is dropped: `error` stays the reason for which the compensation runs.
    """
    for entry in task(machine, name)["Catch"]:
        if name in REFUSED and "InvalidRequest" in entry["ErrorEquals"]:
            assert entry["ResultPath"] == "$"
            assert DEFINITIONS[machine]["States"][entry["Next"]]["Type"] == "Fail"
        elif entry["Next"] == "EnterLimbo":
            assert entry["ResultPath"] == f"$.stuck.{STUCK[name]}"
        elif NAME_TAKEN & set(entry["ErrorEquals"]):
            assert set(entry["ErrorEquals"]) == NAME_TAKEN
            assert entry["ResultPath"] is None
        elif entry["Next"] == "CompensationUnfinished":
            assert entry["ResultPath"] == "$.compensation"
        else:
            assert entry["ResultPath"] == "$.error"


@each_invocation
def test_a_state_passes_the_fields_to_its_function_that_the_handler_reads(machine: str, name: str) -> None:
    payload = {key.removesuffix(".$") for key in task(machine, name)["Parameters"]["Payload"]}

    assert payload == event_read(name) | {"execution"} | ({"state"} if name in WHOLE else {"settlement"})
    assert event_looked_for(name) == set()


@each_invocation
def test_every_function_gets_the_name_of_its_execution(machine: str, name: str) -> None:
    """The execution's name is the settlement's owner, and is on every log line."""
    assert task(machine, name)["Parameters"]["Payload"]["execution.$"] == "$$.Execution.Name"


@each_invocation
def test_a_function_gets_each_field_under_its_own_name(machine: str, name: str) -> None:
    """No two fields can be swapped; the rest is from the context, or is a constant."""
    state = task(machine, name)
    first = DEFINITIONS[machine]["StartAt"]
    odd = {
        "state.$": "$",
        "execution.$": "$$.Execution.Name",
        "execution_arn.$": "$$.Execution.Id",
        "token.$": "$$.Task.Token",
        "replayed": False,
    } | ({"settlement.$": "$"} if (machine, name) == ("settlement", first) else {})

    for key, value in state["Parameters"]["Payload"].items():
        assert value == odd.get(key, f"$.{key.removesuffix('.$')}"), key


@pytest.mark.parametrize(("machine", "name"), PUTS)
def test_an_event_carries_the_detail_that_the_function_before_it_composed(machine: str, name: str) -> None:
    (entry,) = task(machine, name)["Parameters"]["Entries"]

    kind, detail = {
        "PageOnCall": ("LimboEntered", "$.alert"),
        "AnnounceResolution": ("LimboResolved", "$.notice"),
    }[name]
    assert entry["DetailType"] == kind
    assert entry["Detail.$"] == detail


@pytest.mark.parametrize(("machine", "name"), STARTS)
def test_a_compensation_is_named_after_its_settlement_and_gets_the_cause(machine: str, name: str) -> None:
    """The same name for the same owner: no two callers can start it twice."""
    parameters = task(machine, name)["Parameters"]

    assert parameters["Name.$"] == "States.Format('{}-compensate-{}', $.settlement.key, $.owner_epoch)"
    assert parameters["Input"] == {
        "settlement.$": "$.settlement",
        "error.$": "$.error",
        "owner.$": OWNER,
        "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID.$": "$$.Execution.Id",
    }


def test_an_execution_asks_for_a_reversal_by_the_name_with_which_it_claimed() -> None:
    """By another name it would not be the owner, and no failure would ever be reversed."""
    claim = task("settlement", DEFINITIONS["settlement"]["StartAt"])

    assert claim["Parameters"]["Payload"]["execution.$"] == OWNER
