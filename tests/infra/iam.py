"""The permissions of a template's policies, as flat statements."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.support import templates

_REF_IS_ARN = {"AWS::SNS::Topic", "AWS::StepFunctions::StateMachine"}
"""Resources whose `Ref` is their ARN. Elsewhere it is a name, which matches nothing in a policy."""


_ARN_ATTRIBUTE = {"AWS::SecretsManager::Secret": "Id"}
"""Resources whose ARN is an attribute of another name than `Arn`."""


@dataclass(frozen=True)
class Statement:
    """One statement of a policy. A resource is the logical id of an ARN, or the text of one.

    `principals` are services, "*", or the text of an ARN; a role's own statements have none.
    """

    effect: str
    actions: frozenset[str]
    resources: tuple[str, ...]
    conditions: dict[str, Any]
    principals: frozenset[str] = frozenset()


@cache
def statements(role: str, stage: str) -> list[Statement]:
    """Return the statements that apply to the role with this logical id."""
    properties = templates.resources("AWS::IAM::Role", stage)[role]["Properties"]
    assert "ManagedPolicyArns" not in properties, "a managed policy grants what this stack does not say"
    documents = [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for policy in templates.resources(kind, stage).values():
            if {"Ref": role} in policy["Properties"].get("Roles", []):
                documents.append(policy["Properties"]["PolicyDocument"])
    found = [one for document in documents for one in of_document(document, stage)]
    assert not any(one.principals for one in found)
    return found


def of_document(document: dict[str, Any], stage: str) -> list[Statement]:
    """Return the statements of a policy that is attached to a role, or to the resource itself."""
    return [_statement(raw, stage) for raw in document["Statement"]]


def attribute(value: Any, name: str = "Arn") -> str:
    """Return the logical id whose attribute `value` is."""
    logical_id, attribute_name = value["Fn::GetAtt"]
    assert attribute_name == name
    found: str = logical_id
    return found


def arn(value: Any, stage: str) -> str:
    """Return the logical id whose ARN `value` is, or the text of an ARN that is joined from parts."""
    if isinstance(value, str):
        return value
    if "Fn::Join" in value:
        return text(value)
    if "Ref" in value:
        logical_id: str = value["Ref"]
        assert _kind(logical_id, stage) in _REF_IS_ARN, f"Ref of {logical_id} is no ARN"
        return logical_id
    return attribute(value, _ARN_ATTRIBUTE.get(_kind(value["Fn::GetAtt"][0], stage), "Arn"))


def text(value: Any) -> str:
    """Return a text with its parts in the form of Fn::Sub: `${Name}` and `${Name.Attribute}`."""
    if isinstance(value, str):
        return value
    if "Ref" in value:
        return f"${{{value['Ref']}}}"
    if "Fn::GetAtt" in value:
        return f"${{{'.'.join(value['Fn::GetAtt'])}}}"
    separator, parts = value["Fn::Join"]
    joined: str = separator.join(text(part) for part in parts)
    return joined


def _kind(logical_id: str, stage: str) -> str:
    kind: str = templates.kind(logical_id, stage)
    return kind


def _statement(raw: dict[str, Any], stage: str) -> Statement:
    assert raw.keys() <= {"Sid", "Effect", "Action", "Resource", "Condition", "Principal"}, (
        "NotAction and the like grant all"
    )
    return Statement(
        raw["Effect"],
        frozenset(_listed(raw["Action"])),
        tuple(arn(resource, stage) for resource in _listed(raw["Resource"])),
        raw.get("Condition", {}),
        _principals(raw.get("Principal", {})),
    )


def _principals(raw: Any) -> frozenset[str]:
    if isinstance(raw, str):
        return frozenset({raw})
    assert raw.keys() <= {"AWS", "Service"}
    return frozenset(text(one) for kind in raw.values() for one in _listed(kind))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
