"""The interpreter follows the specification and refuses unknown fields."""

from typing import Any

import pytest

from settlement.core.policy import outcome
from tests.world.asl_data import Unsupported, evaluate, fill, holds, put, read
from tests.world.interpreter import Execution, Machines, TaskFailed
from tests.world.world import World

LAMBDA, TOKEN = "arn:aws:states:::lambda:invoke", "arn:aws:states:::lambda:invoke.waitForTaskToken"
CALL = {"FunctionName": "Act", "Payload": {"at.$": "$.at", "by.$": "$$.Execution.Name"}}
TASK = {"Type": "Task", "Resource": LAMBDA, "Parameters": CALL, "TimeoutSeconds": 10, "End": True}


def run(state: dict[str, Any], *answers: Any, data: Any = None) -> tuple[Execution, list[Any]]:
    """Run a one-state machine; its function returns or raises the answers in turn."""
    pending, calls = list(answers), []

    def invoke(function: str, payload: Any) -> Any:
        calls.append((function, payload))
        answer = pending.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    caught = {"Type": "Fail", "Error": "Caught", "CausePath": "States.JsonToString($)"}
    definition = {"StartAt": "Here", "States": {"Here": state, "Caught": caught}}
    machines = Machines({"m": definition}, frozenset(), invoke)
    return machines.start("m", data or {"at": 1}, "run-1").run(), calls


def retry(*names: str, attempts: int = 2) -> dict[str, Any]:
    return {"ErrorEquals": [*names], "IntervalSeconds": 1, "BackoffRate": 2, "MaxAttempts": attempts}


@pytest.mark.parametrize(
    ("places", "output"),
    [
        ({}, {"StatusCode": 200, "Payload": "done"}),
        ({"ResultPath": None}, {"at": 1}),
        ({"ResultPath": "$.result"}, {"at": 1, "result": {"StatusCode": 200, "Payload": "done"}}),
        ({"ResultPath": "$.a.b", "OutputPath": "$.a.b.Payload"}, "done"),
        ({"ResultPath": "$.a.b", "OutputPath": "$.at"}, 1),
        ({"OutputPath": "$.Payload"}, "done"),
        ({"ResultPath": "$.result", "OutputPath": "$.result.Payload"}, "done"),
    ],
)
def test_a_result_is_put_at_its_result_path(places: dict[str, Any], output: Any) -> None:
    execution, calls = run(TASK | places, "done")

    assert (execution.status, execution.data) == ("SUCCEEDED", output)
    assert calls == [("Act", {"at": 1, "by": "run-1"})]


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({}, {}),
        ({"a.$": "$.Payload.a"}, {"a": 1}),
        ({"a": {"b.$": "$.Payload"}, "c": "$.Payload"}, {"a": {"b": {"a": 1}}, "c": "$.Payload"}),
    ],
)
def test_the_result_selector_applies_before_the_result_path(selector: dict[str, Any], selected: Any) -> None:
    execution, calls = run(TASK | {"ResultSelector": selector, "ResultPath": "$.kyc"}, {"a": 1})

    assert (execution.status, execution.data) == ("SUCCEEDED", {"at": 1, "kyc": selected})
    assert calls == [("Act", {"at": 1, "by": "run-1"})]


def test_the_result_selector_does_not_apply_to_errors() -> None:
    catch = [{"ErrorEquals": ["Bad"], "ResultPath": "$", "Next": "Caught"}]
    state = TASK | {"ResultSelector": {"a.$": "$.Payload.a"}, "Catch": catch}

    execution, _ = run(state, TaskFailed("Bad", "x"))

    assert execution.error == {"Error": "Caught", "Cause": '{"Error": "Bad", "Cause": "x"}'}


@pytest.mark.parametrize(("failures", "status"), [(2, "SUCCEEDED"), (3, "FAILED")])
def test_a_named_error_is_retried_as_its_retrier_says(failures: int, status: str) -> None:
    state = TASK | {"Retry": [retry("Other", attempts=9), retry("Slow")]}

    execution, calls = run(state, *[TaskFailed("Slow")] * failures, "done")

    assert (execution.status, len(calls)) == (status, 3)


