"""Compare `infra/execution_policies.json` with the templates: `python tools/execution_role.py TEMPLATE...`.

The file has the managed policies of a CloudFormation execution role that is narrower than an administrator.
Each resource type's schema, in cfn-lint's copy, names the actions by which CloudFormation handles it.
`--write` renews the file. Run it in the environment of the templates' checks.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

POLICIES = Path(__file__).parents[1] / "infra" / "execution_policies.json"
DOCUMENT_MAX = 5_800
"""Maximum characters: a little below IAM's limit of 6,144."""

BESIDE = (
    *("ssm:GetParameters", "kms:Decrypt", "s3:GetObject"),
    *(f"logs:{one}LogDelivery" for one in ("Create", "Delete", "Get", "Update")),
    *("logs:ListLogDeliveries", "logs:DescribeResourcePolicies", "logs:PutResourcePolicy"),
)
"""Actions for a template's parameters, for the functions' code in CDK's bucket, and for the access logs of
HTTP APIs. AWS's page about the logs names these actions; the schema does not.
"""

_ACTION = re.compile(r"[a-z0-9-]+:[A-Z][A-Za-z]+")
"""An action's form. A schema also has `s3:REST.PUT.OBJECT`, and `s3:getObject` beside `s3:GetObject`."""

_OF_CDK = "AWS::CDK::Metadata"
_LISTING = "list"
"""The only handler that no deployment calls."""


def needed(templates: Iterable[Path]) -> set[str]:
    """Return the actions for the resources of templates."""
    kinds = {one["Type"] for path in templates for one in json.loads(path.read_text())["Resources"].values()}
    found = {action for kind in kinds - {_OF_CDK} for action in _of_kind(kind)}
    return {one for one in (*found, *BESIDE) if _ACTION.fullmatch(one)}


def _of_kind(kind: str) -> Iterator[str]:
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # noqa: PLC0415 - only that environment has it

    handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema["handlers"]
    for name, handler in handlers.items():
        if name != _LISTING:
            yield from handler["permissions"]


def documents(actions: Iterable[str]) -> list[dict[str, Any]]:
    """Return policy documents that allow the actions in sorted order, each within DOCUMENT_MAX."""
    found: list[list[str]] = [[]]
    for action in sorted(actions):
        if len(_text(_document([*found[-1], action]))) > DOCUMENT_MAX:
            found.append([])
        found[-1].append(action)
    return [_document(one) for one in found]


def _document(actions: list[str]) -> dict[str, Any]:
    allowed = {"Sid": "Deployment", "Effect": "Allow", "Action": actions, "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [allowed]}


def _text(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))


def main(arguments: list[str]) -> int:
    """Return 1 if the file differs from the needed actions."""
    wanted = documents(needed(Path(one) for one in arguments if one != "--write"))
    if "--write" in arguments:
        POLICIES.write_text(json.dumps(wanted, indent=2) + "\n")
    there = json.loads(POLICIES.read_text())
    was, now = ({one for document in of for one in _allowed(document)} for of in (there, wanted))
    for told, actions in (("lacks", now - was), ("has needlessly", was - now)):
        if actions:
            print(f"{POLICIES.name} {told} {', '.join(sorted(actions))}")
    if there == wanted:
        print(f"{len(now)} actions of an execution role in {len(there)} policies")
        return 0
    print(f"renew {POLICIES.name} by --write before the templates")
    return 1


def _allowed(document: Any) -> list[str]:
    return [action for statement in document["Statement"] for action in statement["Action"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
