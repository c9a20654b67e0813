"""All cdk-nag findings, of AWS's rules and PCI DSS 3.2.1, are explained here."""

import json
import re
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks, PCIDSS321Checks

from app import build
from infra.config import STAGES
from infra.functions import WAITED_FOR
from infra.orders import routes
from infra.people import POLICIES, people
from infra.rooms import ORDERS
from tests.infra.stack import FUNCTIONS, MACHINES, SETTLEMENTS, context
from tests.world.rooms import there
from tests.world.templates import PROJECT

ROLES = {f"{function}Role/DefaultPolicy/Resource" for function in FUNCTIONS}
OF_ROWS = ROLES - {"SendPageRole/DefaultPolicy/Resource"}
EACH_POLICY = {f"People/{name}" for name in POLICIES.values()}
MACHINE_ROLES = {f"{machine}/Role/DefaultPolicy/Resource" for machine in MACHINES}

BY_THE_STACKS_NAME = "Acceptance/Policy"
"""The one policy bound by the stack's name: its role makes queues and rules, and inspects a stack without
customers' money. Its actions: test_acceptance.py.
"""

EXPLAINED: dict[str, tuple[set[str], str]] = {
    "AwsSolutions-IAM5[Resource::*]": (
        ROLES | MACHINE_ROLES,
        "X-Ray and the delivery of vended logs have no resources that a policy could name.",
    ),
    "AwsSolutions-IAM5[Action::kms:GenerateDataKey*]": (
        OF_ROWS,
        "DynamoDB uses either form of this action; bound to the table's key and to DynamoDB.",
    ),
    "AwsSolutions-IAM5[Action::kms:ReEncrypt*]": (
        OF_ROWS,
        "Re-encryption is one act with two actions; bound to the table's key and to DynamoDB.",
    ),
    "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:execution:"
    "<SettlementStandard.Name>:*]": (
        EACH_POLICY,
        "Executions are named after settlements, so a policy can name them by a pattern only.",
    ),
    "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:execution:"
    "<Compensation.Name>:*]": (
        EACH_POLICY
        | {
            f"{role}/DefaultPolicy/Resource"
            for role in ("SettlementStandard/Role", "RecoverStalledRole", "TakeOrderRole")
        },
        "Executions are named after settlements, so a policy can name them by a pattern only.",
    ),
    "AwsSolutions-IAM5[Resource::<RecoverStalled.Arn>:*]": (
        {"SchedulerRoleForTarget-3d2812/DefaultPolicy/Resource"},
        "The schedule's target grants every version of the one function that it invokes.",
    ),
    **{
        f"AwsSolutions-IAM5[Resource::<{function}.Arn>:*]": (
            {f"{machine}/Role/DefaultPolicy/Resource" for machine in SETTLEMENTS},
            "An execution in flight calls the version that it has started with.",
        )
        for function in WAITED_FOR
    },
    **{
        f"AwsSolutions-IAM5[Resource::<JournalBucket.Arn>/{folder}/*]": (
            {f"{function}Role/DefaultPolicy/Resource" for function in functions},
            "An object's name is the digest of its content, so a policy can name its folder only.",
        )
        for folder, functions in (
            ("journal", ("SealJournal", "ReadSettlements")),
            ("seals", ("SealJournal",)),
        )
    },
    "AwsSolutions-IAM5[Resource::<SealJournal.Arn>:*]": (
        {"SchedulerRoleForTarget-9e5f28/DefaultPolicy/Resource"},
        "The schedule's target grants every version of the one function that it invokes.",
    ),
    **{
        "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:"
        f"<OrdersApi>/*/POST/orders/{route}]": (
            {f"People/{POLICIES[kind]}" for kind, given in people(ORDERS).items() if route in given},
            "The API has one stage.",
        )
        for route in routes(ORDERS)
    },
    **{
        "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:"
        f"<SettlementsApi>/*/GET/{path}]": (
            {*EACH_POLICY, "Settlements/Reader"},
            "The API has one stage, and a path has the key or the account that is read.",
        )
        for path in ("settlements", "settlements/*", "accounts/*/entries", "journal")
    },
    **{
        "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:"
        f"<SettlementsApi>/*/POST/{path}]": (
            {"Settlements/Starter"},
            "The API has one stage, and a path has the key that is cancelled.",
        )
        for path in there("doors", "settlements", "settlements/*/cancel")
    },
    "AwsSolutions-IAM5[Resource::<JournalBucket.Arn>/*]": (
        EACH_POLICY,
        "A person reads the whole journal, as the command does.",
    ),
    "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:iam::<AWS::AccountId>:policy/<AWS::StackName>-*]": (
        EACH_POLICY,
        "CloudFormation ends the policies' names, and a policy cannot name itself.",
    ),
    "AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:cloudformation:<AWS::Region>:<AWS::AccountId>:"
    "stack/<AWS::StackName>/*]": (
        EACH_POLICY,
        "CloudFormation authorises a call by the stack's name as `stack/NAME/*`.",
    ),
    "AwsSolutions-S1": (
        {"Journal/Bucket/Resource"},
        "The seals show what access logs would: every object that is added, changed or taken away.",
    ),
    "AwsSolutions-IAM5[Resource::<ReconcileBooks.Arn>:*]": (
        {"SchedulerRoleForTarget-4543ec/DefaultPolicy/Resource"},
        "The schedule's target grants every version of the one function that it invokes.",
    ),
    "AwsSolutions-SMG4": (
        {"Kyc/Credentials", "Kyc/Signing", "RowKeys/Secret1"},
        "The provider has the other half of its own: a person rotates both, by the runbook. A key of the rows"
        " proves those that it has signed for as long as they are kept; one more comes by a deployment.",
    ),
    "AwsSolutions-SQS3": (
        {
            *("Pager/Undelivered/Resource", "Journal/GivenUp/Resource"),
            *("Outcomes/GivenUp/Resource", "Outcomes/PutAside/Resource"),
        },
        "This is the dead-letter queue itself: only a person reads it, after its alarm.",
    ),
    "AwsSolutions-L1": (
        {f"{function}/Resource" for function in FUNCTIONS},
        "Python 3.13 is a supported runtime; it is raised together with the layer that is made for it.",
    ),
}
"""Accepted findings: their constructs, and why they stay."""