def test_each_retrier_has_its_own_count() -> None:
    state = TASK | {"Retry": [retry("Busy", attempts=1), retry("Slow", attempts=1)]}

    execution, _ = run(state, TaskFailed("Busy"), TaskFailed("Slow"), TaskFailed("Busy"))

    assert execution.error["Error"] == "Busy"


@pytest.mark.parametrize(
    ("catcher", "cause"),
    [
        (
            {"ErrorEquals": ["Bad"], "ResultPath": "$.error"},
            '{"at": 1, "error": {"Error": "Bad", "Cause": "x"}}',
        ),
        ({"ErrorEquals": ["States.ALL"], "ResultPath": "$"}, '{"Error": "Bad", "Cause": "x"}'),
        ({"ErrorEquals": ["Bad"], "ResultPath": None}, '{"at": 1}'),
    ],
)
def test_a_caught_error_goes_where_the_catcher_says(catcher: dict[str, Any], cause: str) -> None:
    state = TASK | {"OutputPath": "$.Payload", "Catch": [catcher | {"Next": "Caught"}]}

    execution, _ = run(state, TaskFailed("Bad", "x"))

    assert (execution.status, execution.error) == ("FAILED", {"Error": "Caught", "Cause": cause})


def test_an_uncaught_error_ends_the_execution() -> None:
    state = TASK | {"Catch": [{"ErrorEquals": ["Other"], "ResultPath": "$", "Next": "Caught"}]}

    execution, _ = run(state, TaskFailed("Bad", "x"))

    assert (execution.status, execution.error) == ("FAILED", {"Error": "Bad", "Cause": "x"})


def test_the_observer_sees_only_successful_executions() -> None:
    observed: list[Any] = []
    states = {"Here": TASK | {"OutputPath": "$.Payload"}, "Caught": {"Type": "Fail", "Error": "E"}}

    def invoke(function: str, payload: Any) -> Any:
        if payload["by"] == "fails":
            raise TaskFailed("Boom")
        return "done"

    machines = Machines(
        {"m": {"StartAt": "Here", "States": states}},
        frozenset(),
        invoke,
        succeeded=lambda execution: observed.append((execution.name, execution.data)),
    )
    for name in ("fails", "succeeds"):
        machines.start("m", {"at": 1}, name).run()

    assert observed == [("succeeds", "done")]


