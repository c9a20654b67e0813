"""Tests of a deployment's acceptance checks, against AWS's documented answers and planted faults."""

import io
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from settle.acceptance import deployed, payments
from settle.acceptance.run import Run
from settle.acceptance.states import UNLISTED, Way, ways
from settle.acceptance.verdict import NotApplicable, Refuted
from settle.door import Answer
from settle.order import DoorForbidden
from tests.settle.acceptance.stage import stage
from tests.world.step_functions import client_error

MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:Settlement"
TEXT = json.dumps({"StartAt": "HoldFunds", "States": {"HoldFunds": {"Type": "Succeed"}}})


def run_on(client: Any, **outputs: str) -> Run:
    return Run(stage(client, outputs=outputs))


@pytest.fixture
def resources(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found: dict[str, str] = {}
    monkeypatch.setattr(deployed, "physical", lambda stack, kind: found)
    return found


class Definitions:
    """Step Functions that judges definitions as `valid` or `broken`."""

    def __init__(self, valid: str = "OK", broken: str = "FAIL") -> None:
        self.answers, self.asked = {"HoldFunds": valid, "Nowhere": broken}, list[str]()

    def describe_state_machine(self, **asked: str) -> Any:
        self.asked.append(asked["stateMachineArn"])
        return {"definition": TEXT}

    def validate_state_machine_definition(self, definition: str) -> Any:
        result = self.answers[json.loads(definition)["StartAt"]]
        return {"result": result, "diagnostics": [{"message": "no such state"}] if result == "FAIL" else []}


def judged(client: Definitions) -> str:
    outputs = dict.fromkeys(deployed.MACHINES, MACHINE)
    return deployed.definitions(run_on(client, **outputs | {"SettlementExpressArn": f"{MACHINE}:live"}))


def test_a_tasks_tested_paths_come_from_its_retries_and_catches() -> None:
    retries = [{"ErrorEquals": ["No"], "MaxAttempts": 0}, {"ErrorEquals": ["States.ALL"], "MaxAttempts": 2}]
    task = {"Type": "Task", "Retry": retries, "Catch": [{"ErrorEquals": ["No", "Never"], "Next": "Refused"}]}

    assert [*ways({"Hold": task, "Wait": {"Type": "Wait"}})] == [
        Way("Hold", "No", 0, "CAUGHT_ERROR", "Refused"),
        Way("Hold", UNLISTED, 0, "RETRIABLE"),
        Way("Hold", UNLISTED, 2, "FAILED"),
    ]


FUNCTION = "arn:aws:lambda:eu-west-1:123456789012:function:"
STREAM = "arn:aws:dynamodb:eu-west-1:123456789012:table/settlement/stream/2026-11-24T00:00:00.000"


def triggers(
    resources: dict[str, str],
    ages: Mapping[str, list[int]] | None = None,
    readers: tuple[str, ...] = ("PublishEvents", "SealJournal"),
    **told: Any,
) -> str:
    """Check triggers whose readers received records of these ages, in milliseconds."""
    queue = {"EventSourceArn": "arn:aws:sqs:eu-west-1:123456789012:queue", "FunctionArn": f"{FUNCTION}Start"}
    mappings = {"Start": queue} | {
        one: {"EventSourceArn": STREAM, "FunctionArn": f"{FUNCTION}{one}"} for one in readers
    }
    resources |= {name: name for name in mappings}

    def statistics(**asked: Any) -> Any:
        (function,) = (one["Value"] for one in asked["Dimensions"])
        return {"Datapoints": [{"Maximum": age} for age in (ages or {}).get(function, [2_500])]}

    client = SimpleNamespace(
        get_event_source_mapping=lambda **asked: (
            {"State": "Enabled", "LastProcessingResult": "OK"} | mappings[asked["UUID"]] | told
        ),
        get_metric_statistics=statistics,
        get_queue_attributes=lambda **asked: {"Attributes": {asked["AttributeNames"][0]: "2"}},
    )
    return deployed.triggers(run_on(client, StartDeadLetterQueueUrl="an-url", TableName="a-table"))


def canary(
    resources: dict[str, str], weights: list[int], version: str = TEXT, status: str = "UPDATE_COMPLETE"
) -> str:
    resources["ExpressLiveAlias"] = f"{MACHINE}:live"
    texts = {MACHINE: TEXT, f"{MACHINE}:1": version, f"{MACHINE}:2": TEXT}
    routes = [
        {"stateMachineVersionArn": f"{MACHINE}:{number}", "weight": weight}
        for number, weight in enumerate(weights, start=1)
    ]
    client = SimpleNamespace(
        describe_stacks=lambda **asked: {"Stacks": [{"StackStatus": status}]},
        describe_state_machine_alias=lambda **asked: {"routingConfiguration": routes},
        describe_state_machine=lambda **asked: {"definition": texts[asked["stateMachineArn"]]},
    )
    return deployed.canary(run_on(client))


PROVEN = {"conserved": True, "rows": 12, "faults": [], "unproven": []}
MOVING = {"conserved": False, "rows": 12, "faults": [], "unproven": ["ACCOUNT#a: moves"]}
FAULTY = {"conserved": False, "rows": 12, "faults": ["ACCOUNT#a: is 1 short"], "unproven": []}


def proof(resources: dict[str, str], *answers: Any) -> str:
    resources["ReconcileBooks"] = "settlement-test-ReconcileBooks"
    left = list(answers)

    def invoke(**asked: Any) -> Any:
        assert asked["FunctionName"] == resources["ReconcileBooks"]
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        failed = {"FunctionError": "Unhandled"} if "errorType" in answer else {}
        return {"Payload": io.BytesIO(json.dumps(answer).encode()), **failed}

    return deployed.proof(run_on(SimpleNamespace(invoke=invoke)))


def locked(answer: dict[str, Any] | str) -> str:
    def told(**asked: str) -> Any:
        if isinstance(answer, str):
            raise client_error("GetObjectRetention", answer)
        return {"Retention": answer}

    return deployed._locked(run_on(SimpleNamespace(get_object_retention=told), JournalBucket="b"), "n")


class Starts:
    """Step Functions' answer to a second start, during or after the first execution."""

    class ExecutionAlreadyExists(Exception):
        pass

    def __init__(self, again: str | None, status: str = "RUNNING") -> None:
        self.exceptions, self.again, self.status = Starts, again, status
        self.started: list[str] = []

    def start_execution(self, *, name: str, **sent: str) -> Any:
        self.started.append(name)
        if self.started.count(name) == 1:
            return {"executionArn": name}
        if self.again is None:
            raise Starts.ExecutionAlreadyExists
        return {"executionArn": self.again or name}

    def describe_execution(self, **asked: str) -> Any:
        return {"status": self.status}


def same_start(monkeypatch: pytest.MonkeyPatch, client: Starts) -> str:
    monkeypatch.setattr(Run, "account", lambda run, name, deposit=0: name)
    monkeypatch.setattr(Run, "request", lambda run, name, *parties: {"key": f"k-{len(client.started)}"})
    monkeypatch.setattr(Run, "at_rest", lambda run, key: SimpleNamespace(status="SETTLED"))
    return payments.same_start(run_on(client, SettlementStandardArn=MACHINE))


Found = dict[str, str]
YEARS = {"Mode": "COMPLIANCE", "RetainUntilDate": datetime(3027, 12, 29, tzinfo=UTC)}
OVER = {"Mode": "GOVERNANCE", "RetainUntilDate": datetime(2026, 11, 1, tzinfo=UTC)}
TRIGGERS = (
    "3 triggers are enabled, and have no problem;"
    " 2 readers of the stream, records at most 2.5 s old; queues: 2 in StartDeadLetter"
)


@pytest.mark.parametrize(
    ("check", "evidence"),
    [
        (lambda found: judged(Definitions()), "3 definitions are valid"),
        (triggers, TRIGGERS),
        (lambda found: canary(found, [100]), "1 aliases, each with all starts on the newest version"),
        (lambda found: proof(found, MOVING, PROVEN), "12 rows are conserved"),
        (lambda found: locked(YEARS), "locked by COMPLIANCE until 3027-12-29"),
    ],
)
def test_a_sound_deployment_is_proven(resources: Found, check: Callable[[Found], str], evidence: str) -> None:
    assert check(resources).startswith(evidence)


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (lambda found: judged(Definitions(valid="FAIL")), "judged no such state: is FAIL"),
        (lambda found: judged(Definitions(broken="OK")), "judged without a word: is OK"),
        (lambda found: triggers(found, State="Disabled"), "PublishEvents: its state: is Disabled"),
        (lambda found: triggers(found, LastProcessingResult="PROBLEM: Function call failed"), "call failed"),
        (lambda found: triggers(found, {"SealJournal": [1, 61_000]}), "SealJournal: .* were up to 61 s old"),
        (lambda found: triggers(found, {"PublishEvents": []}), "PublishEvents: no age of its records"),
        (lambda found: triggers(found, readers=("SealJournal",)), "stream: is 1, and should be 2"),
        (lambda found: canary(found, [90, 10]), r"is \[90, 10\], and should be \[100\]"),
        (lambda found: canary(found, [100], version="earlier"), "version is not the machine as deployed"),
        (lambda found: canary(found, [100], status="UPDATE_ROLLBACK_COMPLETE"), "was rolled back: UPDATE_RO"),
        (lambda found: proof(found, FAULTY), "ACCOUNT#a: is 1 short"),
        (lambda found: proof(found, *[MOVING] * 3), "ACCOUNT#a: moves"),
        (
            lambda found: proof(found, {"errorType": "MemoryError", "errorMessage": "none"}),
            "MemoryError: none",
        ),
        (lambda found: locked(OVER), "n: its lock has ended on 2026-11-01"),
        (lambda found: locked("NoSuchObjectLockConfiguration"), "n: is not locked: NoSuchObjectLockConf"),
    ],
)
def test_an_unsound_deployment_is_refuted_with_the_reason(
    resources: Found, monkeypatch: pytest.MonkeyPatch, check: Callable[[Found], str], why: str
) -> None:
    monkeypatch.setattr(deployed, "AGES_SECONDS_MAX", 0)

    with pytest.raises(Refuted, match=why):
        check(resources)


