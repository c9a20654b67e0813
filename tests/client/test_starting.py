import json
import pickle
from typing import Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.stub import ANY, Stubber

from settlement_client import Client, IdempotencyConflict, InvalidRequest, Outcome, Refused, Unknown
from tests.client.payments import KEY, OUTCOMES, SETTLED, request, told
from tests.world.step_functions import client_error

EXPRESS = "arn:aws:states:eu-west-1:123456789012:stateMachine:Express"
STANDARD = "arn:aws:states:eu-west-1:123456789012:stateMachine:Standard"
QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/start"
EXECUTION = STANDARD.replace("stateMachine", "execution") + ":one"


@pytest.fixture
def client(session: boto3.Session) -> Client:
    return Client(express_arn=EXPRESS, standard_arn=STANDARD, queue_url=QUEUE, session=session)


def names(client: Any, operation: str) -> list[str]:
    started: list[str] = []
    client.meta.events.register(
        f"provide-client-params.*.{operation}", lambda params, **_: started.append(params["name"])
    )
    return started


def answered(status: str, **more: str) -> dict[str, Any]:
    return {"executionArn": EXECUTION, "startDate": 0, "stopDate": 1, "status": status, **more}


def express(client: Client, answer: dict[str, Any]) -> Outcome:
    """Pay by Express with this answer; check the request."""
    payment = request()
    sent = {"stateMachineArn": EXPRESS, "name": ANY, "input": payment.to_json()}
    with Stubber(client._patient) as stubber:
        stubber.add_response("start_sync_execution", answer, sent)
        return client.start_express(payment)


@pytest.mark.parametrize("outcome", [SETTLED, OUTCOMES[1] | {"key": KEY}], ids=["SETTLED", "REJECTED"])
def test_express_returns_the_outcome(client: Client, outcome: dict[str, Any]) -> None:
    assert express(client, answered("SUCCEEDED", output=told(outcome))) == Outcome.from_json(outcome)


@pytest.mark.parametrize(
    ("error", "expected"),
    [("InvalidRequest", InvalidRequest), ("IdempotencyConflict", IdempotencyConflict)],
)
def test_a_refused_start_raises_the_stacks_own_message(
    client: Client, error: str, expected: type[Refused]
) -> None:
    cause = json.dumps({"errorType": error, "errorMessage": "fee: must be 0.48"})

    with pytest.raises(expected) as refused:
        express(client, answered("FAILED", error=error, cause=cause))

    assert str(refused.value) == f"{KEY}: fee: must be 0.48"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (answered("TIMED_OUT"), "TIMED_OUT"),
        (answered("FAILED", error="SettlementStalled", cause="no"), "SettlementStalled"),
        (answered("SUCCEEDED", output=told(SETTLED | {"status": "PAID"})), "outcome.status: 'PAID'"),
        (answered("SUCCEEDED", output="{"), "outcome: is no JSON"),
        (answered("SUCCEEDED", output=told(OUTCOMES[1])), "outcome.key: is not the key of the request"),
    ],
    ids=["timed out", "stalled", "unknown status", "no JSON", "another key"],
)
def test_an_unclear_answer_raises_unknown_and_demands_the_same_key(
    client: Client, answer: dict[str, Any], words: str
) -> None:
    with pytest.raises(Unknown) as unknown:
        express(client, answer)

    assert str(unknown.value).startswith(
        f"{KEY}: the outcome is unknown. Send the same request again, with the"
    )
    assert "same key; never use a new key" in str(unknown.value)
    assert words in str(unknown.value)


def test_an_unknown_error_keeps_its_message_when_pickled() -> None:
    unknown = Unknown.of(KEY, "TIMED_OUT")

    assert str(pickle.loads(pickle.dumps(unknown))) == str(unknown)


