"""SnapStart, where the settings turn it on: it works on published versions, which the machines call."""

from dataclasses import replace
from functools import cache
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

from infra.config import STAGES
from infra.functions import WAITED_FOR
from infra.settlement_stack import SettlementStack
from tests.infra.stack import KYC_URL, SETTLEMENTS, definition, each_stage, name, properties


@cache
def found(kind: str) -> dict[str, Any]:
    """Return the properties of the resources of a kind on a stage with SnapStart, by their logical ids."""
    settings = STAGES["prod"]
    settings = replace(settings, snap_start=True, kyc=replace(settings.kyc, url=KYC_URL))
    resources = Template.from_stack(SettlementStack(cdk.App(), settings=settings)).to_json()["Resources"]
    return {one: given["Properties"] for one, given in resources.items() if given["Type"] == f"AWS::{kind}"}


def aliases() -> dict[str, str]:
    """Return the logical ids of the aliases, with the functions' names."""
    versions = {version: given["FunctionName"]["Ref"] for version, given in found("Lambda::Version").items()}
    for alias in found("Lambda::Alias").values():
        assert versions[alias["FunctionVersion"]["Fn::GetAtt"][0]] == alias["FunctionName"]["Ref"]
    return {one: name(alias["FunctionName"]["Ref"]) for one, alias in found("Lambda::Alias").items()}


def test_the_functions_for_which_a_caller_waits_start_from_snapshots_of_their_latest_versions() -> None:
    snapped = {name(one) for one, given in found("Lambda::Function").items() if "SnapStart" in given}

    assert snapped == set(aliases().values()) == set(WAITED_FOR)
    for given in found("Lambda::Function").values():
        assert given.get("SnapStart", {}) in ({}, {"ApplyOn": "PublishedVersions"})


def test_the_settlement_machine_calls_the_latest_versions_and_may_call_nothing_else() -> None:
    published = aliases()
    for machine, given in found("StepFunctions::StateMachine").items():
        if name(machine) in SETTLEMENTS:
            called = {
                placeholder: published[value["Ref"]]
                for placeholder, value in given["DefinitionSubstitutions"].items()
                if placeholder in WAITED_FOR
            }
            assert called == {one: one for one in WAITED_FOR}

    allowed = [
        statement["Resource"]
        for policy, given in found("IAM::Policy").items()
        for statement in given["PolicyDocument"]["Statement"]
        if policy.startswith("Settlement") and statement["Action"] == "lambda:InvokeFunction"
    ]
    assert len(allowed) == len(SETTLEMENTS)
    for resources in allowed:
        assert {published[resource["Ref"]] for resource in resources} == set(WAITED_FOR)


@each_stage
def test_a_stage_without_it_publishes_no_version(stage: str) -> None:
    assert not properties(stage, "Lambda::Version")
    assert not properties(stage, "Lambda::Alias")
    assert not [one for one in properties(stage, "Lambda::Function").values() if "SnapStart" in one]


@each_stage
def test_a_caller_waits_for_the_functions_of_the_settlement_machine(stage: str) -> None:
    for machine in SETTLEMENTS:
        states = definition(stage, machine)["States"]
        called = {one for one, state in states.items() if ":lambda:invoke" in state.get("Resource", "")}
        assert called == set(WAITED_FOR)
