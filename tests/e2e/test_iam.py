import re
from collections.abc import Callable
from typing import Any

import boto3
import psutil
import pytest
from botocore.exceptions import ClientError

from infra.rooms import HANDLERS
from settle.local import record
from settlement.core.ledger import keys
from tests.e2e.embedded import Embedded

pytestmark = pytest.mark.long

FUNCTIONS = {name: handler.rows for name, handler in HANDLERS.items()}
GRANTED = {
    function: {re.sub("(?<!^)(?=[A-Z])", "_", action).lower() for action in actions} - {"put", "update"}
    for function, actions in FUNCTIONS.items()
} | {"ReconcileBooks": {"get_item", "query", "scan"}}
"""Each role's operations outside transactions."""

TOUCHED = {
    "VerifyKyc": ("SETTLEMENT#no-such-key", "CIRCUIT"),
    "KycDecided": ("SETTLEMENT#no-such-key", "KYC_EVENT#no-such-event"),
    "RecoverStalled": ("SETTLEMENT#no-such-key",),
    "ResolveLimbo": ("EVIDENCE#no-such-key",),
    "StartSettlements": ("SETTLEMENT#no-such-key",),
    "AcceptSettlements": ("SETTLEMENT#no-such-key",),
    "CancelSettlement": ("SETTLEMENT#no-such-key",),
    "SweepMerchants": ("SWEPT#no-such-partition", "ACCOUNT#merchant.none"),
}
"""Partitions that these functions may access. The embedded AWS ignores `dynamodb:LeadingKeys`."""

SECRETS = {"KycCredentialsArn": "VerifyKyc", "KycSigningArn": "KycDecided"}
"""Each provider secret, and the only function that may read it."""

ACTIONS = ("get_item", "put_item", "update_item", "delete_item", "query", "scan", "batch_write_item")


@pytest.fixture(scope="module", params=GRANTED)
def role(embedded: Embedded, request: pytest.FixtureRequest) -> tuple[str, Any]:
    return request.param, acting_as(embedded, request.param, "dynamodb")


def acting_as(embedded: Embedded, function: str, service: str) -> Any:
    sts, iam = embedded.stack.client("sts"), embedded.stack.client("iam")
    arn = iam.get_role(RoleName=embedded.roles[function])["Role"]["Arn"]
    credentials = sts.assume_role(RoleArn=arn, RoleSessionName="under-test")["Credentials"]
    return boto3.client(
        service,
        endpoint_url=embedded.stack.endpoint_url,
        region_name=record.REGION,
        aws_access_key_id=credentials["AccessKeyId"],
        aws_secret_access_key=credentials["SecretAccessKey"],
        aws_session_token=credentials["SessionToken"],
    )


def outcome_of(call: Callable[..., Any], **parameters: Any) -> str:
    try:
        call(**parameters)
    except ClientError as error:
        code: str = error.response["Error"]["Code"]
        return code
    return "done"


def attempt(client: Any, action: str, table: str, pk: str = "ACCOUNT#eve") -> str:
    """Try to access a missing row, by a write that its condition refuses; return the result."""
    key = {"pk": {"S": pk}, "sk": {"S": "BALANCE"}}
    parameters: dict[str, dict[str, Any]] = {
        "get_item": {"Key": key},
        "put_item": {"Item": key, "ConditionExpression": "attribute_exists(pk)"},
        "update_item": {
            "Key": key,
            "UpdateExpression": "SET available = :n",
            "ConditionExpression": "attribute_exists(pk)",
            "ExpressionAttributeValues": {":n": {"N": "1"}},
        },
        "delete_item": {"Key": key},
        "query": {
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": pk}},
        },
        "scan": {},
    }
    if action == "batch_write_item":
        return outcome_of(client.batch_write_item, RequestItems={table: [{"PutRequest": {"Item": key}}]})
    return outcome_of(getattr(client, action), TableName=table, **parameters[action])


@pytest.mark.parametrize("action", ACTIONS)
def test_each_functions_role_allows_only_its_steps_actions(
    embedded: Embedded, role: tuple[str, Any], action: str
) -> None:
    state, client = role
    allowed = "done" if action in ("get_item", "query", "scan") else "ConditionalCheckFailedException"
    expected = allowed if action in GRANTED[state] else "AccessDeniedException"

    for pk in TOUCHED.get(state, ("ACCOUNT#eve",)):
        assert attempt(client, action, embedded.stack.outputs["TableName"], pk) == expected


@pytest.mark.parametrize("index", [keys.INDEX, None])
def test_recovery_may_query_only_the_index(embedded: Embedded, index: str | None) -> None:
    client = acting_as(embedded, "RecoverStalled", "dynamodb")
    where = {"IndexName": index} if index else {}
    key = "gsi1pk" if index else "pk"

    ended = outcome_of(
        client.query,
        TableName=embedded.stack.outputs["TableName"],
        KeyConditionExpression=f"{key} = :pk",
        ExpressionAttributeValues={":pk": {"S": keys.in_flight_partition(0)}},
        **where,
    )

    assert ended == ("done" if index else "AccessDeniedException")


