"""What each state may read: nothing is read that some way to it did not bring, and nothing is lost."""

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
from tests.statemachines.handlers import ANSWERS, looked_for, read_from, returned

OWNER = "$$.Execution.Name"
"""Whom a settlement belongs to: the execution that drives it."""

KEPT = {
    "VerifyKyc": "$.kyc",
    "PageOnCall": "$.put",
    "AnnounceResolution": "$.put",
    "AwaitResolution": "$.resolution",
}
"""Where an answer goes that is put beside the input for a state further on."""

SELECTED = {"VerifyKyc": {"in_review.$": "$.Payload.in_review"}}
"""What is taken of an answer that is kept: the verdict stands in the journal, and nowhere else."""

STUCK = {"RefundFee": "fee", "ReclaimFunds": "release", "VoidHold": "hold"}
"""Under which name a reversal that got stuck is handed to EnterLimbo."""

REFUSED = {"ClaimKey", "BeginCompensation"}
"""The states that may find a request to be none: of these nothing was written."""

SINCE_LATELY = {"ClaimKey": {"execution_arn"}}
"""What a handler may not rely on, as an execution that runs on by the definition before does not send it."""

WHOLE = {"BeginCompensation", "PreparePage"}
"""The states whose function is handed all of the state."""

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
    """The fields that a state takes from its input, wherever it goes on to."""
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
    """The fields that are sure to be there after a state that was entered with `fields`."""
    if way.how.startswith("Catch"):
        return (
            {"Error", "Cause"}
            if way.rule["ResultPath"] == "$"
            else fields | fields_read(way.rule["ResultPath"])
        )
    if way.how.startswith("Choices"):
        parts = way.rule.get("And", [way.rule])
        return fields.union(*(fields_read(part["Variable"]) for part in parts if part.get("IsPresent")))
    if state.get("OutputPath") == "$.Payload":
        return ANSWERS[name]
    kept = state.get("ResultPath") if state["Type"] == "Task" else None
    return fields | ({kept.removeprefix("$.")} if kept else set())


def entering(definition: Any, merge: Merge = set.intersection) -> dict[str, set[str]]:
    """For each state the fields that every way to it brings, however often the way goes round.

    With `set.union` for `merge`, those that any way brings.
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
def test_no_state_reads_what_a_way_to_it_does_not_bring(machine: str) -> None:
    """States.Runtime, for a path that selects nothing, is an error that no Catch sees."""
    definition = DEFINITIONS[machine]
    sure = entering(definition)

    assert sure.keys() == definition["States"].keys()
    for name, state in definition["States"].items():
        assert reads(state) - {"$"} <= sure[name], name


def test_a_field_that_one_way_round_a_loop_lacks_is_not_relied_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The analysis itself: Second has `b` at first, and not once it is entered from Third."""
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
def test_a_handler_that_is_handed_the_whole_state_finds_in_it_what_it_cannot_do_without(name: str) -> None:
    needed = read_from(name, "state")
    guarded = looked_for(name, "state")

    if name == DEFINITIONS["compensation"]["StartAt"]:
        assert needed <= guarded
        assert guarded == {"settlement", "error", "owner", "reversal", "resolution", "case"}
    else:
        assert needed - guarded == {"settlement", "pages"}
        assert needed - guarded <= entering(DEFINITIONS["compensation"])[name]


def test_a_machine_that_comes_back_to_its_beginning_is_told_apart_from_one_that_begins() -> None:
    """By the `case` in its state: an error, then, is not the one that stopped the settlement."""
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
    """EnterLimbo takes the one entry of `stuck`: no way to a reversal brings one from before."""
    maybe = entering(DEFINITIONS["compensation"], set.union)

    assert "stuck" in maybe["EnterLimbo"]
    assert [name for name in ("RefundFee", "ReclaimFunds", "VoidHold") if "stuck" in maybe[name]] == []


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_the_first_state_takes_any_input(machine: str) -> None:
    """A request without the fields that it should have reaches the function that says so."""
    definition = DEFINITIONS[machine]

    assert reads(definition["States"][definition["StartAt"]]) == {"$"}


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_only_a_state_whose_answer_nobody_needs_goes_the_same_way_well_or_ill(machine: str) -> None:
    """Started already is as good as started, and a decision stands whether those paged hear of it or not."""
    states = DEFINITIONS[machine]["States"]

    same = {name for name, state in states.items() if len(targets(state)) != len(set(targets(state)))}

    assert same == ({"Compensate"} if machine == "settlement" else {"AnnounceResolution"})


@each_task
def test_a_task_keeps_its_input(machine: str, name: str) -> None:
    """Its result is dropped, or put beside the input; only what four functions return becomes the state."""
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
    """But for a refused request, of which nothing was written: there the error is all there is to tell."""
    for entry in task(machine, name)["Catch"]:
        if name in REFUSED and "InvalidRequest" in entry["ErrorEquals"]:
            assert entry["ResultPath"] == "$"
            assert DEFINITIONS[machine]["States"][entry["Next"]]["Type"] == "Fail"
        elif entry["Next"] == "EnterLimbo":
            assert entry["ResultPath"] == f"$.stuck.{STUCK[name]}"
        else:
            assert entry["ResultPath"] == "$.error"


@each_invocation
def test_a_state_hands_its_function_what_the_handler_reads(machine: str, name: str) -> None:
    payload = {key.removesuffix(".$") for key in task(machine, name)["Parameters"]["Payload"]}

    lately = SINCE_LATELY.get(name, set())
    assert payload == read_from(name, "event") | lately | {"execution"} | (
        {"state"} if name in WHOLE else {"settlement"}
    )
    assert lately == looked_for(name, "event")


@each_invocation
def test_every_function_is_told_who_executes_it(machine: str, name: str) -> None:
    """The execution's name is the settlement's owner, and stands on every log line."""
    assert task(machine, name)["Parameters"]["Payload"]["execution.$"] == "$$.Execution.Name"


@each_invocation
def test_a_function_is_handed_each_field_under_its_own_name(machine: str, name: str) -> None:
    """So that no two of them are ever crossed; the rest is from the context, or is a constant."""
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
def test_an_event_tells_what_the_function_before_it_has_written(machine: str, name: str) -> None:
    (entry,) = task(machine, name)["Parameters"]["Entries"]

    kind, detail = {
        "PageOnCall": ("LimboEntered", "$.page"),
        "AnnounceResolution": ("LimboResolved", "$.news"),
    }[name]
    assert entry["DetailType"] == kind
    assert entry["Detail.$"] == detail


@pytest.mark.parametrize(("machine", "name"), STARTS)
def test_a_compensation_is_named_after_its_settlement_and_told_why(machine: str, name: str) -> None:
    """The same name for the same attempt: it cannot be started twice, whoever starts it."""
    parameters = task(machine, name)["Parameters"]

    assert parameters["Name.$"] == "States.Format('{}-compensate-{}', $.settlement.key, $.recoveries)"
    assert parameters["Input"] == {
        "settlement.$": "$.settlement",
        "error.$": "$.error",
        "owner.$": OWNER,
        "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID.$": "$$.Execution.Id",
    }


def test_who_asks_for_a_reversal_goes_by_the_name_under_which_it_has_claimed() -> None:
    """By another name it would own nothing, and no failure would ever be reversed."""
    claim = task("settlement", DEFINITIONS["settlement"]["StartAt"])

    assert claim["Parameters"]["Payload"]["execution.$"] == OWNER
