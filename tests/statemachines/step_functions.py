import json
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.statemachines.cases import INPUTS, MACHINES, MOCKED, run
from tests.statemachines.definitions import DEFINITIONS, is_terminal, task
from tests.statemachines.engines import ENDPOINT
from tests.world.constants import KEY
from tests.world.contracts import checked_outcome

ARN = "arn:aws:states:eu-west-1:123456789012"
RUN_SECONDS_MAX = 300
AT_ONCE = 4
"""Concurrent executions: more would block each other on LocalEmu until a task's ten seconds pass."""


@dataclass(frozen=True)
class Ended:
    """An execution's end; `trail` has its states with their calls."""

    status: str
    error: str | None
    cause: str
    output: Any
    trail: str

    @property
    def ends(self) -> str:
        return str(self.output["status"] if self.status == "SUCCEEDED" else self.error)


def definition(machine: str) -> str:
    """Return a definition as deployed, with names of resources that do not exist."""
    name, start = MACHINES[machine]
    text = json.dumps(DEFINITIONS[name] if ENDPOINT is None else _hastened(DEFINITIONS[name]))
    compensation = f"{ARN}:stateMachine:Compensation"
    replaced = {"StartCompensation": start, "Compensation": compensation, "EventBus": "pages"}
    function = "arn:aws:lambda:eu-west-1:123456789012:function"
    return re.sub(r"\$\{(\w+)\}", lambda found: replaced.get(found[1], f"{function}:{found[1]}"), text)


def create(client: Any, name: str, text: str) -> str:
    role = "arn:aws:iam::123456789012:role/machines"
    arn: str = client.create_state_machine(name=name, definition=text, roleArn=role)["stateMachineArn"]
    return arn


def run_all(client: Any) -> dict[tuple[str, str], Ended]:
    arns = {machine: create(client, machine, definition(machine)) for machine in MACHINES}
    give_up_at = time.monotonic() + RUN_SECONDS_MAX

    def end(each: tuple[str, str]) -> Ended:
        machine, case = each
        execution = client.start_execution(
            stateMachineArn=f"{arns[machine]}#{case}", input=json.dumps(INPUTS[MACHINES[machine][0]])
        )["executionArn"]
        return ended(client, execution, give_up_at)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(MOCKED, pool.map(end, MOCKED), strict=True))


def check(machine: str, case: str, execution: Ended) -> None:
    """Check that a case ends as in this process."""
    here = run(machine, case)
    last = task(MACHINES[machine][0], here.visits[-1].state)

    assert (execution.ends, execution.trail) == (here.ends, here.trail), case
    assert is_terminal(last)
    assert execution.status == ("FAILED" if last["Type"] == "Fail" else "SUCCEEDED"), case
    if execution.status == "SUCCEEDED":
        assert (execution.output["key"], execution.error) == (KEY, None), case
        return
    thrown = here.visits[-2].attempts[-1:]
    if execution.error == "PagerUnreachable":
        assert json.loads(execution.cause)["key"] == KEY
    elif here.visits[-1].state == "CompensationUnfinished":
        assert execution.cause.endswith(f"did not succeed: {thrown[0]}"), case
    elif here.visits[-1].state == "RequestRefused":
        assert [execution.error] == [json.loads(execution.cause)["errorType"]] == thrown, case
    else:
        assert [json.loads(execution.cause)["Error"]] == thrown, case


def _hastened(definition: Any) -> Any:
    """Shorten retry waits to at most one second: Step Functions Local really waits."""
    hastened = json.loads(json.dumps(definition))
    for state in hastened["States"].values():
        for retry in state.get("Retry", ()):
            retry |= {"IntervalSeconds": 1, "BackoffRate": 1}
            retry.pop("MaxDelaySeconds", None)
    return hastened


def ended(client: Any, execution: str, give_up_at: float) -> Ended:
    """Wait for an execution's end, until `give_up_at` on time.monotonic()."""
    while (described := client.describe_execution(executionArn=execution))["status"] == "RUNNING":
        assert time.monotonic() < give_up_at, f"{execution} has not ended"
        time.sleep(0.1)
    pages = client.get_paginator("get_execution_history").paginate(executionArn=execution)
    events = [event for page in pages for event in page["events"]]
    failed = events[-1].get("executionFailedEventDetails", {})
    return Ended(
        described["status"],
        failed.get("error"),
        failed.get("cause", ""),
        checked_outcome(json.loads(described["output"])) if described["status"] == "SUCCEEDED" else None,
        _trail(events),
    )


def _trail(events: list[Any]) -> str:
    entered: list[str] = []
    calls: Counter[int] = Counter()
    for event in events:
        if event["type"].endswith("StateEntered"):
            entered.append(event["stateEnteredEventDetails"]["name"])
        elif event["type"] == "TaskScheduled":
            calls[len(entered) - 1] += 1
    return " ".join(
        name + (f"*{calls[number]}" if calls[number] > 1 else "") for number, name in enumerate(entered)
    )
