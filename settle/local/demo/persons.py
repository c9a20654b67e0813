"""Two people with the stack's policies. Proposing and approving need different roles."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import boto3

from settle.local.record import REGION
from settle.permissions.people import Kind
from settle.stack import Stack

_TRUST = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}


@contextmanager
def two(stack: Stack, run: str) -> Iterator[tuple[Stack, Stack]]:
    """Yield the stack for an operator and for an approver. Remove their roles at the end."""
    with ExitStack() as roles:
        operator, approver = (
            roles.enter_context(_person(stack, kind, f"{name}-{run}"))
            for kind, name in ((Kind.OPERATOR, "olga"), (Kind.APPROVER, "anna"))
        )
        yield operator, approver


@contextmanager
def _person(stack: Stack, kind: Kind, name: str) -> Iterator[Stack]:
    iam, policy = stack.client("iam"), stack.outputs[kind.output]
    document = json.dumps({"Version": "2012-10-17", "Statement": [_TRUST]})
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
    iam.attach_role_policy(RoleName=name, PolicyArn=policy)
    try:
        yield replace(stack, session=_session(stack, arn, name))
    finally:
        iam.detach_role_policy(RoleName=name, PolicyArn=policy)
        iam.delete_role(RoleName=name)


def _session(stack: Stack, role: str, name: str) -> boto3.Session:
    given = stack.client("sts").assume_role(RoleArn=role, RoleSessionName=name)["Credentials"]
    return boto3.Session(
        aws_access_key_id=given["AccessKeyId"],
        aws_secret_access_key=given["SecretAccessKey"],
        aws_session_token=given["SessionToken"],
        region_name=REGION,
    )
