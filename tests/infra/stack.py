"""Reads a stage's template: resources by name, references as text."""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aws_cdk import App, Validations
from aws_cdk.assertions import Template
from cdk_nag import AwsSolutionsChecks, PCIDSS321Checks

from infra import bank, payouts, payruns
from infra.config import STAGES, settings_of
from infra.grants import Handler
from infra.rooms import HANDLERS
from infra.settlement_stack import SettlementStack
from tests.infra.payouts.stage import ON
from tests.world import templates
from tests.world.rooms import there

ON_AWS = [stage for stage, settings in STAGES.items() if not settings.is_embedded]
EMBEDDED = [stage for stage in STAGES if stage not in ON_AWS]
FUNCTIONS = {name: handler.rows for name, handler in HANDLERS.items()}
"""Each function's actions on the table, with their rows."""

STARTING = ("RecoverStalled", *there("doors", "StartSettlements", "AcceptSettlements"))
"""Functions that start settlements. KycDecided, callable by strangers, asks RecoverStalled instead."""

SETTLEMENTS = {"SettlementExpress": "EXPRESS", "SettlementStandard": "STANDARD"}
MACHINES = SETTLEMENTS | {"Compensation": "STANDARD"}

READING = [stage for stage, settings in STAGES.items() if settings.statements_every_minutes]
PAYING = [stage for stage, settings in STAGES.items() if getattr(settings, "payouts", None)]
"""Stages that read the bank's statements (READING), and stages that pay out (PAYING)."""

RUNNING = [stage for stage, settings in STAGES.items() if settings.pay_runs]
OF_PAYRUNS = ("PayLines",)
"""Stages with pay runs, and their functions."""

OF_PAYOUTS = there("payouts", "ReservePayout", "ServePayouts", "FollowPayouts", "BankEvents")
"""Functions of stages that pay out."""

PAYS_OUT = "prod that pays out"
"""The stage `prod` with statements, payouts and pay runs."""

OF_PAYS_OUT: dict[str, Handler] = {**bank.OPTIONAL, **payouts.OPTIONAL, **payruns.OPTIONAL}
"""The handlers that PAYS_OUT adds to those of `prod`."""

KYC_URL = "https://kyc.example.com"

KEPT = {
    stage: {
        "DeletionPolicy": "RetainExceptOnCreate" if settings.keeps_data else "Delete",
        "UpdateReplacePolicy": "Retain" if settings.keeps_data else "Delete",
    }
    for stage, settings in STAGES.items()
}
"""Each stage's deletion policies. Real money's data outlive the stack, unless its creation fails."""

each_stage = pytest.mark.parametrize("stage", STAGES)
each_stage_on_aws = pytest.mark.parametrize("stage", ON_AWS)


class Permission(NamedTuple):
    """One action on one resource, allowed or denied. A role's own permission has no principal."""

    effect: str
    action: str
    resource: str
    principal: str
    condition: str


def functions(stage: str) -> set[str]:
    if stage == PAYS_OUT:
        return {*FUNCTIONS, *OF_PAYS_OUT}
    reading = {"ReadStatements"} if stage in READING else set()
    running = OF_PAYRUNS if stage in RUNNING else ()
    return {*FUNCTIONS, *reading, *running, *(OF_PAYOUTS if stage in PAYING else ())}


def machines(stage: str) -> dict[str, str]:
    return MACHINES | ({"PayOut": "STANDARD"} if stage in (*PAYING, PAYS_OUT) else {})


def context(stage: str) -> dict[str, str]:
    """Return a stage's deployment context. On AWS it names the provider, which settings never do."""
    provider = {} if STAGES[stage].is_embedded else {"kyc_url": KYC_URL}
    return {"stage": stage} | provider | templates.REACHED.get(stage, {})


def runbooks(stage: str) -> str:
    return context(stage).get("runbooks", STAGES[stage].runbooks)


def name(logical_id: str) -> str:
    """Return a construct's name: its logical id without the hash, or without a version's two hashes."""
    return re.sub(r"[0-9A-F]{8}$|(?<=CurrentVersion)[0-9A-F]{8}[0-9a-f]{32}$", "", logical_id)


@cache
def resources(stage: str, kind: str) -> dict[str, Any]:
    return {one: found for one, found in template(stage).items() if found["Type"] == f"AWS::{kind}"}


@cache
def properties(stage: str, kind: str) -> dict[str, Any]:
    """Return the properties of a kind's resources, without tags (see `test_tags.py`)."""
    return {
        one: {name: value for name, value in found["Properties"].items() if name != "Tags"}
        for one, found in resources(stage, kind).items()
    }


def only(stage: str, kind: str) -> Any:
    (found,) = properties(stage, kind).values()
    return found


def of_function(stage: str, function: str, kind: str) -> Any:
    """Return a function's only resource of a kind, such as a permission."""
    names = (f"${{{function}}}", f"${{{function}.Arn}}")
    (found,) = (one for one in properties(stage, kind).values() if one["FunctionName"] in names)
    return found


def variables(stage: str, function: str) -> Any:
    return properties(stage, "Lambda::Function")[function]["Environment"]["Variables"]


def definition(stage: str, machine: str) -> Any:
    return json.loads(properties(stage, "StepFunctions::StateMachine")[machine]["DefinitionString"])


def executions(machine: str) -> str:
    here = "${AWS::Region}:${AWS::AccountId}"
    return f"arn:${{AWS::Partition}}:states:{here}:execution:${{{machine}.Name}}:*"


