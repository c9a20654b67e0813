"""People with IAM roles on the embedded AWS, who send orders through the API."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3

from settle.door import Answer, Door
from settle.local import record
from settle.permissions.people import Kind
from tests.e2e.embedded import Embedded, new_key


@dataclass(frozen=True)
class Person:
    """A person's session of a role, identified to AWS by ARN."""

    arn: str
    session: boto3.Session
    door: Door
    endpoint_url: str

    @property
    def environment(self) -> dict[str, str]:
        credentials = self.session.get_credentials().get_frozen_credentials()
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_DEFAULT_REGION": record.REGION,
            "AWS_ACCESS_KEY_ID": credentials.access_key,
            "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
            "AWS_SESSION_TOKEN": credentials.token,
        }

    def client(self, service: str) -> Any:
        return self.session.client(service, endpoint_url=self.endpoint_url)

    def order(self, decision: str, /, **order: Any) -> Answer:
        return self.door.send(decision, order)


def routes(embedded: Embedded, *decisions: str) -> list[dict[str, Any]]:
    api = embedded.stack.outputs["OrdersUrl"].partition("://")[2].partition(".")[0]
    arns = [f"arn:aws:execute-api:{record.REGION}:*:{api}/*/POST/orders/{one}" for one in decisions]
    return [{"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": arns}]


@contextmanager
def person(embedded: Embedded, statements: Sequence[dict[str, Any]], name: str = "olga") -> Iterator[Person]:
    policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    iam = embedded.stack.client("iam")
    with _role(embedded) as (role, arn):
        iam.put_role_policy(RoleName=role, PolicyName="orders", PolicyDocument=policy)
        yield _in_session(embedded, arn, name)
        iam.delete_role_policy(RoleName=role, PolicyName="orders")


@contextmanager
def of_kind(embedded: Embedded, kind: Kind, name: str = "olga") -> Iterator[Person]:
    with of_policies(embedded, kind.output, name=name) as person:
        yield person


@contextmanager
def of_policies(embedded: Embedded, *outputs: str, name: str) -> Iterator[Person]:
    iam, policies = embedded.stack.client("iam"), [embedded.stack.outputs[output] for output in outputs]
    with _role(embedded) as (role, arn):
        for policy in policies:
            iam.attach_role_policy(RoleName=role, PolicyArn=policy)
        yield _in_session(embedded, arn, name)
        for policy in policies:
            iam.detach_role_policy(RoleName=role, PolicyArn=policy)


@contextmanager
def _role(embedded: Embedded) -> Iterator[tuple[str, str]]:
    iam, role = embedded.stack.client("iam"), new_key("person")
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    arn = iam.create_role(RoleName=role, AssumeRolePolicyDocument=document)["Role"]["Arn"]
    yield role, arn
    iam.delete_role(RoleName=role)


def _in_session(embedded: Embedded, role_arn: str, name: str) -> Person:
    given = embedded.stack.client("sts").assume_role(RoleArn=role_arn, RoleSessionName=name)
    session = boto3.Session(
        aws_access_key_id=given["Credentials"]["AccessKeyId"],
        aws_secret_access_key=given["Credentials"]["SecretAccessKey"],
        aws_session_token=given["Credentials"]["SessionToken"],
        region_name=record.REGION,
    )
    door = Door(embedded.stack.door.url, session)
    return Person(given["AssumedRoleUser"]["Arn"], session, door, str(embedded.stack.endpoint_url))
