from collections.abc import Iterator
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.permissions.people import Kind
from settle.stack import Stack

_ORDERS = "/POST/orders/"


def policy(stack: Stack, kind: Kind) -> dict[str, Any]:
    if kind.output not in stack.outputs:
        raise CommandFailed(
            Exit.NOT_FOUND,
            f"stack {stack.name}: has no policy for people yet ({kind.output}); deploy it again",
        )
    client, arn = stack.client("iam"), stack.outputs[kind.output]
    version = client.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
    found = client.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]
    return {"kind": kind.value, "policy": arn, "document": found}


def kinds(stack: Stack) -> list[dict[str, Any]]:
    return [_summary(policy(stack, kind)) for kind in Kind]


def _summary(found: dict[str, Any]) -> dict[str, Any]:
    granted = list(_granted(found["document"]))
    orders = [resource.partition(_ORDERS)[2] for _, resource in granted if _ORDERS in resource]
    reads = {action for action, resource in granted if _ORDERS not in resource}
    return {
        "kind": found["kind"],
        "policy": found["policy"],
        "orders": sorted(orders),
        "reads": sorted(reads),
    }


def _granted(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for statement in document["Statement"]:
        for action in _listed(statement["Action"]):
            for resource in _listed(statement["Resource"]):
                yield action, resource


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
