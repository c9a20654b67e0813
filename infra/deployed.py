"""A check before a deployment: `python -m infra.deployed STAGE`.

Rows are in minor units, so a currency or an asset that changes its exponent changes what each of its rows
means, and one that goes leaves rows that no function can read. No call pays for this check: the stack's
output has the exponents with which it was deployed.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
from botocore.exceptions import ClientError

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


def main(arguments: list[str] | None = None) -> int:
    """Exit with 0 if the stage is not deployed yet, or may be deployed with its settings as they are."""
    parser = argparse.ArgumentParser(prog="python -m infra.deployed", description=__doc__)
    parser.add_argument("stage", choices=[name for name, one in STAGES.items() if not one.is_embedded])
    settings = STAGES[parser.parse_args(arguments).stage]
    stack = settings.stack_name
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
