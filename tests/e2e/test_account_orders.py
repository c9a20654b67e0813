"""Orders on accounts, by a person who has the policy of `docs/operating/accounts.md` alone."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest

from settle.local import record
from tests.e2e.embedded import Embedded, new_account, new_key, new_request
from tests.e2e.test_iam import outcome_of
from tests.world.templates import PROJECT

pytestmark = pytest.mark.long

PAGE = (PROJECT / "docs" / "operating" / "accounts.md").read_text()


@contextmanager
def person(embedded: Embedded) -> Iterator[Any]:
    """Yield what makes clients with the credentials of a role that has exactly the page's policy."""
    *_, policy = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    *_, region, account, _, function = embedded.stack.outputs["AdministerAccountArn"].split(":")
    for name, value in {"REGION": region, "ACCOUNT": account, "FUNCTION_NAME": function}.items():
        policy = policy.replace(name, value)
    iam, sts, name = embedded.stack.client("iam"), embedded.stack.client("sts"), new_key("person")
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="orders", PolicyDocument=policy)
    given = sts.assume_role(RoleArn=role, RoleSessionName="olga")["Credentials"]

    def client(service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=embedded.stack.endpoint_url,
            region_name=record.REGION,
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
        )

    yield client
    iam.delete_role_policy(RoleName=name, PolicyName="orders")
    iam.delete_role(RoleName=name)


def test_a_person_who_may_invoke_the_function_opens_and_deposits_and_may_not_write_the_table(
    embedded: Embedded,
) -> None:
    outputs, account = embedded.stack.outputs, new_key("greta")
    common = {"account": account, "currency": "EUR", "by": "olga", "reason": "a new customer"}
    deposit = {"order": "deposit", "key": new_key("deposit"), "amount": "25.00", "reference": "bank-1"}

    with person(embedded) as client:

        def give(order: dict[str, str]) -> Any:
            answer = client("lambda").invoke(
                FunctionName=outputs["AdministerAccountArn"], Payload=json.dumps(common | order)
            )
            return json.loads(answer["Payload"].read())

        opened = give({"order": "open", "key": new_key("open")})
        first, again = give(deposit), give(deposit)
        conflict = give(deposit | {"amount": "26.00"})
        row = {"pk": {"S": f"ACCOUNT#{account}"}, "sk": {"S": "BALANCE"}, "available": {"N": "1"}}
        put = outcome_of(client("dynamodb").put_item, TableName=outputs["TableName"], Item=row)
        recovery = outcome_of(client("lambda").invoke, FunctionName=outputs["RecoverStalledArn"])

    assert (opened["account"]["available"], first["account"]["available"]) == ("0.00", "25.00")
    assert again == first
    assert conflict["errorType"] == "IdempotencyConflict"
    assert "AccessDenied" in put
    assert "AccessDenied" in recovery
    assert embedded.available(account) == "25.00"


def test_a_frozen_payer_and_a_closed_payee_are_rejected(embedded: Embedded) -> None:
    frozen, closed = new_account(embedded, "frozen", "100.00"), new_account(embedded, "closed")
    embedded.told("account", "freeze", frozen, "--reason", "reported as stolen")
    embedded.told("account", "close", closed, "--reason", "the customer has left")
    by_frozen, to_closed = new_request(embedded, payer=frozen), new_request(embedded, payee=closed)

    embedded.settle("start", "-", stdin="\n".join(map(json.dumps, (by_frozen, to_closed))))

    rejected = [embedded.told("wait", one["key"], code=4) for one in (by_frozen, to_closed)]
    assert [one["status"] for one in rejected] == ["REJECTED"] * 2
    assert [one["failure"]["error"] for one in rejected] == ["AccountFrozen", "AccountClosed"]
    assert embedded.available(to_closed["payer"]) == "100.00"
    assert embedded.available(frozen) == "100.00"


def test_the_command_gives_each_order_and_repeats_it_by_its_key(embedded: Embedded) -> None:
    account, key = new_account(embedded, "greta"), new_key("deposit")
    moved = ("--currency", "EUR", "--reference", "bank-1", "--reason", "as agreed")

    for _ in range(2):
        deposited = embedded.told("account", "deposit", account, "10.00", *moved, "--key", key)
    withdrawn = embedded.told("account", "withdraw", account, "10.00", *moved)
    closed = embedded.told("account", "close", account, "--reason", "the customer has left")

    assert deposited["account"]["available"] == "10.00"
    assert withdrawn["account"]["available"] == "0.00"
    assert "closed_at" in closed["account"]
    assert embedded.told("reconcile")["faults"] == []