DOORS = [
    ("_patient", "StartSyncExecution", "start_express"),
    ("_prompt", "StartExecution", "start_standard"),
    ("_sqs", "SendMessage", "send"),
]


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (ReadTimeoutError(endpoint_url="https://aws.invalid"), "Read timeout"),
        (client_error("Start", "ThrottlingException"), "ThrottlingException"),
    ],
    ids=["lost", "throttled"],
)
@pytest.mark.parametrize(("service", "operation", "method"), DOORS, ids=[door[2] for door in DOORS])
def test_a_start_call_that_fails_raises_unknown(
    client: Client, service: str, operation: str, method: str, failure: Exception, words: str
) -> None:
    def fail(**_: Any) -> None:
        raise failure

    getattr(client, service).meta.events.register(f"before-call.*.{operation}", fail)

    with pytest.raises(Unknown, match=f"with the same key; .*{words}"):
        getattr(client, method)(request())


def test_each_start_standard_call_names_a_new_execution(client: Client) -> None:
    payment, started = request(), names(client._prompt, "StartExecution")
    sent = {"stateMachineArn": STANDARD, "name": ANY, "input": payment.to_json()}

    with Stubber(client._prompt) as stubber:
        for _ in range(2):
            stubber.add_response("start_execution", {"executionArn": EXECUTION, "startDate": 0}, sent)
        executions = [client.start_standard(payment), client.start_standard(payment)]

    assert executions == [EXECUTION] * 2
    assert len({*started}) == 2
    assert all(name.removeprefix(f"{KEY}-").isalnum() and len(name) == len(KEY) + 9 for name in started)


def test_the_client_queues_a_request_in_its_payers_message_group(client: Client) -> None:
    payment = request()

    with Stubber(client._sqs) as stubber:
        group = {"MessageGroupId": payment.payer}
        sent = {"QueueUrl": QUEUE, "MessageBody": payment.to_json(), **group}
        stubber.add_response("send_message", {"MessageId": "1", "MD5OfMessageBody": "0"}, sent)
        client.send(payment)
        stubber.assert_no_pending_responses()


def test_boto3_never_retries_a_start_and_waits_long_for_express(client: Client) -> None:
    assert [each.meta.config.retries["total_max_attempts"] for each in (client._patient, client._prompt)] == [
        1,
        1,
    ]
    assert client._patient.meta.config.read_timeout > 300


@pytest.mark.parametrize(
    ("method", "asked", "address"),
    [
        ("start_express", (request(),), "express_arn"),
        ("start_standard", (request(),), "standard_arn"),
        ("send", (request(),), "queue_url"),
        ("status", (KEY,), "api_url"),
        ("wait", (KEY, 0), "api_url"),
        ("cancel", (request(),), "api_url"),
    ],
)
def test_calling_a_method_without_its_configured_address_names_the_address(
    session: boto3.Session, method: str, asked: tuple[object, ...], address: str
) -> None:
    client = Client(session=session)

    with pytest.raises(ValueError, match=f"^{address}: this client was made without it$"):
        getattr(client, method)(*asked)


@pytest.mark.parametrize(("name", "saga"), [("settlement-prod", ""), ("Payments/Eu", "Eu")])
def test_a_client_of_a_stack_takes_addresses_from_its_outputs(
    session: boto3.Session, name: str, saga: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloudformation = session.client("cloudformation")
    monkeypatch.setattr(session, "client", lambda name: {"cloudformation": cloudformation}[name])
    outputs = {
        "SettlementExpressArn": EXPRESS,
        "SettlementStandardArn": STANDARD,
        "StartQueueUrl": QUEUE,
        "SettlementsApiUrl": "https://api.invalid",
        "TableName": "no business of a client",
    }
    stack = {
        "StackName": "settlement-prod",
        "CreationTime": 0,
        "StackStatus": "CREATE_COMPLETE",
        "Outputs": [{"OutputKey": f"{saga}{key}", "OutputValue": value} for key, value in outputs.items()],
    }

    with Stubber(cloudformation) as stubber:
        stubber.add_response("describe_stacks", {"Stacks": [stack]}, {"StackName": name.partition("/")[0]})
        client = Client.of_stack(name, session)

    assert [client._address(name) for name in ("express_arn", "standard_arn", "queue_url", "api_url")] == [
        EXPRESS,
        STANDARD,
        QUEUE,
        "https://api.invalid",
    ]
