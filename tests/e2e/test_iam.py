from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from settle import local
from tests.e2e.embedded import Embedded, new_account, new_key

GRANTED = {
    "ClaimKey": {"put_item"},
    "HoldFunds": {"put_item", "update_item"},
    "VerifyKyc": {"put_item", "update_item"},
    "ReleaseFunds": {"put_item", "update_item"},
    "CollectFee": {"put_item", "update_item"},
    "RejectSettlement": {"update_item"},
    "ReportOutcome": {"get_item"},
    "BeginCompensation": {"get_item", "put_item", "update_item"},
    "RefundFee": {"put_item", "update_item"},
    "ReclaimFunds": {"put_item", "update_item"},
    "VoidHold": {"put_item", "update_item"},
    "EnterLimbo": {"get_item", "put_item", "update_item"},
    "PreparePage": {"get_item"},
    "AwaitResolution": {"update_item"},
    "ResolveLimbo": {"get_item", "put_item", "update_item"},
}

ACTIONS = ("get_item", "put_item", "update_item", "delete_item", "query", "scan", "batch_write_item")


@pytest.fixture(scope="module", params=GRANTED)
def role(embedded: Embedded, request: pytest.FixtureRequest) -> tuple[str, Any]:
    """A state, and a DynamoDB client that acts as its function does."""
    sts, iam = embedded.stack.client("sts"), embedded.stack.client("iam")
    arn = iam.get_role(RoleName=embedded.roles[request.param])["Role"]["Arn"]
    credentials = sts.assume_role(RoleArn=arn, RoleSessionName="under-test")["Credentials"]
    client = boto3.client(
        "dynamodb",
        endpoint_url=embedded.stack.endpoint_url,
        region_name=local.REGION,
        aws_access_key_id=credentials["AccessKeyId"],
        aws_secret_access_key=credentials["SecretAccessKey"],
        aws_session_token=credentials["SessionToken"],
    )
    return request.param, client


def attempt(client: Any, action: str, table: str) -> str:
    """Try to touch a row that there is not, by a write that its condition refuses; return how that ended."""
    key = {"pk": {"S": "ACCOUNT#eve"}, "sk": {"S": "BALANCE"}}
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
            "ExpressionAttributeValues": {":pk": {"S": "ACCOUNT#eve"}},
        },
        "scan": {},
    }
    try:
        if action == "batch_write_item":
            client.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": key}}]})
        else:
            getattr(client, action)(TableName=table, **parameters[action])
    except ClientError as error:
        code: str = error.response["Error"]["Code"]
        return code
    return "done"


@pytest.mark.parametrize("action", ACTIONS)
def test_a_role_may_do_what_its_step_does_and_nothing_else(
    embedded: Embedded, role: tuple[str, Any], action: str
) -> None:
    state, client = role
    allowed = "done" if action == "get_item" else "ConditionalCheckFailedException"
    expected = allowed if action in GRANTED[state] else "AccessDeniedException"

    assert attempt(client, action, embedded.stack.outputs["TableName"]) == expected


def test_a_transaction_is_authorised_by_each_of_its_writes(embedded: Embedded, role: tuple[str, Any]) -> None:
    state, client = role
    table = embedded.stack.outputs["TableName"]
    key = {"pk": {"S": "ACCOUNT#eve"}, "sk": {"S": "BALANCE"}}
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
