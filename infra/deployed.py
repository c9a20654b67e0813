"""A check before a deployment: `python -m infra.deployed STAGE`.

Rows are in minor units, so a currency or an asset that changes its exponent changes what each of its rows
means, and one that goes leaves rows that no function can read. No call pays for this check: the stack's
output has the exponents with which it was deployed. And an account must have the concurrency that the stage
reserves: else Lambda refuses a function half way through.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
from botocore.exceptions import ClientError

from infra.concurrency import Concurrency
from infra.config import STAGES


def changed(deployed: Mapping[str, int], planned: Mapping[str, int]) -> Iterator[str]:
    """Yield each change of the exponents that a table with rows does not bear."""
    for code, exponent in sorted(deployed.items()):
        if code not in planned:
            yield f"{code}: is deployed with the exponent {exponent}, and must stay"
        elif planned[code] != exponent:
            yield f"{code}: is deployed with the exponent {exponent}, and must not get {planned[code]}"


def exponents(cloudformation: Any, stack: str) -> dict[str, int] | None:
    """Return the exponents of a stack, None if it does not exist. Raises ValueError if they are unknown."""
    try:
        (found,) = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if "does not exist" in error.response["Error"].get("Message", ""):
            return None
        raise
    outputs = {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", ())}
    if "StageConfig" not in outputs:
        raise ValueError(f"{stack}: has no output StageConfig, so its exponents are unknown")
    deployed: dict[str, int] = json.loads(outputs["StageConfig"])["currencies"]
    return deployed


def lacks_concurrency(functions: Any, wanted: Concurrency) -> str:
    """Return what an account lacks for the stage's reservations; nothing if it bears them."""
    if not wanted.reserved:
        return ""
    quota = functions.get_account_settings()["AccountLimit"]["ConcurrentExecutions"]
    if quota >= wanted.account_min:
        return ""
    return (
        f"concurrency: the stage reserves {wanted.reserved}, which needs a quota of {wanted.account_min}"
        f" concurrent executions, and the account has {quota}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Exit with 0 if the account bears the stage, and its rows keep their meaning, if there are any."""
    parser = argparse.ArgumentParser(prog="python -m infra.deployed", description=__doc__)
    parser.add_argument("stage", choices=[name for name, one in STAGES.items() if not one.is_embedded])
    settings = STAGES[parser.parse_args(arguments).stage]
    stack = settings.stack_name
    if lack := lacks_concurrency(boto3.client("lambda"), settings.concurrency):
        print(lack)
        return 1
    try:
        deployed = exponents(boto3.client("cloudformation"), stack)
    except ValueError as unknown:
        print(unknown)
        return 1
    if deployed is None:
        print(f"{stack}: is not deployed yet, so no rows can change their meaning")
        return 0
    found = list(changed(deployed, settings.exponents))
    print("\n".join(found) or f"{stack}: every currency and asset keeps its exponent")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