def test_an_outcome_that_breaks_its_contract_ends_the_test(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.open_both()
    monkeypatch.setattr(outcome, "of_settled", lambda *_, **__: {"status": "SETTLED"})

    with pytest.raises(AssertionError, match="breaks the contract"):
        world.settle()


def test_a_wait_ends_with_the_token_or_with_its_timeout() -> None:
    catch = [{"ErrorEquals": ["States.Timeout"], "ResultPath": "$", "Next": "Caught"}]
    state = TASK | {"Resource": TOKEN, "TimeoutSecondsPath": "$.at", "Catch": catch}
    answered, _ = run(state, None)
    late, _ = run(state, None)
    assert (answered.is_waiting, answered.wait_seconds, late.is_waiting) == (True, 1, True)

    answered.succeed({"decision": "retry"})
    late.time_out()

    assert (answered.status, answered.data) == ("SUCCEEDED", {"decision": "retry"})
    assert late.run().error["Error"] == "Caught"


def test_a_token_is_invalid_after_its_task_has_failed() -> None:
    catch = [{"ErrorEquals": ["States.ALL"], "ResultPath": "$", "Next": "Caught"}]

    execution, _ = run(
        TASK | {"Resource": TOKEN, "TimeoutSecondsPath": "$.at", "Catch": catch}, TaskFailed("Bad")
    )

    assert (execution.error["Error"], execution.token) == ("Caught", "")


def test_a_wait_state_ends_only_when_its_time_is_over() -> None:
    execution, _ = run({"Type": "Wait", "SecondsPath": "$.at", "Next": "Caught"})
    assert (execution.is_waiting, execution.wait_seconds) == (True, 1)
    with pytest.raises(AssertionError):
        execution.succeed("now")

    execution.time_out()

    assert execution.run().error == {"Error": "Caught", "Cause": '{"at": 1}'}


@pytest.mark.parametrize("express", [True, False])
def test_only_an_express_machine_accepts_a_name_twice(express: bool) -> None:
    machines = Machines({"m": {"StartAt": "Here"}}, frozenset({"m"} if express else ()), lambda *_: None)
    machines.start("m", {}, "run-1")

    if express:
        assert machines.start("m", {}, "run-1").name == "run-1"
    else:
        with pytest.raises(TaskFailed, match="ExecutionAlreadyExists"):
            machines.start("m", {}, "run-1")


@pytest.mark.parametrize(
    "unknown",
    [
        {"InputPath": "$.at"},
        {"ResultSelector": "$.Payload"},
        {"ResultSelector": []},
        {"ResultSelector": {"x.$": "$.missing"}},
        {"ResultSelector": {"x.$": "$.at"}},
        {"ResultSelector": {"x.$": "$$.Execution.Name"}},
        {"ResultSelector": {"x.$": "$$"}},
        {"HeartbeatSeconds": 5},
        {"Resource": "arn:aws:states:::sqs:sendMessage"},
        {"ResultPath": "$.at.b"},
        {"ResultPath": "$.a[0]"},
        {"OutputPath": "$.missing"},
        {"Parameters": CALL | {"InvocationType": "Event"}},
        {"Parameters": {"FunctionName": "Act", "Payload": {"x.$": "$.missing"}}},
        {"Parameters": {"FunctionName": "Act", "Payload": {"x.$": "States.UUID()"}}},
        {"Parameters": {"FunctionName": "Act", "Payload": {"x.$": "$.a[0]"}}},
    ],
)
def test_an_unknown_field_fails_the_test(unknown: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        run(TASK | unknown, "done")


@pytest.mark.parametrize(
    "rule", [{"Retry": [retry("States.TaskFailed")]}, {"Retry": [retry("Bad") | {"Patience": 1}]}]
)
def test_an_unknown_retry_or_catch_field_fails_the_test(rule: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        run(TASK | rule, TaskFailed("Bad"))


def test_an_unknown_type_of_state_fails_the_test() -> None:
    with pytest.raises(KeyError):
        run({"Type": "Parallel", "Branches": []})


@pytest.mark.parametrize(
    ("choice", "data", "expected"),
    [
        ({"Variable": "$.x", "BooleanEquals": True}, {"x": True}, True),
        ({"Variable": "$.x", "BooleanEquals": True}, {"x": False}, False),
        ({"Variable": "$.x", "NumericGreaterThan": 0}, {"x": 1}, True),
        ({"Variable": "$.x", "NumericGreaterThan": 0}, {"x": 0}, False),
        ({"Variable": "$.x", "IsPresent": True}, {"x": None}, True),
        ({"Variable": "$.x", "IsPresent": True}, {}, False),
        ({"And": [{"Variable": "$.x", "BooleanEquals": True}] * 2}, {"x": True}, True),
        (
            {"And": [{"Variable": name, "BooleanEquals": True} for name in ("$.x", "$.y")]},
            {"x": True, "y": False},
            False,
        ),
    ],
)
def test_a_choice_rule_is_evaluated_as_specified(choice: dict[str, Any], data: Any, expected: bool) -> None:
    assert holds(choice, data) is expected


@pytest.mark.parametrize(
    ("choice", "data"),
    [
        ({"Variable": "$.x", "StringLessThan": "a"}, {"x": "a"}),
        ({"Or": []}, {}),
        ({"Variable": "$.x", "BooleanEquals": True}, {}),
        ({"Variable": "$.x", "BooleanEquals": True}, {"x": "true"}),
        ({"Variable": "$.x", "NumericGreaterThan": 0}, {"x": True}),
    ],
)
def test_an_unsupported_choice_rule_fails_the_test(choice: dict[str, Any], data: Any) -> None:
    with pytest.raises(Unsupported):
        holds(choice, data)


def test_paths_and_intrinsics_are_evaluated_as_specified() -> None:
    data, context = {"a": {"b": 7}}, {"Execution": {"Name": "run-1"}}

    assert read("$", data, context) == data
    assert fill([{"x.$": "$.a.b", "y": "$.a"}], data, context) == [{"x": 7, "y": "$.a"}]
    assert evaluate("States.Format('{}-{}', $$.Execution.Name, $.a.b)", data, context) == "run-1-7"
    assert evaluate("States.JsonToString($.a)", data, context) == '{"b": 7}'
    assert put(data, "$.a", 1) == {"a": 1}
    assert data == {"a": {"b": 7}}
