"""Runs a migration under a role that can do nothing else."""

import os
import time
from collections.abc import Callable
from typing import Any

import boto3
from botocore.exceptions import ClientError

from settle import instants
from settle.exit_codes import CommandFailed, Exit
from settle.migrations import runner as runner_of
from settle.migrations.rows import MIGRATIONS, Direction, Migration, Progress
from settle.migrations.runner import Means
from settle.stack import Stack, client_of
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store

_EXPIRED = ("ExpiredToken", "ExpiredTokenException")


def named(name: str) -> Migration:
    if name not in MIGRATIONS:
        known = ", ".join(MIGRATIONS)
        raise CommandFailed(Exit.USAGE, f"name: there is no migration {name}; this release has {known}")
    return MIGRATIONS[name]


def run(
    stack: Stack,
    migration: Migration,
    direction: Direction,
    units_per_second: float,
    told: Callable[[Progress], None],
) -> Progress:
    """Run until done or paused. Raises CommandFailed or NotAlone.

    After an hour the role's session ends. The runner then gets a new session.
    """
    runner = os.urandom(8).hex()
    while True:
        try:
            return runner_of.run(
                means(stack, migration, units_per_second, told), migration, direction, runner
            )
        except ClientError as error:
            if error.response["Error"]["Code"] not in _EXPIRED:
                raise


def means(
    stack: Stack, migration: Migration, units_per_second: float, told: Callable[[Progress], None]
) -> Means:
    """Return a runner's tools. Raises CommandFailed if the role is missing or cannot be assumed."""
    session = _session(stack, migration)
    cloudwatch = client_of(session, "cloudwatch", stack.endpoint_url)
    return Means(
        store=Store(client_of(session, "dynamodb", stack.endpoint_url), stack.outputs["TableName"]),
        now=instants.now,
        deployment=lambda: deployment(stack),
        sleep=time.sleep,
        alarm=lambda: _alarm(cloudwatch, f"{stack.cloudformation}-{stack.saga}"),
        units_per_second=units_per_second,
        told=told,
    )


def deployment(stack: Stack) -> str:
    """Return the newest deployment's time. Raises CommandFailed during a deployment."""
    (found,) = stack.client("cloudformation").describe_stacks(StackName=stack.cloudformation)["Stacks"]
    if found["StackStatus"].endswith("IN_PROGRESS"):
        raise CommandFailed(
            Exit.FAILED, f"stack {stack.name}: is {found['StackStatus']}: run it again after it"
        )
    return timestamp(found.get("LastUpdatedTime") or found["CreationTime"])


def _session(stack: Stack, migration: Migration) -> boto3.Session:
    role = stack.outputs.get("MigrationRoleArn")
    if role is None:
        raise CommandFailed(
            Exit.NOT_FOUND,
            f"stack {stack.name}: has no role for a migration; deploy it with migration={migration.name}",
        )
    try:
        answer = stack.client("sts").assume_role(RoleArn=role, RoleSessionName=f"settle-{migration.name}")
    except ClientError as error:
        code = error.response["Error"]["Code"]
        raise CommandFailed(Exit.FAILED, f"{role}: you may not assume this role: {code}") from error
    credentials = answer["Credentials"]
    return boto3.Session(
        aws_access_key_id=credentials["AccessKeyId"],
        aws_secret_access_key=credentials["SecretAccessKey"],
        aws_session_token=credentials["SessionToken"],
        region_name=stack.session.region_name,
    )


def _alarm(cloudwatch: Any, prefix: str) -> str | None:
    on = cloudwatch.describe_alarms(StateValue="ALARM", AlarmNamePrefix=prefix, MaxRecords=1)
    found: list[str] = [one["AlarmName"] for one in on["MetricAlarms"]]
    return found[0] if found else None