@cache
def template(stage: str) -> dict[str, Any]:
    """Return all resources by name, with references in Fn::Sub form. Tests must not change the cache."""
    if stage == PAYS_OUT:
        return changed("prod", **ON, pay_runs=payruns.PayRunSettings())
    found = templates.template(stage)["Resources"]
    named = {name(logical_id): resource for logical_id, resource in found.items()}
    assert len(named) == len(found), "two resources have one name"
    return {one: readable(resource) for one, resource in named.items()}


def built(stage: str, directory: Path | None = None, /, **changes: Any) -> tuple[App, SettlementStack]:
    flags = json.loads((templates.PROJECT / "cdk.json").read_text())["context"]
    app = templates.app(str(directory) if directory else None, **(flags | {"stage": stage}))
    return app, SettlementStack(app, settings=replace(settings_of(context(stage)), **changes))


@cache
def changed_template(stage: str = "prod", /, **changes: Any) -> Any:
    """Return a stage's whole template with changed settings. `from_stack` refuses circular references."""
    return Template.from_stack(built(stage, **changes)[1]).to_json()


@cache
def changed(stage: str = "prod", /, **changes: Any) -> dict[str, Any]:
    return readable_resources(changed_template(stage, **changes))


def readable_resources(found: Any) -> dict[str, Any]:
    return {name(logical_id): readable(resource) for logical_id, resource in found["Resources"].items()}


class Linted(NamedTuple):
    template: Any
    findings: dict[type, set[tuple[str, str]]]
    """Violated rules by rule pack: (rule, construct) pairs, without hashes and the stack's name."""


@cache
def linted(stage: str = "prod", /, **changes: Any) -> Linted:
    """Return a changed stage's template, and cdk-nag's findings."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        app, stack = built(stage, directory, **changes)
        packs = {type(pack): pack for pack in (AwsSolutionsChecks(app), PCIDSS321Checks(app))}
        Validations.of(app).add_plugins(*packs.values())
        # Synthesis fails on any finding, even an accepted one, but still writes template and report.
        with pytest.raises(RuntimeError, match=r"^ValidationFailed: "):
            app.synth()
        template = json.loads((directory / stack.template_file).read_text())
        reports = json.loads((directory / "validation-report.json").read_text())["pluginReports"]
    told = {one["pluginName"]: one["violations"] for one in reports}
    return Linted(
        template,
        {kind: {*_found(told.get(pack.name, ()), stack)} for kind, pack in packs.items()},
    )


def _found(violations: Iterable[Any], stack: SettlementStack) -> Iterator[tuple[str, str]]:
    for violation in violations:
        rule = re.sub(r"<(\w+?)[0-9A-F]{8}([.>])", r"<\1\2", violation["ruleName"])
        for found in violation["violatingConstructs"]:
            path = found["constructPath"].removeprefix(f"{stack.node.path}/").removeprefix("Default/")
            yield rule.replace(f"/{stack.stack_name}", "/<AWS::StackName>"), path


def readable(value: Any) -> Any:
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


def of_role(stage: str, role: str) -> list[dict[str, Any]]:
    """Return the statements of a role's policies, which are all in the template."""
    own = properties(stage, "IAM::Role")[role]
    if own.keys() & {"ManagedPolicyArns", "PermissionsBoundary"}:
        raise ValueError(f"{role}: a policy that the template names alone says nothing here")
    found = [
        one["PolicyDocument"]
        for kind in ("IAM::Policy", "IAM::ManagedPolicy")
        for one in properties(stage, kind).values()
        if f"${{{role}}}" in one.get("Roles", ())
    ]
    found += [one["PolicyDocument"] for one in own.get("Policies", ())]
    return [statement for document in found for statement in document["Statement"]]


def granted(stage: str, role: str) -> set[Permission]:
    return {*permissions({"Statement": of_role(stage, role)})}


def granted_in(found: dict[str, Any], role: str) -> set[Permission]:
    policies = [one["Properties"] for one in found.values() if one["Type"] == "AWS::IAM::Policy"]
    documents = [one["PolicyDocument"] for one in policies if f"${{{role}}}" in one["Roles"]]
    return {permission for document in documents for permission in permissions(document)}


def attached(stage: str, kind: str, listing: str, resource: str) -> set[Permission]:
    """Return the permissions of a resource's policies, each attached to this resource only."""
    found = [one for one in properties(stage, kind).values() if resource in one[listing]]
    assert [one[listing] for one in found] == [[resource]] * len(found)
    return {permission for one in found for permission in permissions(one["PolicyDocument"])}


def permissions(document: Any) -> Iterator[Permission]:
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
    return set(_each("Allow", actions, on, by, only_if))


def deny(*actions: str, on: Iterable[str], by: str = "", only_if: Any = None) -> set[Permission]:
    return set(_each("Deny", actions, on, by, only_if))


def no_plain_http(service: str, resource: str) -> set[Permission]:
    return deny(service, on=[resource], by="*", only_if={"Bool": {"aws:SecureTransport": "false"}})


def _each(
    effect: str, actions: Iterable[str], on: Iterable[str], by: str, condition: Any
) -> Iterator[Permission]:
    text = json.dumps(condition, sort_keys=True) if condition else ""
    for action, resource in product(actions, on):
        yield Permission(effect, action, resource, by, text)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _principals(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else [one for kind in given.values() for one in _listed(kind)]
