"""Delete a personal stage: `python -m infra.teardown --stage my-olga`, or `make teardown STAGE=my-olga`.

A repeated run continues the previous one.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, WaiterError

from .account import session
from .config import is_personal

BUCKETS = {
    "JournalBucket": True,
    "StatementsBucket": False,
    "PayoutFilesBucket": False,
    "PayRunsBucket": False,
}
"""Outputs with buckets' names, and whether the bucket has an object lock to lift."""

_TRIES = 3
"""Tries to delete the stack.

The emptied journal can get an object until the first try deletes the function that puts objects.
"""

_POLLS = {"Delay": 15, "MaxAttempts": 160}
"""Seconds between polls, and number of polls. Forty minutes, for some 300 resources."""


class Refused(Exception):
    """The stage must not, or could not, be torn down."""


def teardown(stage: str, client: Callable[[str], Any]) -> bool:
    """Delete a personal stage's stack, and all in its buckets. Return whether it existed. Raises Refused."""
    if not is_personal(stage):
        raise Refused(f"stage: {stage} is no personal one (my-…), and keeps its data: see teardown.md")
    cloudformation, s3 = client("cloudformation"), client("s3")
    name = f"settlement-{stage}"
    stack = _described(cloudformation, name)
    if stack is None:
        return False
    if stack.get("EnableTerminationProtection"):
        raise Refused(f"{name} is protected from deletion: look who has protected it, and why")
    outputs = {one["OutputKey"]: one["OutputValue"] for one in stack.get("Outputs", ())}
    for _ in range(_TRIES):
        for output, is_locked in BUCKETS.items():
            if output in outputs:
                _empty(s3, outputs[output], is_locked=is_locked)
        # By id: after the deletion, a new stack may have the name.
        cloudformation.delete_stack(StackName=stack["StackId"])
        try:
            cloudformation.get_waiter("stack_delete_complete").wait(
                StackName=stack["StackId"], WaiterConfig=_POLLS
            )
        except WaiterError:
            continue
        return True
    raise Refused(f"{name} is not deleted after {_TRIES} tries: its events in CloudFormation say why")


def _described(cloudformation: Any, name: str) -> Any:
    try:
        return cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in error.response["Error"]["Message"]:
            return None
        raise


def _empty(s3: Any, bucket: str, *, is_locked: bool) -> None:
    lifting = {"BypassGovernanceRetention": True} if is_locked else {}  # else S3 refuses the option
    try:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            if objects := list(_versions(page)):
                answer = s3.delete_objects(
                    Bucket=bucket,
                    Delete={"Objects": objects, "Quiet": True},
                    **lifting,
                )
                if errors := answer.get("Errors"):
                    first = errors[0]
                    raise Refused(f"{bucket}: {len(errors)} objects stay, the first by {first['Code']}")
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchBucket":  # an earlier try deleted it
            raise


def _versions(page: Any) -> Iterator[dict[str, str]]:
    for one in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
        yield {"Key": one["Key"], "VersionId": one["VersionId"]}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.teardown", description=__doc__)
    parser.add_argument("--stage", required=True, help="a personal stage, such as my-olga")
    stage = parser.parse_args(arguments).stage
    try:
        existed = teardown(stage, session().client)
    except (Refused, BotoCoreError, ClientError) as refused:
        print(refused, file=sys.stderr)
        return 1
    print(f"settlement-{stage} is deleted" if existed else f"there is no stack settlement-{stage}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
