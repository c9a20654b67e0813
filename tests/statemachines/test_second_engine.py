"""The mocked cases on LocalEmu, and differences of the embedded AWS from AWS.

LocalEmu really starts machines, refuses taken names, and ends waits.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from settle.acceptance.run import Run
from settle.acceptance.states import meet, states, ways
from settle.acceptance.verdict import Refuted
from settle.stack import Stack
from tests.statemachines.cases import INPUTS, MOCKED, MOCKS, run
from tests.statemachines.definitions import DEFINITIONS
from tests.statemachines.engines import LOCALEMU, client, localemu
from tests.statemachines.step_functions import Ended, check, create, definition, ended, run_all
from tests.world.constants import KEY, NONCE, WIRE

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (LOCALEMU / ".ready").exists(), reason="LocalEmu needs Python 3.13"),
]

SETTLEMENTS = ("SettlementExpress", "SettlementStandard")
TAKEN = "StepFunctions.ExecutionAlreadyExistsException"
DECISION = {"decision": "write-off", "reason": "bob has closed his account", "by": "olga"}
SECONDS_MAX = 100
CASE = "OneCallIsReal"


def mocks() -> Any:
    """Return the mock file with machines that make one real call: a start, or the wait."""
    copied = json.loads(json.dumps(MOCKS))
    machines, responses = copied["StateMachines"], copied["MockedResponses"]

    def add(name: str, machine: str, case: str, real: str | None = None) -> None:
        mocked = machines[machine]["TestCases"][case]
        machines[name] = {"TestCases": {CASE: {state: mocked[state] for state in mocked if state != real}}}

    for kind in SETTLEMENTS:
        for nested in ("ReversesAHold", "BeginStalls"):
            add(f"{kind}-{nested}", kind, "KycRejects", real="Compensate")
            add(f"{nested}-{kind}", "Compensation", nested)
    add("Waits", "Compensation", "NoDecisionAtFirst", real="AwaitResolution")
    responses["AlertPreparedTwice"]["1"]["Return"]["Payload"]["wait_seconds"] = SECONDS_MAX
    return copied


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    scratch = tmp_path_factory.mktemp("localemu")
    mock_file: Path = scratch / "mocks.json"
    mock_file.write_text(json.dumps(mocks()))
    with localemu(scratch, mock_file) as machines:
        yield machines


def test_every_mocked_case_has_the_same_end_on_localemu(engine: Any) -> None:
    every = run_all(engine)

    assert every.keys() == MOCKED.keys()
    for (machine, case), execution in every.items():
        check(machine, case, execution)


@pytest.mark.parametrize("kind", SETTLEMENTS)
def test_a_reversal_name_starts_once_and_both_starters_report(engine: Any, kind: str) -> None:
    settlement, reversals = nesting(engine, kind, "ReversesAHold")

    for errors in ([], [TAKEN]):
        execution = start(engine, settlement, WIRE)
        assert end(engine, execution).trail == run(kind, "KycRejects").trail
        assert failures(engine, execution)[1:] == errors
        (reversal,) = engine.list_executions(stateMachineArn=reversals)["executions"]
        assert reversal["status"] == "SUCCEEDED" or kind == "SettlementExpress"  # Express does not wait

    assert reversal["name"] == f"{KEY}-c0-{NONCE}"
    assert end(engine, reversal["executionArn"]).trail == run("Compensation", "ReversesAHold").trail


def test_a_failed_reversal_fails_the_settlement_waiting_for_it(engine: Any) -> None:
    settlement, reversals = nesting(engine, "SettlementStandard", "BeginStalls")

    execution = end(engine, start(engine, settlement, WIRE))

    (reversal,) = engine.list_executions(stateMachineArn=reversals)["executions"]
    assert (execution.error, execution.trail.split()[-1]) == ("SettlementStalled", "CompensationUnfinished")
    assert end(engine, reversal["executionArn"]).error == "CompensationStalled"


def test_a_wait_and_its_token_end_after_its_alerts_seconds(engine: Any) -> None:
    machine, token = waiting(engine)
    execution = start(engine, machine, INPUTS["compensation"])

    first, second = token(), token()
    engine.send_task_success(taskToken=first, output=json.dumps(DECISION))  # on AWS: TaskTimedOut
    engine.send_task_success(taskToken=second, output=json.dumps(DECISION))

    assert end(engine, execution).trail == run("Compensation", "NoDecisionAtFirst").trail
    waits = details(engine, execution, "TaskScheduled", "taskScheduledEventDetails")
    assert [wait["timeoutInSeconds"] for wait in waits if wait["resourceType"] == "sqs"] == [1, SECONDS_MAX]


def test_a_repeated_start_returns_its_execution_unless_the_input_differs(engine: Any) -> None:
    machine, token = waiting(engine)
    execution = start(engine, machine, INPUTS["compensation"], name="once")
    token()

    assert start(engine, machine, INPUTS["compensation"], name="once") == execution
    with pytest.raises(engine.exceptions.ExecutionAlreadyExists):
        start(engine, machine, INPUTS["settlement"], name="once")


def test_each_retry_and_catch_rule_applies_to_its_error(engine: Any) -> None:
    rules = sum(len([*ways(DEFINITIONS[machine]["States"])]) for machine in ("settlement", "compensation"))

    assert states(deployed(engine, definition)).startswith(f"{rules} rules")


def test_a_changed_rule_of_a_definition_is_found(engine: Any) -> None:
    told = definition("SettlementStandard")
    other = told.replace('"Next": "RejectSettlement"', '"Next": "SettlementStalled"')
    assert other != told
    (way,) = {one for one in ways(json.loads(told)["States"]) if one.next_state == "RejectSettlement"}
    with pytest.raises(
        Refuted, match="CAUGHT_ERROR SettlementStalled, and should be InsufficientFunds CAUGHT_ERROR Reject"
    ):
        meet(engine, other, way)


def deployed(engine: Any, text: Callable[[str], str]) -> Run:
    outputs = {
        f"{name}Arn": create(engine, f"{name}-deployed", text(name))
        for name in ("SettlementStandard", "Compensation")
    }
    stack = SimpleNamespace(endpoint_url=None, outputs=outputs, client=lambda service, attempts=1: engine)
    return Run(cast(Stack, stack))


def nesting(engine: Any, kind: str, nested: str) -> tuple[str, str]:
    """Create a settlement machine that really starts a compensation; return both ARNs."""
    reversals = create(engine, f"{nested}-{kind}", definition("Compensation"))
    text = definition(kind).replace('stateMachine:Compensation"', f'stateMachine:{nested}-{kind}#{CASE}"')
    return create(engine, f"{kind}-{nested}", text), reversals


def waiting(engine: Any) -> tuple[str, Callable[[], str]]:
    """Return a machine whose wait sends its token to a queue, and the queue's receiver."""
    queues = client("sqs", engine.meta.endpoint_url)
    url = queues.create_queue(QueueName="tokens")["QueueUrl"]
    asl = json.loads(definition("Compensation"))
    asl["States"]["AwaitResolution"] |= {
        "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"QueueUrl": url, "MessageBody.$": "$$.Task.Token"},
    }

    def token() -> str:
        give_up_at = time.monotonic() + SECONDS_MAX
        while time.monotonic() < give_up_at:
            for message in queues.receive_message(QueueUrl=url, WaitTimeSeconds=1).get("Messages", ()):
                queues.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                body: str = message["Body"]
                return body
        raise AssertionError("no token came")

    return create(engine, "Waits", json.dumps(asl)), token  # the same machine if it exists


def start(engine: Any, machine: str, payload: Any, **named: str) -> str:
    arn: str = engine.start_execution(
        stateMachineArn=f"{machine}#{CASE}", input=json.dumps(payload), **named
    )["executionArn"]
    return arn


def end(engine: Any, execution: str) -> Ended:
    return ended(engine, execution, time.monotonic() + SECONDS_MAX)


def details(engine: Any, execution: str, kind: str, name: str) -> list[Any]:
    events = engine.get_execution_history(executionArn=execution)["events"]
    return [event[name] for event in events if event["type"] == kind]


def failures(engine: Any, execution: str) -> list[str]:
    return [failed["error"] for failed in details(engine, execution, "TaskFailed", "taskFailedEventDetails")]
