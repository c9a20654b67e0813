import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from settlement.core.ledger import keys
from tests.e2e.embedded import COMMAND_SECONDS_MAX, Embedded, new_key, new_request, paid_once
from tests.e2e.upstream import PAGE, Upstream, service, settled
from tests.world.templates import PROJECT

pytestmark = pytest.mark.long


@pytest.fixture
def express(embedded: Embedded) -> Iterator[Upstream]:
    with service(embedded, "Express") as upstream:
        yield upstream


@pytest.fixture
def standard(embedded: Embedded) -> Iterator[Upstream]:
    with service(embedded, "Standard") as upstream:
        yield upstream


@pytest.fixture
def queue(embedded: Embedded) -> Iterator[Upstream]:
    with service(embedded, "The queue") as upstream:
        yield upstream


def ended(embedded: Embedded, upstream: Upstream, execution: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    def over() -> bool:
        outcome = upstream.look(execution)
        found.extend([outcome] if outcome else [])
        return bool(found)

    embedded.wait_for(over)
    return found[0]


# Express


def test_express_returns_the_outcome_and_a_repeated_call_replays_it(
    embedded: Embedded, express: Upstream
) -> None:
    request = new_request(embedded, deadline_seconds=120)

    first, again = express.settle(request), express.settle(request)

    assert (first["status"], first["replayed"]) == ("SETTLED", False)
    assert again == first | {"replayed": True}
    assert paid_once(embedded, request)
    assert embedded.settlement(request["key"])["deadline_seconds"] == 120


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"deadline_seconds": 120}, ("IdempotencyConflict", "key: ")),
        ({"amount": 48.2}, ("InvalidRequest", "amount: must be a decimal string")),
    ],
    ids=str,
)
def test_express_names_a_bad_requests_error_and_changes_nothing(
    embedded: Embedded, express: Upstream, changes: dict[str, Any], words: tuple[str, str]
) -> None:
    request = new_request(embedded)
    express.settle(request)

    with pytest.raises(express.Refused) as refused:
        express.settle(request | changes)

    name, message = refused.value.args
    assert (name, message.startswith(words[1])) == (words[0], True)
    assert paid_once(embedded, request)


def test_repeating_an_express_start_after_a_lost_answer_replays_it(
    embedded: Embedded, express: Upstream
) -> None:
    request = new_request(embedded)

    with (
        express.losing_the_answer("step_functions", "StartSyncExecution"),
        pytest.raises(ReadTimeoutError),
    ):
        express.settle(request)
    asked = express.settle(request)

    assert (asked["status"], asked["replayed"]) == ("SETTLED", True)
    assert paid_once(embedded, request)


def test_repeating_an_express_start_after_a_failed_execution_replays_it(
    embedded: Embedded, express: Upstream
) -> None:
    request = new_request(embedded)
    express.settle(request)

    with embedded.without_grants("ReportOutcome"), pytest.raises(express.Unknown) as unknown:
        express.settle(request)
    asked = express.settle(request)

    assert unknown.value.args == ("SettlementStalled",)
    assert (asked["status"], asked["replayed"]) == ("SETTLED", True)


def test_the_express_client_outwaits_an_execution_and_never_retries(express: Upstream) -> None:
    config = express.step_functions.meta.config

    assert config.read_timeout > 300
    assert config.retries["total_max_attempts"] == 1


