"""A stage's template in readable form: resources by their names in the stack, references as text."""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import pytest

from infra.config import STAGES
from infra.rooms import HANDLERS
from tests.world import templates

ON_AWS = [stage for stage, settings in STAGES.items() if not settings.is_embedded]
EMBEDDED = [stage for stage in STAGES if stage not in ON_AWS]
FUNCTIONS = {name: handler.rows for name, handler in HANDLERS.items()}
"""The functions of states, and the triggered ones: their actions on the table, each with its rows."""

STARTING = ("RecoverStalled", "StartSettlements", "AcceptSettlements")
"""The functions that start settlements. KycDecided, which strangers can call, asks RecoverStalled for it."""

SETTLEMENTS = {"SettlementExpress": "EXPRESS", "SettlementStandard": "STANDARD"}
MACHINES = SETTLEMENTS | {"Compensation": "STANDARD"}
"""Each machine and its type."""

KYC_URL = "https://kyc.example.com"
"""The address of the KYC provider for the stages on AWS."""

KEPT = {
    stage: {
        "DeletionPolicy": "RetainExceptOnCreate" if settings.keeps_data else "Delete",
        "UpdateReplacePolicy": "Retain" if settings.keeps_data else "Delete",
    }
    for stage, settings in STAGES.items()
}
"""The end of each stage's data: where money is real, they outlive the stack, unless its creation fails."""

each_stage = pytest.mark.parametrize("stage", STAGES)
each_stage_on_aws = pytest.mark.parametrize("stage", ON_AWS)


class Permission(NamedTuple):
    """One action on one resource, allowed or denied. A role's own permission has no principal."""

    effect: str
    action: str
    resource: str
    principal: str
    condition: str


def context(stage: str) -> dict[str, str]:
    """Return the context of a stage's deployment. On AWS it names the provider, as no settings do."""
    provider = {} if STAGES[stage].is_embedded else {"kyc_url": KYC_URL}
    return {"stage": stage} | provider | templates.REACHED.get(stage, {})


def runbooks(stage: str) -> str:
    """Return the address of a stage's runbooks, as it is deployed."""
    return context(stage).get("runbooks", STAGES[stage].runbooks)


def name(logical_id: str) -> str:
    """Return the name of a construct in the stack: its logical id without the hash, or a version's two."""
    return re.sub(r"[0-9A-F]{8}$|(?<=CurrentVersion)[0-9A-F]{8}[0-9a-f]{32}$", "", logical_id)


def resources(stage: str, kind: str) -> dict[str, Any]:
    """Return the resources of a kind, such as `Lambda::Function`, by their names."""
    return {one: found for one, found in template(stage).items() if found["Type"] == f"AWS::{kind}"}


def properties(stage: str, kind: str) -> dict[str, Any]:
    """Return the properties of the resources of a kind, by their names, but for the tags: `test_tags.py`."""
    return {
        one: {name: value for name, value in found["Properties"].items() if name != "Tags"}
        for one, found in resources(stage, kind).items()
    }


def only(stage: str, kind: str) -> Any:
    """Return the properties of the one resource of its kind."""
    (found,) = properties(stage, kind).values()
    return found


def of_function(stage: str, function: str, kind: str) -> Any:
    """Return the properties of the one resource of its kind that a function has."""
    (found,) = (one for one in properties(stage, kind).values() if one["FunctionName"] == f"${{{function}}}")
    return found


def variables(stage: str, function: str) -> Any:
    """Return the environment of a function."""
    return properties(stage, "Lambda::Function")[function]["Environment"]["Variables"]


def definition(stage: str, machine: str) -> Any:
    """Return the deployed definition of a machine."""
    return json.loads(properties(stage, "StepFunctions::StateMachine")[machine]["DefinitionString"])


def executions(machine: str) -> str:
    """Return the pattern of the ARNs of one machine's executions."""
    here = "${AWS::Region}:${AWS::AccountId}"
    return f"arn:${{AWS::Partition}}:states:{here}:execution:${{{machine}.Name}}:*"


@cache
def template(stage: str) -> dict[str, Any]:
    """Return all resources by their names, with references in the form of Fn::Sub: `${Name.Attribute}`.

    They are shared: no test may change one.
    """
    found = templates.template(stage).to_json()["Resources"]
    named = {name(logical_id): resource for logical_id, resource in found.items()}
    assert len(named) == len(found), "two resources have one name"
    return {one: readable(resource) for one, resource in named.items()}


def readable(value: Any) -> Any:
    """Return a part of a template with its references as text."""
    match value:
        case {"Ref": logical_id}:
            return f"${{{name(logical_id)}}}"
        case {"Fn::GetAtt": [logical_id, *attributes]}:
            return f"${{{'.'.join([name(logical_id), *attributes])}}}"
        case {"Fn::Join": [separator, parts]}:
            return separator.join(readable(part) for part in parts)
        case dict():
            return {key: readable(member) for key, member in value.items()}
        case list():
            return [readable(member) for member in value]
    return value


def granted(stage: str, role: str) -> set[Permission]:
    """Return the permissions of a role."""
    own = properties(stage, "IAM::Role")[role]
    assert "ManagedPolicyArns" not in own, "a managed policy grants what this stack does not say"
    attached = [
        policy["PolicyDocument"]
        for kind in ("IAM::Policy", "IAM::ManagedPolicy")
        for policy in properties(stage, kind).values()
        if f"${{{role}}}" in policy.get("Roles", ())
    ]
    inline = [policy["PolicyDocument"] for policy in own.get("Policies", ())]
    return {one for document in attached + inline for one in permissions(document)}


def attached(stage: str, kind: str, listing: str, resource: str) -> set[Permission]:
    """Return the permissions of the resource's own policies, which name no other resource."""
    found = [one for one in properties(stage, kind).values() if resource in one[listing]]
    assert [one[listing] for one in found] == [[resource]] * len(found)
    return {permission for one in found for permission in permissions(one["PolicyDocument"])}


def permissions(document: Any) -> Iterator[Permission]:
    """Yield the permissions of a policy, one by one."""
    for statement in document["Statement"]:
        known = {"Sid", "Effect", "Action", "Resource", "Condition", "Principal"}
        assert statement.keys() <= known, "NotAction and the like grant all"
        for principal in _principals(statement.get("Principal", "")):
            yield from _each(
                statement["Effect"],
                _listed(statement["Action"]),
                _listed(statement["Resource"]),
                principal,
                statement.get("Condition"),
            )


def allow(*actions: str, on: Iterable[str], by: str = "", only_if: Any = None) -> set[Permission]:
    """Return the permission for some actions on some resources."""
    return set(_each("Allow", actions, on, by, only_if))


def deny(*actions: str, on: Iterable[str], by: str = "", only_if: Any = None) -> set[Permission]:
    """Return the denial of some actions on some resources."""
    return set(_each("Deny", actions, on, by, only_if))


def no_plain_http(service: str, resource: str) -> set[Permission]:
    """Return the denial of a service's actions over plain HTTP."""
    return deny(service, on=[resource], by="*", only_if={"Bool": {"aws:SecureTransport": "false"}})


def _each(
    effect: str, actions: Iterable[str], on: Iterable[str], by: str, condition: Any
) -> Iterator[Permission]:
    text = json.dumps(condition, sort_keys=True) if condition else ""
    for action, resource in product(actions, on):
        yield Permission(effect, action, resource, by, text)


def _principals(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else [one for kind in given.values() for one in _listed(kind)]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