@pytest.mark.parametrize("function", GRANTED)
def test_each_secret_can_be_read_only_by_its_own_function(embedded: Embedded, function: str) -> None:
    client = acting_as(embedded, function, "secretsmanager")

    ended = {
        output: outcome_of(client.get_secret_value, SecretId=embedded.stack.outputs[output])
        for output in SECRETS
    }

    assert ended == {
        output: "done" if reader == function else "AccessDeniedException"
        for output, reader in SECRETS.items()
    }


@pytest.mark.parametrize(
    "function",
    [
        *("KycDecided", "RecoverStalled", "StartSettlements", "AcceptSettlements", "CancelSettlement"),
        *("TakeOrder", "VerifyKyc"),
    ],
)
def test_each_function_may_start_only_its_own_machines(embedded: Embedded, function: str) -> None:
    client, outputs = acting_as(embedded, function, "stepfunctions"), embedded.stack.outputs
    own = {
        "KycDecided": set(),
        "RecoverStalled": {"SettlementStandardArn", "SettlementExpressArn", "CompensationArn"},
        "StartSettlements": {"SettlementExpressArn"},
        "AcceptSettlements": {"SettlementExpressArn"},
        "CancelSettlement": set(),
        "TakeOrder": {"CompensationArn"},
        "VerifyKyc": set(),
    }[function]
    others = sorted({"SettlementStandardArn", "SettlementExpressArn", "CompensationArn"} - own)

    started = [
        outcome_of(client.start_execution, stateMachineArn=outputs[machine], input="{}") for machine in others
    ]
    asked = {
        machine: outcome_of(
            client.describe_execution,
            executionArn=outputs[machine].replace(":stateMachine:", ":execution:") + ":no-such-execution",
        )
        for machine in ("CompensationArn", "SettlementStandardArn")
    }

    assert started == ["AccessDeniedException"] * len(others)
    about_reversals = (
        "ExecutionDoesNotExist" if function in ("RecoverStalled", "TakeOrder") else "AccessDeniedException"
    )
    assert asked == {"CompensationArn": about_reversals, "SettlementStandardArn": "AccessDeniedException"}


@pytest.mark.parametrize("function", GRANTED)
def test_only_webhook_orders_and_cancellation_functions_may_invoke_recovery(
    embedded: Embedded, function: str
) -> None:
    client = acting_as(embedded, function, "lambda")
    name = embedded.functions["RecoverStalled"]
    described = embedded.stack.client("lambda").get_function_configuration(FunctionName=name)
    recovery = described["FunctionArn"]
    other = recovery.replace("RecoverStalled", "ResolveLimbo")

    invoked = outcome_of(client.invoke, FunctionName=recovery, InvocationType="Event", Payload='{"key": "x"}')

    may = function in ("KycDecided", "TakeOrder", "CancelSettlement")
    assert invoked == ("done" if may else "AccessDeniedException")
    assert outcome_of(client.invoke, FunctionName=other, InvocationType="Event") != "done"


@pytest.mark.parametrize("function", GRANTED)
def test_only_the_orders_function_may_send_task_success(embedded: Embedded, function: str) -> None:
    machines, queues = (acting_as(embedded, function, name) for name in ("stepfunctions", "sqs"))
    outputs = embedded.stack.outputs

    sent = outcome_of(machines.send_task_success, taskToken="x", output="{}")
    received = outcome_of(queues.receive_message, QueueUrl=outputs["StartQueueUrl"])

    assert sent == ("TaskDoesNotExist" if function == "TakeOrder" else "AccessDeniedException")
    assert received == ("done" if function == "StartSettlements" else "AccessDenied")


def test_a_transaction_needs_permission_for_each_of_its_writes(
    embedded: Embedded, role: tuple[str, Any]
) -> None:
    state, client = role
    table = embedded.stack.outputs["TableName"]
    (pk, *_) = TOUCHED.get(state, ("ACCOUNT#eve",))
    key = {"pk": {"S": pk}, "sk": {"S": "BALANCE"}}
    put = {"Put": {"TableName": table, "Item": key, "ConditionExpression": "attribute_exists(pk)"}}

    with pytest.raises(ClientError) as refused:
        client.transact_write_items(TransactItems=[put])

    by_condition = "TransactionCanceledException"
    puts = FUNCTIONS[state].keys() & {"Put", "PutItem"}
    expected = by_condition if puts else "AccessDeniedException"
    assert refused.value.response["Error"]["Code"] == expected


def test_all_embedded_processes_listen_only_on_localhost(embedded: Embedded) -> None:
    embedded.invoke("HoldFunds", {})  # so that there is a function with a server for it
    assert len(embedded.processes()) > 1

    listening = {
        connection.laddr
        for process in embedded.processes()
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }

    assert {address.ip for address in listening} == {"127.0.0.1"}, listening
    assert embedded.running().kyc_port in {address.port for address in listening}
