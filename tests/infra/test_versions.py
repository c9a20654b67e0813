"""An execution in flight keeps its function code across a deployment."""

from dataclasses import replace
from functools import cache
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from infra.config import STAGES
from infra.functions import WAITED_FOR
from infra.settlement_stack import SettlementStack
from tests.infra.stack import (
    EMBEDDED,
    KYC_URL,
    SETTLEMENTS,
    definition,
    each_stage,
    each_stage_on_aws,
    granted,
    properties,
    resources,
)


@cache
def functions(*, snap_start: bool) -> dict[str, Any]:
    settings = STAGES["prod"]
    settings = replace(settings, snap_start=snap_start, kyc=replace(settings.kyc, url=KYC_URL))
    found = Template.from_stack(SettlementStack(cdk.App(), settings=settings)).to_json()["Resources"]
    return {
        one["Properties"]["Handler"]: one["Properties"]
        for one in found.values()
        if one["Type"] == "AWS::Lambda::Function"
    }


@each_stage_on_aws
def test_the_functions_of_the_settlement_machine_have_versions_that_stay(stage: str) -> None:
    versions = resources(stage, "Lambda::Version")

    assert {one["Properties"]["FunctionName"] for one in versions.values()} == {
        f"${{{function}}}" for function in WAITED_FOR
    }
    for one in versions.values():
        assert (one["DeletionPolicy"], one["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


@each_stage_on_aws
@pytest.mark.parametrize("machine", SETTLEMENTS)
def test_an_execution_may_call_an_earlier_version(stage: str, machine: str) -> None:
    """Earlier executions call their definition's version, by today's role."""
    allowed = {
        one.resource
        for one in granted(stage, f"{machine}Role")
        if (one.effect, one.action) == ("Allow", "lambda:InvokeFunction")
    }

    assert allowed == {f"${{{function}.Arn}}:*" for function in WAITED_FOR}


@each_stage
def test_no_reversal_calls_a_version(stage: str) -> None:
    """A LIMBO case may wake after months, and needs the corrected code."""
    called = properties(stage, "StepFunctions::StateMachine")["Compensation"]["DefinitionSubstitutions"]

    assert "Version" not in str(called)


@pytest.mark.parametrize("stage", EMBEDDED)
def test_the_embedded_aws_publishes_no_version(stage: str) -> None:
    assert not properties(stage, "Lambda::Version")


@each_stage
def test_a_caller_waits_for_the_functions_of_the_settlement_machine(stage: str) -> None:
    for machine in SETTLEMENTS:
        states = definition(stage, machine)["States"]
        called = {one for one, state in states.items() if ":lambda:invoke" in state.get("Resource", "")}
        assert called == set(WAITED_FOR)


def test_another_setting_of_a_function_is_another_version() -> None:
    """CloudFormation publishes nothing for a version with an unchanged name."""

    def names(memory_mb: int) -> set[str]:
        settings = replace(STAGES["prod"], function_memory_mb=memory_mb)
        settings = replace(settings, kyc=replace(settings.kyc, url=KYC_URL))
        found = Template.from_stack(SettlementStack(cdk.App(), settings=settings))
        return set(found.find_resources("AWS::Lambda::Version"))

    assert names(512) == names(512)
    assert not names(512) & names(1024)


def test_with_snap_start_these_functions_start_from_a_snapshot() -> None:
    def snapped(*, snap_start: bool) -> list[Any]:
        found = functions(snap_start=snap_start)
        return [one["SnapStart"] for one in found.values() if "SnapStart" in one]

    assert snapped(snap_start=True) == [{"ApplyOn": "PublishedVersions"}] * len(WAITED_FOR)
    assert snapped(snap_start=False) == []
