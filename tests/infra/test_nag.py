"""The findings of AWS's own rules (cdk-nag, AwsSolutions) are all explained here."""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks

from app import build
from tests.infra.machines import MACHINES, context, function_id, logical_id
from tests.infra.test_functions import FUNCTIONS as NAMES
from tests.support.templates import PROJECT

ROLES = {f"{state}Role/DefaultPolicy/Resource" for state in NAMES}
MACHINE_ROLES = {f"{machine}/Role/DefaultPolicy/Resource" for machine in MACHINES}
FUNCTIONS = {f"{state}/Resource" for state in NAMES}
EXECUTIONS = (
    "arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:execution:"
    f"<{logical_id('prod', 'Compensation')}.Name>:*"
)

RECOVERY = f"<{function_id('prod', 'RecoverStalled')}.Arn>:*"

EXPLAINED: dict[str, tuple[set[str], str]] = {
    "AwsSolutions-IAM5[Resource::*]": (
        ROLES | MACHINE_ROLES,
        "X-Ray and the delivery of vended logs have no resources that a policy could name.",
    ),
    "AwsSolutions-IAM5[Action::kms:GenerateDataKey*]": (
        ROLES,
        "DynamoDB uses either form of this action; bound to the table's key and to DynamoDB.",
    ),
    "AwsSolutions-IAM5[Action::kms:ReEncrypt*]": (
        ROLES,
        "Re-encryption is one act with two actions; bound to the table's key and to DynamoDB.",
    ),
    f"AwsSolutions-IAM5[Resource::{EXECUTIONS}]": (
        {"SettlementStandard/Role/DefaultPolicy/Resource", "RecoverStalledRole/DefaultPolicy/Resource"},
        "Executions are named after settlements, so a policy can name them by a pattern only.",
    ),
    f"AwsSolutions-IAM5[Resource::{RECOVERY}]": (
        {"SchedulerRoleForTarget-3d2812/DefaultPolicy/Resource"},
        "The schedule's target grants every version of the one function that it invokes.",
    ),
    "AwsSolutions-SMG4": (
        {"Kyc/Credentials", "Kyc/Signing"},
        "The provider has the other half: a person rotates both, by the runbook, without a deployment.",
    ),
    "AwsSolutions-SQS3": (
        {"Pager/Undelivered/Resource"},
        "This is the dead-letter queue itself: only a person reads it, after its alarm.",
    ),
    "AwsSolutions-L1": (
        FUNCTIONS,
        "Python 3.13 is a supported runtime; it is raised together with the layer that is made for it.",
    ),
}
"""Each accepted finding: the constructs that have it, below the stack, and why it stays."""


def findings(stage: str, directory: Path) -> set[tuple[str, str]]:
    """Return the findings in the stage's stack, as pairs of a rule and the construct that breaks it."""
    flags: dict[str, Any] = json.loads((PROJECT / "cdk.json").read_text())["context"]
    app = cdk.App(context=flags | context(stage), outdir=str(directory))
    stack = build(app)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    # Synthesis fails on any finding, accepted ones included; the report is written all the same.
    with pytest.raises(RuntimeError, match=r"^ValidationFailed: "):
        app.synth()
    (report,) = json.loads((directory / "validation-report.json").read_text())["pluginReports"]
    assert report["pluginName"] == "AwsSolutions"
    return {
        (violation["ruleName"], construct["constructPath"].removeprefix(f"{stack.node.path}/"))
        for violation in report["violations"]
        for construct in violation["violatingConstructs"]
    }


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_every_finding_is_explained_and_every_explanation_is_needed(stage: str, tmp_path: Path) -> None:
    explained = {(rule, path) for rule, (paths, _) in EXPLAINED.items() for path in paths}

    found = findings(stage, tmp_path)

    assert sorted(found - explained) == []
    assert sorted(explained - found) == []
