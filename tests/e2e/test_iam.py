from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from settle.local import record
from settlement.ledger import keys
from tests.e2e.embedded import Embedded, new_account, new_key

GRANTED = {
    "ClaimKey": {"get_item", "put_item"},
    "HoldFunds": {"put_item", "update_item"},
    "VerifyKyc": {"get_item", "put_item", "update_item"},
    "ReleaseFunds": {"put_item", "update_item"},
    "CollectFee": {"put_item", "update_item"},
    "RejectSettlement": {"update_item"},
    "ReportOutcome": {"get_item"},
    "BeginCompensation": {"get_item", "put_item", "update_item"},
    "RefundFee": {"put_item", "update_item"},
    "ReclaimFunds": {"put_item", "update_item"},
    "VoidHold": {"put_item", "update_item"},
    "EnterLimbo": {"get_item", "put_item", "update_item"},
    "PrepareAlert": {"get_item"},
    "AwaitResolution": {"update_item"},
    "ResolveLimbo": {"get_item", "put_item", "update_item"},
    "KycDecided": {"get_item", "put_item", "update_item"},
    "RecoverStalled": {"get_item", "update_item"},
    "StartSettlements": {"get_item", "put_item"},
}

TOUCHED = {
    "ClaimKey": ("SETTLEMENT#no-such-key",),
    "VerifyKyc": ("SETTLEMENT#no-such-key", "CIRCUIT"),
    "KycDecided": ("SETTLEMENT#no-such-key", "KYC_EVENT#no-such-event"),
    "RecoverStalled": ("SETTLEMENT#no-such-key",),
    "StartSettlements": ("SETTLEMENT#no-such-key",),
}
"""The only partitions of these. That they reach no other the embedded AWS does not tell: it does not evaluate
`dynamodb:LeadingKeys`.
"""

SECRETS = {"KycCredentialsArn": "VerifyKyc", "KycSigningArn": "KycDecided"}
"""Each of the provider's secrets, and the one function that may read it."""

ACTIONS = ("get_item", "put_item", "update_item", "delete_item", "query", "scan", "batch_write_item")


@pytest.fixture(scope="module", params=GRANTED)
def role(embedded: Embedded, request: pytest.FixtureRequest) -> tuple[str, Any]:
    """A function, and a DynamoDB client that acts as it does."""
    return request.param, acting_as(embedded, request.param, "dynamodb")


def acting_as(embedded: Embedded, function: str, service: str) -> Any:
    """A client with the credentials of a function's role."""
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
    """Make a call; return the code of its error, or "done"."""
    try:
        call(**parameters)
    except ClientError as error:
        code: str = error.response["Error"]["Code"]
        return code
    return "done"


def attempt(client: Any, action: str, table: str, pk: str = "ACCOUNT#eve") -> str:
    """Try to touch a row that there is not, by a write that its condition refuses; return how that ended."""
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
def test_a_role_may_do_what_its_step_does_and_nothing_else(
    embedded: Embedded, role: tuple[str, Any], action: str
) -> None:
    state, client = role
    allowed = "done" if action == "get_item" else "ConditionalCheckFailedException"
    expected = allowed if action in GRANTED[state] else "AccessDeniedException"

    for pk in TOUCHED.get(state, ("ACCOUNT#eve",)):
        assert attempt(client, action, embedded.stack.outputs["TableName"], pk) == expected


@pytest.mark.parametrize("index", [keys.INDEX, None])
def test_recovery_lists_by_the_index_alone(embedded: Embedded, index: str | None) -> None:
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
def test_a_secret_is_read_by_the_one_function_that_needs_it(embedded: Embedded, function: str) -> None:
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
    ("function", "machine"),
    [
        ("KycDecided", "CompensationArn"),
        ("KycDecided", "SettlementExpressArn"),
        ("RecoverStalled", "SettlementExpressArn"),
        ("StartSettlements", "SettlementExpressArn"),
        ("StartSettlements", "CompensationArn"),
        ("VerifyKyc", "SettlementStandardArn"),
        ("VerifyKyc", "CompensationArn"),
    ],
)
def test_a_function_starts_no_machine_but_its_own(embedded: Embedded, function: str, machine: str) -> None:
    client = acting_as(embedded, function, "stepfunctions")

    ended = outcome_of(client.start_execution, stateMachineArn=embedded.stack.outputs[machine], input="{}")

    assert ended == "AccessDeniedException"


@pytest.mark.parametrize(
    ("function", "machine", "allowed"),
    [
        ("RecoverStalled", "CompensationArn", "ExecutionDoesNotExist"),
        ("RecoverStalled", "SettlementStandardArn", "AccessDeniedException"),
        ("StartSettlements", "CompensationArn", "AccessDeniedException"),
        ("KycDecided", "CompensationArn", "AccessDeniedException"),
    ],
)
def test_recovery_asks_about_reversals_and_no_function_about_anything_else(
    embedded: Embedded, function: str, machine: str, allowed: str
) -> None:
    client = acting_as(embedded, function, "stepfunctions")
    arn = embedded.stack.outputs[machine].replace(":stateMachine:", ":execution:") + ":no-such-execution"

    assert outcome_of(client.describe_execution, executionArn=arn) == allowed


def test_a_transaction_is_authorised_by_each_of_its_writes(embedded: Embedded, role: tuple[str, Any]) -> None:
    state, client = role
    table = embedded.stack.outputs["TableName"]
    (pk, *_) = TOUCHED.get(state, ("ACCOUNT#eve",))
    key = {"pk": {"S": pk}, "sk": {"S": "BALANCE"}}
    put = {"Put": {"TableName": table, "Item": key, "ConditionExpression": "attribute_exists(pk)"}}

    with pytest.raises(ClientError) as refused:
        client.transact_write_items(TransactItems=[put])

    by_condition = "TransactionCanceledException"
    expected = by_condition if "put_item" in GRANTED[state] else "AccessDeniedException"
    assert refused.value.response["Error"]["Code"] == expected


def test_a_function_without_its_grant_reaches_no_row(embedded: Embedded) -> None:
    settlement = {
        "key": new_key("denied"),
        "payer": new_account(embedded, "alice", "100.00"),
        "payee": new_account(embedded, "bob"),
        "amount": "48.20",
        "currency": "EUR",
        "fee": "0.48",
    }

    with embedded.without_grants("ReportOutcome"):
        refusal = embedded.invoke("ReportOutcome", settlement, replayed=True)

    assert refusal["errorType"] == "ClientError"
    assert "AccessDeniedException" in refusal["errorMessage"]
    assert "dynamodb:GetItem" in refusal["errorMessage"]