OF_LEAN_LOGS: dict[str, tuple[set[str], str]] = {
    "AwsSolutions-SF1": (
        {f"{machine}/Resource" for machine in SETTLEMENTS},
        "What succeeds is in the functions' lines and in the rows: docs/decisions/2026-11-22-logs.md.",
    ),
}
"""Additional findings of a stage with minimal logs."""


SCHEDULES = {f"SchedulerRoleForTarget-{target}" for target in ("3d2812", "4543ec", "9e5f28")}

OF_PCI: dict[str, tuple[set[str], str]] = {
    "PCI.DSS.321-CloudWatchLogGroupEncrypted": (
        {f"{one}Logs/Resource" for one in (*FUNCTIONS, *MACHINES)}
        | {"Orders/Log/Resource", "Settlements/Log/Resource"},
        "CloudWatch's key encrypts them. No line has a card, a name or a secret, and a dead key of ours would"
        " take away the lines of the very incident.",
    ),
    "PCI.DSS.321-IAMNoInlinePolicy": (
        ROLES | MACHINE_ROLES | {f"{role}/DefaultPolicy/Resource" for role in SCHEDULES},
        "The rule is about people, whose policies are managed ones. Each function has a role of its own, and"
        " no other may get its policy.",
    ),
    "PCI.DSS.321-LambdaFunctionPublicAccessProhibited": (
        {"KycDecided/invoke-function-url", "KycDecided/invoke-function"},
        "The provider has no AWS identity, and signs its calls. `http-api` is the variant without.",
    ),
    "PCI.DSS.321-LambdaInsideVPC": (
        {f"{function}/Resource" for function in FUNCTIONS},
        "They call AWS and the KYC provider, and nothing that is in a network of ours.",
    ),
    "PCI.DSS.321-S3BucketLoggingEnabled": (
        {"Journal/Bucket/Resource"},
        "The seals show what access logs would: every object that is added, changed or taken away.",
    ),
    "PCI.DSS.321-S3BucketReplicationEnabled": (
        {"Journal/Bucket/Resource"},
        "A copy in another account is the operator's: its address is no part of this stack.",
    ),
    "PCI.DSS.321-SecretsManagerUsingKMSKey": (
        {"Kyc/Credentials", "Kyc/Signing"},
        "Secrets Manager's key encrypts them, and IAM admits one function to each.",
    ),
}
"""Additional PCI DSS findings. No card data comes here, but an operator may need to comply."""


def findings(stage: str, directory: Path, pack: Any) -> set[tuple[str, str]]:
    """Return a stage's findings as (rule, construct) pairs."""
    flags: dict[str, Any] = json.loads((PROJECT / "cdk.json").read_text())["context"]
    app = cdk.App(context=flags | context(stage), outdir=str(directory))
    stack = build(app)
    cdk.Validations.of(app).add_plugins(pack(app))
    # Synthesis fails on any finding, even an accepted one, but still writes the report.
    with pytest.raises(RuntimeError, match=r"^ValidationFailed: "):
        app.synth()
    (report,) = json.loads((directory / "validation-report.json").read_text())["pluginReports"]
    return {
        (
            # Without the hashes, and without the stage.
            re.sub(r"<(\w+?)[0-9A-F]{8}([.>])", r"<\1\2", violation["ruleName"]).replace(
                f"/{stack.stack_name}", "/<AWS::StackName>"
            ),
            construct["constructPath"].removeprefix(f"{stack.node.path}/"),
        )
        for violation in report["violations"]
        for construct in violation["violatingConstructs"]
    }


@pytest.mark.parametrize("stage", [pytest.param("dev", marks=pytest.mark.long), "prod"])
@pytest.mark.parametrize("pack", [AwsSolutionsChecks, PCIDSS321Checks])
def test_every_finding_is_explained_and_every_explanation_is_needed(
    stage: str, pack: Any, tmp_path: Path
) -> None:
    of_aws = EXPLAINED if STAGES[stage].logs_in_full else EXPLAINED | OF_LEAN_LOGS
    accepted = OF_PCI if pack is PCIDSS321Checks else of_aws
    explained = {(rule, path) for rule, (paths, _) in accepted.items() for path in paths}

    found = findings(stage, tmp_path, pack)
    bound = {rule for rule, path in found if path == BY_THE_STACKS_NAME}
    found = {(rule, path) for rule, path in found if path != BY_THE_STACKS_NAME}

    assert {rule.partition("[")[0] for rule in bound} <= {"AwsSolutions-IAM5"}
    assert bool(bound) == (pack is AwsSolutionsChecks and not STAGES[stage].must_reach_people)
    assert sorted(found - explained) == []
    assert sorted(explained - found) == []
