"""Checks that every transition into a state provides the fields that it reads."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.statemachines.definitions import (
    DEFINITIONS,
    INVOCATIONS,
    TASKS,
    Way,
    entrances,
    fields_read,
    is_terminal,
    leaves,
    states,
    task,
    ways,
)
from tests.statemachines.handlers import ANSWERS, event_read, returned

OWNER = "$$.Execution.Name"

KEPT = {
    "PageOnCall": "$.put",
    "AnnounceResolution": "$.put",
    "AwaitResolution": "$.resolution",
}
"""Answers kept next to the input for later states, and their place."""

GIVEN = {
    ("settlement", "HoldFunds"): "$",
    ("settlement", "RejectSettlement"): "$$.Execution.Input",
    ("settlement", "ReportOutcome"): "$$.Execution.Input",
}
"""Functions that get the client's request, and its place."""

EVENTS = {
    "PageOnCall": ("LimboEntered", "$.alert"),
    "AnnounceResolution": ("LimboResolved", "$.notice"),
}
"""Each event's type, and the detail from the function before it."""

Merge = Callable[[set[str], set[str]], set[str]]

each_machine = pytest.mark.parametrize("machine", DEFINITIONS)
each_task = pytest.mark.parametrize(("machine", "name"), TASKS)
each_invocation = pytest.mark.parametrize(("machine", "name"), INVOCATIONS)


def reads(state: Any) -> set[str]:
    others = ("Retry", "Catch", "Choices")
    own = {name: value for name, value in state.items() if name not in others}
    expressions = [
        str(value)
        for key, value in leaves(own)
        if key.endswith((".$", "Path")) and key not in ("ResultPath", "OutputPath")
    ]
    compared = [
        comparison["Variable"]
        for choice in state.get("Choices", ())
        for comparison in choice.get("And", [choice])
        if "IsPresent" not in comparison
    ]
    return set().union(*(fields_read(expression) for expression in expressions + compared))


def brought(name: str, state: Any, way: Way, fields: set[str]) -> set[str]:
    """Return the fields that the data has after a transition."""
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
    """Return the fields that every transition into each state provides, loops included.

    With `set.union` for `merge`, return the fields that any transition provides.
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


@each_machine
def test_every_transition_provides_the_fields_its_state_reads(machine: str) -> None:
    """An empty path raises States.Runtime, which no Catch sees."""
    sure = entering(DEFINITIONS[machine])

    assert sure.keys() == states(machine).keys()
    for name, state in states(machine).items():
        assert reads(state) - {"$"} <= sure[name], name


def test_a_field_lost_in_a_loop_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Second has `b` at first, but not when entered from Third."""
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
def test_each_handler_returns_the_fields_assumed_here(name: str) -> None:
    assert returned(name) == ANSWERS[name]


def test_a_reports_input_distinguishes_refused_claims_from_started_compensations() -> None:
    """Its `state` has `error` if a compensation was started, and `Error` if a claim was refused."""
    definition = DEFINITIONS["settlement"]
    sure, maybe = entering(definition), entering(definition, set.union)
    into = entrances("settlement", "ReportOutcome")

    assert {name for name, _ in into} == {"HoldFunds", "VerifyKyc", "RejectSettlement", "Compensate"}
    for name, way in into:
        known = sure if name == "Compensate" else maybe
        fields = brought(name, task("settlement", name), way, known[name])
        assert ("error" in fields) == (name == "Compensate"), name
        assert ("Error" in fields) == (name in ("HoldFunds", "RejectSettlement")), name
    reported = entering(DEFINITIONS["compensation"], set.union)["ReportOutcome"]
    assert {"error", "Error"} & reported == set()


def test_a_report_on_a_claimed_key_gets_the_request_once() -> None:
    """The request comes from the execution's input; a second copy would exceed the size limit."""
    claimed = [
        (name, way)
        for name, way in entrances("settlement", "ReportOutcome")
        if "AlreadyClaimed" in way.rule.get("ErrorEquals", ())
    ]

    assert {name for name, _ in claimed} == {"HoldFunds", "RejectSettlement"}
    for name, way in claimed:
        before = entering(DEFINITIONS["settlement"], set.union)[name] | {"settlement"}
        assert brought(name, task("settlement", name), way, before) == {"Error", "Cause"}
    given = task("settlement", "ReportOutcome")["Parameters"]["Payload"]
    assert [field for field, place in given.items() if place == "$$.Execution.Input"] == ["settlement.$"]
    assert given["state.$"] == "$"


def test_a_return_to_the_first_state_differs_from_a_start() -> None:
    """A return has a `case`, so its error is not the one that stopped the settlement."""
    definition = DEFINITIONS["compensation"]
    sure = entering(definition)

    for name, way in entrances("compensation", definition["StartAt"]):
        assert "case" in brought(name, task("compensation", name), way, sure[name]), name


def test_only_one_reversal_can_be_stuck_at_a_time() -> None:
    """EnterLimbo reads the only entry of `stuck`, so no transition to a reversal may bring another."""
    maybe = entering(DEFINITIONS["compensation"], set.union)

    assert "stuck" in maybe["EnterLimbo"]
    assert [name for name in ("RefundFee", "ReclaimFunds", "VoidHold") if "stuck" in maybe[name]] == []


@each_task
def test_a_task_keeps_its_input(machine: str, name: str) -> None:
    """Results are dropped or kept next to the input; four functions' answers become the state."""
    state = task(machine, name)
    shapes = ("InputPath", "ResultSelector", "ResultPath", "OutputPath")
    found = {shape: state[shape] for shape in shapes if shape in state}

    if name in ANSWERS:
        assert found == {"OutputPath": "$.Payload"}
    elif is_terminal(state):
        assert found == {"ResultPath": "$.result", "OutputPath": "$.result.Payload"}
    else:
        assert found == {"ResultPath": KEPT.get(name)}


@each_invocation
def test_each_function_gets_its_handlers_fields_by_name(machine: str, name: str) -> None:
    payload = task(machine, name)["Parameters"]["Payload"]
    read, looked_for = event_read(name)
    odd = {
        "state.$": "$",
        "execution.$": OWNER,
        "execution_arn.$": "$$.Execution.Id",
        "token.$": "$$.Task.Token",
    } | ({"settlement.$": GIVEN[machine, name]} if (machine, name) in GIVEN else {})

    fields = read | {"execution"} | (set() if "state" in read else {"settlement"})
    assert payload == {f"{field}.$": odd.get(f"{field}.$", f"$.{field}") for field in fields}
    assert looked_for == set()


@pytest.mark.parametrize("name", EVENTS)
def test_each_event_carries_the_detail_of_the_previous_function(name: str) -> None:
    kind, detail = EVENTS[name]
    entry = {"EventBusName": "${EventBus}", "Source": "settlement", "DetailType": kind, "Detail.$": detail}

    assert task("compensation", name)["Parameters"] == {"Entries": [entry]}


def test_a_started_compensation_gets_its_name_cause_and_owner() -> None:
    """Every try uses one name, which others cannot take first. The owner is the claiming execution."""
    assert task("settlement", "Compensate")["Parameters"] == {
        "StateMachineArn": "${Compensation}",
        "Name.$": "States.Format('{}-c{}-{}', $.settlement.key, $.owner_epoch, $.nonce)",
        "Input": {
            "settlement.$": "$.settlement",
            "error.$": "$.error",
            "owner.$": OWNER,
            "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID.$": "$$.Execution.Id",
        },
    }
