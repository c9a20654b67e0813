"""What the roles of a template may do, as flat statements."""

from dataclasses import dataclass
from typing import Any

from tests.support import templates


@dataclass(frozen=True)
class Statement:
    """One statement of a role's policies; a resource is a logical id's ARN, or what stands there instead."""

    effect: str
    actions: frozenset[str]
    resources: tuple[Any, ...]
    conditions: dict[str, Any]


def statements(role: str, stage: str) -> list[Statement]:
    """Every statement that applies to the role with this logical id."""
    properties = templates.resources("AWS::IAM::Role", stage)[role]["Properties"]
    assert "ManagedPolicyArns" not in properties, "a managed policy grants what this stack does not say"
    documents = [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for policy in templates.resources(kind, stage).values():
            if {"Ref": role} in policy["Properties"].get("Roles", []):
                documents.append(policy["Properties"]["PolicyDocument"])
    return [_statement(raw) for document in documents for raw in document["Statement"]]


def attribute(value: Any, name: str = "Arn") -> str:
    """The logical id whose attribute `value` is."""
    logical_id, attribute_name = value["Fn::GetAtt"]
    assert attribute_name == name
    found: str = logical_id
    return found


def _statement(raw: dict[str, Any]) -> Statement:
    assert raw.keys() <= {"Sid", "Effect", "Action", "Resource", "Condition"}, (
        "NotAction and the like grant all"
    )
    return Statement(
        raw["Effect"],
        frozenset(_listed(raw["Action"])),
        tuple(
            resource if isinstance(resource, str) else attribute(resource)
            for resource in _listed(raw["Resource"])
        ),
        raw.get("Condition", {}),
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