@pytest.mark.parametrize(
    ("check", "failure", "why"),
    [
        (lambda found: deployed.canary(run_on(None)), NotApplicable, "canary_percent is 0"),
        (lambda found: proof(found, ReadTimeoutError(endpoint_url="lambda")), NotApplicable, "too large"),
        (lambda found: locked("AccessDenied"), ClientError, "AccessDenied"),
    ],
)
def test_a_check_that_cannot_run_is_neither_proven_nor_refuted(
    resources: Found, check: Callable[[Found], str], failure: type[Exception], why: str
) -> None:
    with pytest.raises(failure, match=why):
        check(resources)


def test_definitions_are_read_from_the_machines_behind_their_aliases() -> None:
    client = Definitions()
    judged(client)

    assert client.asked == [MACHINE] * 3


@pytest.mark.parametrize(("again", "is_same"), [("", True), (None, False), ("another-arn", False)])
def test_repeating_a_start_must_return_the_same_execution(
    monkeypatch: pytest.MonkeyPatch, again: str | None, is_same: bool
) -> None:
    if is_same:
        assert "was the same execution" in same_start(monkeypatch, Starts(again))
        return
    with pytest.raises(Refuted, match=r"the same start again: is (ExecutionAlreadyExists|another-arn)"):
        same_start(monkeypatch, Starts(again))


def test_executions_that_end_too_early_make_the_check_not_applicable(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Starts(again=None, status="SUCCEEDED")

    with pytest.raises(NotApplicable, match="had ended before"):
        same_start(monkeypatch, client)
    assert len(client.started) == 2 * payments.STARTS_MAX


def test_an_unexpected_http_status_is_refuted_with_its_message() -> None:
    payments.expect_status("the start", Answer(202, {}), 202, 200)
    with pytest.raises(Refuted, match="the start: HTTP 503, the table does not answer"):
        payments.expect_status("the start", Answer(503, {"message": "the table does not answer"}), 202, 200)
    with pytest.raises(DoorForbidden, match="the start: AWS does not let you"):
        payments.expect_status("the start", Answer(403, {"message": "Forbidden"}), 202)