def test_the_pages_example_runs_unchanged_on_the_embedded_aws(embedded: Embedded) -> None:
    """It runs in a shell with only the AWS variables that `settle local env` prints."""
    (shown,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    finished = subprocess.run(
        ["bash", "-euc", shown],
        env=embedded.environment | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_SECONDS_MAX,
    )

    assert (finished.returncode, finished.stderr) == (0, "")
    outcome = ast.literal_eval(finished.stdout.splitlines()[-1])
    assert (outcome["status"], outcome["payer"], outcome["payee"]) == ("SETTLED", "dora", "emil")
    assert embedded.available("emil") == "47.72"


# Standard


def test_a_standard_execution_is_polled_until_it_ends(embedded: Embedded, standard: Upstream) -> None:
    request = new_request(embedded)

    first = ended(embedded, standard, standard.start(request))
    again = ended(embedded, standard, standard.start(request))

    assert (first["status"], first["replayed"]) == ("SETTLED", False)
    assert again == first | {"replayed": True}
    assert paid_once(embedded, request)


def test_standard_names_a_bad_requests_error_and_changes_nothing(
    embedded: Embedded, standard: Upstream
) -> None:
    request = new_request(embedded)
    ended(embedded, standard, standard.start(request))

    with pytest.raises(standard.Refused) as refused:
        ended(embedded, standard, standard.start(request | {"payee": "another-payee"}))

    name, message = refused.value.args
    assert (name, message.startswith("key: ")) == ("IdempotencyConflict", True)
    assert paid_once(embedded, request)


def test_repeating_a_standard_start_after_a_lost_answer_pays_once(
    embedded: Embedded, standard: Upstream
) -> None:
    request = new_request(embedded)

    with standard.losing_the_answer("step_functions", "StartExecution"), pytest.raises(ReadTimeoutError):
        standard.start(request)
    embedded.wait_for(lambda: embedded.stack.store.read(keys.settlement(request["key"])) is not None)
    asked = ended(embedded, standard, standard.start(request))
    embedded.wait_for(lambda: embedded.settlement(request["key"])["status"] == "SETTLED")

    assert (asked["status"] in ("PROCESSING", "SETTLED"), asked["replayed"]) == (True, True)
    assert paid_once(embedded, request)


@contextmanager
def another_machine(embedded: Embedded) -> Iterator[str]:
    (shown,) = re.findall(r"```jsonc\n(.*?)```", PAGE, re.DOTALL)
    state = json.loads(shown)
    state["Parameters"]["StateMachineArn"] = embedded.stack.outputs["SettlementStandardArn"]
    iam, name = embedded.stack.client("iam"), new_key("upstream-machine")
    trust = {"Effect": "Allow", "Principal": {"Service": "states.amazonaws.com"}, "Action": "sts:AssumeRole"}
    allowed = {"Effect": "Allow", "Action": ["states:*", "events:*"], "Resource": "*"}
    trusted, policy = (
        json.dumps({"Version": "2012-10-17", "Statement": [each]}) for each in (trust, allowed)
    )
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trusted)["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="nested", PolicyDocument=policy)
    definition = json.dumps({"StartAt": "Settle", "States": {"Settle": state}})
    made = embedded.step_functions.create_state_machine(name=name, definition=definition, roleArn=role)
    yield made["stateMachineArn"]
    embedded.step_functions.delete_state_machine(stateMachineArn=made["stateMachineArn"])


def test_another_state_machine_can_start_a_settlement_and_repeat_it(embedded: Embedded) -> None:
    """Each execution sends its own id with the same request."""
    request = new_request(embedded)
    machine, outcomes = embedded.step_functions, []

    with another_machine(embedded) as arn:
        for _ in range(2):
            started = machine.start_execution(stateMachineArn=arn, input=json.dumps(request))["executionArn"]
            finished = embedded.ended(started)
            assert finished["status"] == "SUCCEEDED", finished
            outcomes.append(json.loads(finished["output"]))

    assert [(one["status"], one["replayed"]) for one in outcomes] == [("SETTLED", False), ("SETTLED", True)]
    assert outcomes[1] == outcomes[0] | {"replayed": True}
    assert paid_once(embedded, request)


# The queue


def put_aside(embedded: Embedded, request: dict[str, Any]) -> dict[str, str]:
    """Take a request's message from the dead-letter queue once there; return its attributes."""
    sqs, url = embedded.stack.client("sqs"), embedded.stack.outputs["StartDeadLetterQueueUrl"]
    found: list[dict[str, Any]] = []

    def there() -> bool:
        answer = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0, MessageAttributeNames=["All"]
        )
        found.extend(each for each in answer.get("Messages", []) if each["Body"] == json.dumps(request))
        return bool(found)

    embedded.wait_for(there)
    (message,) = found
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}


def test_a_message_is_settled_once_however_often_it_is_sent(embedded: Embedded, queue: Upstream) -> None:
    request = new_request(embedded)

    with queue.losing_the_answer("sqs", "SendMessage"), pytest.raises(ReadTimeoutError):
        queue.send(request)
    queue.send(request)
    embedded.wait_for(settled(embedded, request))

    assert paid_once(embedded, request)


def test_a_refused_message_is_dead_lettered_with_its_reason(embedded: Embedded, queue: Upstream) -> None:
    good = new_request(embedded)
    bad = good | {"amount": "84.20"}

    queue.send(good)
    embedded.wait_for(settled(embedded, good))
    queue.send(bad)
    attributes = put_aside(embedded, bad)

    assert attributes.keys() == {"reason", "message_id"}
    assert attributes["reason"].startswith("IdempotencyConflict: key: ")
    assert paid_once(embedded, good)


def test_a_malformed_message_does_not_stop_another_message(embedded: Embedded, queue: Upstream) -> None:
    request = new_request(embedded)
    malformed = {name: value for name, value in request.items() if name != "key"}

    queue.send(malformed)
    queue.send(request)
    embedded.wait_for(settled(embedded, request))

    assert put_aside(embedded, malformed)["reason"].startswith("InvalidRequest: key: ")


def test_express_reports_a_queued_payment_without_paying_twice(embedded: Embedded, express: Upstream) -> None:
    request = new_request(embedded)

    with service(embedded, "The queue") as queue:
        queue.send(request)
    asked = express.settle(request)
    embedded.wait_for(settled(embedded, request))

    assert asked["status"] in ("PROCESSING", "SETTLED")
    assert paid_once(embedded, request)
