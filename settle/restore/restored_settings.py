from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from settle.exit_codes import CommandFailed, Exit
from settle.stack import Stack
from settlement.core.ledger.keys import INDEX
from settlement.retention.expiry import EXPIRES

_NOT_THERE = "ResourceNotFoundException"


def describe(target: Stack) -> dict[str, Any]:
    name = target.outputs["TableName"]
    try:
        described: dict[str, Any] = target.client("dynamodb").describe_table(TableName=name)["Table"]
    except ClientError as error:
        if error.response["Error"]["Code"] != _NOT_THERE:
            raise
        raise CommandFailed(Exit.NOT_FOUND, f"table: {name}: there is none in this region") from error
    return described


def faults(stack: Stack, target: Stack, described: dict[str, Any]) -> list[str]:
    client, name = target.client("dynamodb"), target.outputs["TableName"]
    found = []
    if described["TableStatus"] != "ACTIVE":
        found.append(f"status: is {described['TableStatus']}, must be ACTIVE")
    indexes = {one["IndexName"]: one["IndexStatus"] for one in described.get("GlobalSecondaryIndexes", ())}
    if indexes.get(INDEX) != "ACTIVE":
        found.append(f"index: {INDEX} is {indexes.get(INDEX, 'not there')}, must be ACTIVE")
    stream = described.get("StreamSpecification", {})
    if stream.get("StreamViewType") != "NEW_AND_OLD_IMAGES":
        found.append(f"stream: is {stream.get('StreamViewType', 'off')}, must be NEW_AND_OLD_IMAGES")
    if not described.get("DeletionProtectionEnabled"):
        found.append("deletion protection: is off")
    found += _key_fault(stack, described)
    backups = _asked(lambda: client.describe_continuous_backups(TableName=name))
    recovery = backups.get("ContinuousBackupsDescription", {}).get("PointInTimeRecoveryDescription", {})
    if recovery.get("PointInTimeRecoveryStatus") != "ENABLED":
        found.append(f"point-in-time recovery: is {backups.get('error', 'off')}")
    if stack.config.retention_days is not None:
        told = _asked(lambda: client.describe_time_to_live(TableName=name))
        ttl = told.get("TimeToLiveDescription", {})
        if (ttl.get("TimeToLiveStatus"), ttl.get("AttributeName")) != ("ENABLED", EXPIRES):
            found.append(f"time to live: is {told.get('error', 'off')}, must be on {EXPIRES}")
    return found


def _key_fault(stack: Stack, described: dict[str, Any]) -> list[str]:
    """Return a fault if the tables' encryption keys differ: roles may use only the stack's key.

    If the stack's own table is lost, return no fault.
    """
    try:
        own = describe(stack)
    except CommandFailed:
        return []
    key, wanted = (one.get("SSEDescription", {}).get("KMSMasterKeyArn") for one in (described, own))
    return [] if key == wanted else [f"key: is {key or 'none'}, must be {wanted}"]


def _asked(call: Callable[[], Any]) -> dict[str, Any]:
    """Return a call's answer, or its `error`. An unknown setting counts as a fault."""
    try:
        answer: dict[str, Any] = call()
    except ClientError as error:
        return {"error": f"not known ({error.response['Error']['Code']})"}
    return answer
