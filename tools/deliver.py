"""Deliver a stage from the checkout to AWS: `python tools/deliver.py dev`, or `make deliver STAGE=dev`.

preflight ──▶ synthesis ──▶ guard ──▶ validation ──▶ deployment of what the guard has judged

The context of the stage comes from the environment: KYC_URL, PAGE_ADDRESS, and so on. The AWS SDKs
find the credentials, and the CDK the region. A failed step ends the run. A run is safe to repeat.

For the validation, CDK makes a change set, then deletes it and any stack made for it. CloudFormation checks
names, quotas and properties; CDK prints its findings. A refused validation ends in a warning, and the
deployment's own change set meets the same findings.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.account import session
from infra.config import CONTEXT

PROJECT = Path(__file__).parents[1]
OUT = PROJECT / "cdk.out"


def context(stage: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the CDK's context options of a stage, from the environment."""
    for name in CONTEXT:
        value = stage if name == "stage" else environment.get(name.upper())
        if value:
            yield from ("-c", f"{name}={value}")


def deployed(client: Any, stack: str) -> dict[str, Any]:
    """Return the template of a deployed stack; an empty one if there is none. Raises ClientError."""
    try:
        found: dict[str, Any] = client.get_template(StackName=stack)["TemplateBody"]
    except ClientError as error:
        if "does not exist" not in error.response["Error"].get("Message", ""):
            raise
        return {}
    return found


def steps(stage: str, before: str, options: list[str]) -> Iterator[list[str]]:
    """Yield the commands in order. The file `before` has the deployed template."""
    stack, binaries = f"settlement-{stage}", Path(sys.executable).parent
    cdk = [str(PROJECT / "node_modules/.bin/cdk")]
    yield [str(binaries / "settle"), "preflight", "--stage", stage, *options]
    yield [*cdk, "synth", "--quiet", "--no-notices", "-o", str(OUT), *options]
    yield [
        sys.executable,
        str(PROJECT / "tools/guard_changes.py"),
        before,
        str(OUT / f"{stack}.template.json"),
    ]
    # It is unstable in this version of the CDK: a later one may name its options differently.
    yield [*cdk, "validate", "--unstable=validate", "--app", str(OUT), "--no-notices", stack]
    yield [*cdk, "deploy", "--app", str(OUT), "--require-approval", "never", "--no-notices", stack]


def main(arguments: list[str]) -> int:
    """Deliver a stage; 0 if it is deployed, else the exit code of the step that has failed."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    (stage,) = arguments
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "deployed.json"
        try:
            template = deployed(session().client("cloudformation"), f"settlement-{stage}")
        except (ClientError, BotoCoreError) as error:
            print(f"the deployed template cannot be read: {error}", file=sys.stderr)
            return 1
        before.write_text(json.dumps(template))
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        for step in steps(stage, str(before), list(context(stage, os.environ))):
            print("$", " ".join(step), flush=True)
            code = subprocess.run(step, check=False, cwd=PROJECT, env=os.environ | {"PATH": path}).returncode
            if code:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
