"""Tests AWS's limits on a template, with a margin: CloudFormation checks them only at the deployment."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from aws_cdk.assertions import Template

from infra.config import is_personal
from tests.infra.stack import context
from tests.world import templates
from tools import everything_on

LONGEST_NAME = "my-" + "x" * 12
STAGES = ("dev", "prod", LONGEST_NAME, *everything_on.STAGES)

MARGIN = 0.8
NARROW: Mapping[str, float] = {"managed policy": 0.9, "resources": 0.9}
"""Limits with a smaller margin. Beyond it, split the policy, or move a room to a nested stack.

Under the longest name, the acceptance's policy has 87 % of IAM's length limit. With every option, a stack has
428 of 500 resources, 60 of them for payouts.
"""

PSEUDO = {"AWS::Partition": "aws", "AWS::Region": "ap-southeast-1", "AWS::AccountId": "1" * 12}
HASH, API_ID, ARN, URL = 14, 10, 52, 57
# A name's random end, an API's id, and the part before the name in an ARN and in a queue's URL.

NAME_MAX = 80
"""Longest name of a machine or queue."""

REFERRED_BY_ARN = {
    *("SNS::Topic", "SecretsManager::Secret", "IAM::ManagedPolicy", "Lambda::Version"),
    *("StepFunctions::StateMachine", "StepFunctions::StateMachineAlias"),
}

Measured = Iterator[tuple[str, int]]


@cache
def template(stage: str) -> str:
    if stage in everything_on.STAGES:
        _, stack = everything_on.stack(stage)
        return json.dumps(Template.from_stack(stack).to_json(), indent=1)
    assert is_personal(stage) or context(stage)
    return json.dumps(templates.template(stage), indent=1)


class Deployed:
    """A template with references as long as their values."""

    def __init__(self, stage: str) -> None:
        self.text = template(stage)
        self.whole: dict[str, Any] = json.loads(self.text)
        self.resources: dict[str, Any] = self.whole["Resources"]
        self.stack = f"settlement-{stage}"

    def of(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, one in self.resources.items():
            if one["Type"] == f"AWS::{kind}":
                yield name, one.get("Properties", {})

    def value(self, part: Any) -> Any:
        match part:
            case {"Ref": name}:
                return PSEUDO.get(name) or self._referred(name)
            case {"Fn::GetAtt": [name, *_]}:
                return "x" * (ARN + len(self._name(name)))
            case {"Fn::Join": [separator, parts]}:
                return separator.join(self.value(one) for one in parts)
            case dict():
                assert not any(key.startswith("Fn::") for key in part), (
                    f"a function of unknown length: {part}"
                )
                return {key: self.value(one) for key, one in part.items()}
            case list():
                return [self.value(one) for one in part]
        return part

    def _referred(self, name: str) -> str:
        kind = self.resources.get(name, {}).get("Type", "").removeprefix("AWS::")
        if kind == "ApiGatewayV2::Api":
            return "x" * API_ID
        before = ARN if kind in REFERRED_BY_ARN else URL if kind == "SQS::Queue" else 0
        return "x" * before + self._name(name)

    def _name(self, name: str) -> str:
        return f"{self.stack}-{name}{'x' * HASH}"[:NAME_MAX]

    def size(self, document: Any) -> int:
        # AWS counts no blanks.
        return len(json.dumps(self.value(document), separators=(",", ":")).replace(" ", ""))

    def documents(self, kind: str, field: str) -> Measured:
        for name, found in self.of(kind):
            yield name, self.size(found.get(field, {}))


def inline(of: Deployed) -> Measured:
    sizes: dict[str, int] = defaultdict(int)
    for _, policy in of.of("IAM::Policy"):
        for role in policy["Roles"]:
            sizes[role["Ref"]] += of.size(policy["PolicyDocument"])
    for name, role in of.of("IAM::Role"):
        sizes[name] += sum(of.size(one["PolicyDocument"]) for one in role.get("Policies", ()))
    yield from sizes.items()


def environments(of: Deployed) -> Measured:
    for name, function in of.of("Lambda::Function"):
        variables = of.value(function.get("Environment", {}).get("Variables", {}))
        yield name, sum(len(f"{key}{value}".encode()) for key, value in variables.items())


def definitions(of: Deployed) -> Measured:
    for name, machine in of.of("StepFunctions::StateMachine"):
        yield name, len(of.value(machine["DefinitionString"]).encode())


def statements(of: Deployed) -> Measured:
    for name, policy in of.of("SQS::QueuePolicy"):
        yield name, len(policy["PolicyDocument"]["Statement"])


def policies(kind: str, field: str = "PolicyDocument") -> Callable[[Deployed], Measured]:
    return lambda of: of.documents(kind, field)


def counted(section: str) -> Callable[[Deployed], Measured]:
    return lambda of: iter([(section, len(of.whole.get(section, ())))])


LIMITS: Mapping[str, tuple[int, Callable[[Deployed], Measured]]] = {
    "template, bytes": (1_000_000, lambda of: iter([("template", len(of.text.encode()))])),
    "resources": (500, counted("Resources")),
    "outputs": (200, counted("Outputs")),
    "parameters": (200, counted("Parameters")),
    "inline policies of a role": (10_240, inline),
    "managed policy": (6_144, policies("IAM::ManagedPolicy")),
    "trust policy of a role": (2_048, policies("IAM::Role", "AssumeRolePolicyDocument")),
    "policy of a topic": (30_720, policies("SNS::TopicPolicy")),
    "policy of a queue": (8_192, policies("SQS::QueuePolicy")),
    "statements of a queue's policy": (20, statements),
    "policy of a bucket": (20_480, policies("S3::BucketPolicy")),
    "policy of a key": (32_768, policies("KMS::Key", "KeyPolicy")),
    "environment of a function, bytes": (4_096, environments),
    "definition of a machine, bytes": (1_048_576, definitions),
}
"""Limits from the quota pages of CloudFormation, IAM, SNS, SQS, S3, KMS, Lambda and Step Functions."""


def too_large(stage: str, limit: str, margin: float) -> list[str]:
    most, measured = LIMITS[limit]
    return [
        f"{name}: {size} of {most} ({size / most:.0%})"
        for name, size in measured(Deployed(stage))
        if size > margin * most
    ]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_keeps_a_margin_below_each_limit(stage: str, limit: str) -> None:
    assert too_large(stage, limit, NARROW.get(limit, MARGIN)) == []


@pytest.mark.parametrize("limit", LIMITS)
def test_each_limit_is_measured_and_reported_with_its_figure(limit: str) -> None:
    margin = 0 if limit != "parameters" else -1
    told = too_large("everything", limit, margin)

    assert told
    assert all(f" of {LIMITS[limit][0]} (" in one for one in told)


@pytest.mark.parametrize("stage", STAGES)
def test_delivered_logs_use_groups_that_need_no_resource_policy(stage: str) -> None:
    """Groups with other names would fill the log service's resource policy of 5,120 characters."""
    of = Deployed(stage)
    places = [one["LoggingConfiguration"]["Destinations"] for _, one in of.of("StepFunctions::StateMachine")]
    places += [one["AccessLogSettings"] for _, one in of.of("ApiGatewayV2::Stage")]
    groups = {name: found for name, found in of.of("Logs::LogGroup") if f'"{name}"' in json.dumps(places)}

    assert len(groups) == len(places) >= 5
    assert all(found["LogGroupName"].startswith("/aws/vendedlogs/") for found in groups.values())
