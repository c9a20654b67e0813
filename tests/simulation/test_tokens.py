"""Tasks that wait for a token in the simulated Step Functions."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.simulation.seeded.chance import Script
from tests.simulation.seeded.cloud import RunningExecution
from tests.simulation.seeded.hub import Killed
from tests.simulation.seeded.world import World
from tests.world.functions import HANDLERS
from tests.world.interpreter import Execution, TaskFailed

AGAIN = {"ErrorEquals": ["Runtime.ExitError", "Again"], "MaxAttempts": 1, "JitterStrategy": "FULL"}
ASK = {
    "Type": "Task",
    "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
    "Parameters": {"FunctionName": "Ask", "Payload": {"token.$": "$$.Task.Token"}},
    "TimeoutSecondsPath": "$.wait",
    "Retry": [AGAIN | {"IntervalSeconds": 9, "BackoffRate": 1, "MaxDelaySeconds": 9}],
    "End": True,
}
WAIT_SECONDS = 60


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World(Script({}))
    world.cloud.machines.definitions = {"m": {"StartAt": "Ask", "States": {"Ask": ASK}}}
    monkeypatch.setattr(world.oracle, "execution_ended", lambda execution: None)
    yield world
    world.hub.close()


def run(world: World, monkeypatch: pytest.MonkeyPatch, act: Callable[[str], None]) -> Execution:
    monkeypatch.setitem(HANDLERS, "Ask", lambda event, context: act(event["token"]))
    execution = world.cloud.machines.start("m", {"wait": WAIT_SECONDS}, "run-1")
    world.hub.run(10 * WAIT_SECONDS * 1000, lambda: False)
    return execution


def test_a_token_answer_ends_a_task_whose_function_has_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(token: str) -> None:
        world.hub.spawn(lambda: world.cloud.wake(token, "yes"), "a person", 30_000)

    execution = run(world, monkeypatch, act)

    assert (execution.status, execution.data) == ("SUCCEEDED", "yes")


def test_a_token_answer_ends_a_task_whose_function_still_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def act(token: str) -> None:
        seen.append(world.cloud.wake(token, "yes"))
        world.hub.sleep(1_000)
        seen.append(world.cloud.machines.executions[0].status)

    execution = run(world, monkeypatch, act)

    assert seen == [True, "SUCCEEDED"]
    assert execution.data == "yes"


@pytest.mark.parametrize("first", ["yes", TaskFailed("No")])
def test_a_token_can_be_used_once(
    world: World, monkeypatch: pytest.MonkeyPatch, first: str | TaskFailed
) -> None:
    taken: list[bool] = []

    execution = run(
        world, monkeypatch, lambda token: taken.extend(world.cloud.wake(token, said) for said in (first, "2"))
    )

    assert taken == [True, False]
    assert (execution.status, execution.data) == (
        ("SUCCEEDED", "yes") if first == "yes" else ("FAILED", {"wait": WAIT_SECONDS})
    )


def test_a_token_is_invalid_after_its_attempt_has_failed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens: list[str] = []
    taken: list[bool] = []

    def act(token: str) -> None:
        tokens.append(token)
        if len(tokens) == 1:
            late = (world.cloud.wake(token, "late") for token in (tokens[0], ""))
            world.hub.spawn(lambda: taken.extend(late), "a person", 5)
            raise Killed
        taken.extend(world.cloud.wake(each, "yes") for each in tokens)

    monkeypatch.setattr(world.cloud.machines, "pause", lambda *_: world.hub.sleep(10))
    execution = run(world, monkeypatch, act)

    assert len(set(tokens)) == 2
    assert taken == [False, False, False, True]
    assert execution.data == "yes"


def test_a_task_failed_by_its_token_is_retried(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [TaskFailed("Again"), "yes"]
    taken: list[bool] = []

    execution = run(
        world, monkeypatch, lambda token: taken.append(world.cloud.wake(token, answers[len(taken)]))
    )

    assert taken == [True, True]
    assert execution.data == "yes"


@pytest.mark.parametrize("seed", range(8))
def test_a_dying_functions_token_is_consistently_accepted_or_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    taken: list[bool] = []
    world.chance.random.seed(seed)

    def act(token: str) -> None:
        def answers() -> None:
            world.hub.wait(world.cloud.calls[0].answer)
            taken.append(world.cloud.wake(token, "yes"))

        if not taken:
            world.hub.spawn(answers, "a person")
            world.hub.sleep(1_000)
            raise Killed

    execution = run(world, monkeypatch, act)

    assert taken == [execution.status == "SUCCEEDED"] == [len(world.cloud.calls) == 1]


def test_an_answered_token_ends_its_tasks_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def act(token: str) -> None:
        def answers() -> None:
            seen.append((world.cloud.is_idle, world.cloud.is_awaited(token)))
            world.cloud.wake(token, "yes")
            seen.append((world.cloud.is_idle, world.cloud.is_awaited(token)))

        world.hub.spawn(answers, "a person", 30_000)

    run(world, monkeypatch, act)

    assert seen == [(True, True), (False, False)]


@pytest.mark.parametrize("seconds", [WAIT_SECONDS - 1, WAIT_SECONDS + 1])
def test_a_token_is_void_after_the_timeout(
    world: World, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    taken: list[bool] = []

    def act(token: str) -> None:
        world.hub.spawn(lambda: taken.append(world.cloud.wake(token, "yes")), "a person", seconds * 1000)

    execution = run(world, monkeypatch, act)

    assert taken == [execution.status == "SUCCEEDED"] == [seconds < WAIT_SECONDS]
    assert execution.error == ({} if taken[0] else {"Error": "States.Timeout", "Cause": ""})


def test_a_token_is_void_once_the_execution_is_stopped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []

    def act(token: str) -> None:
        def stops() -> None:
            (execution,) = world.cloud.machines.executions
            assert isinstance(execution, RunningExecution)
            world.cloud.stop(execution)
            taken.append(world.cloud.wake(token, "yes"))

        world.hub.spawn(stops, "a person", 30_000)

    execution = run(world, monkeypatch, act)

    assert (execution.status, taken) == ("ABORTED", [False])


def test_a_token_is_invalid_after_its_task_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = {name: value for name, value in ASK.items() if name != "End"} | {"Next": "Pause"}
    states = {"Ask": ask, "Pause": {"Type": "Wait", "SecondsPath": "$", "Next": "Over"}}
    over = {"Type": "Fail", "Error": "Over", "Cause": "in time"}
    world.cloud.machines.definitions = {"m": {"StartAt": "Ask", "States": {**states, "Over": over}}}
    taken: list[bool] = []

    def act(token: str) -> None:
        for seconds in (1, 5):
            world.hub.spawn(lambda: taken.append(world.cloud.wake(token, 9)), "a person", seconds * 1000)

    execution = run(world, monkeypatch, act)

    assert taken == [True, False]
    assert (execution.error["Error"], execution.visited) == ("Over", ["Ask", "Pause", "Over"])
