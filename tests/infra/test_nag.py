"""Explains all cdk-nag findings, of AWS's rules and PCI DSS 3.2.1."""

from typing import Any

import pytest
from cdk_nag import AwsSolutionsChecks, PCIDSS321Checks

from infra.config import STAGES
from infra.functions import WAITED_FOR
from infra.grants import STATES
from infra.orders import routes
from infra.people import POLICIES, people
from infra.rooms import ORDERS
from tests.infra.stack import FUNCTIONS, MACHINES, SETTLEMENTS, linted
from tests.world.rooms import there


def of_role(role: str) -> str:
    return f"{role}/DefaultPolicy/Resource"


def on(resource: str) -> str:
    return f"AwsSolutions-IAM5[Resource::{resource}]"


def on_arn(service: str, resource: str) -> str:
    return on(f"arn:<AWS::Partition>:{service}:<AWS::Region>:<AWS::AccountId>:{resource}")


READERS = ("PublishEvents", "SealJournal")
"""Readers of the table's stream."""

ROLES = {of_role(f"{function}Role") for function in FUNCTIONS}
OF_ROWS = ROLES - {of_role("SendPageRole")}
EACH_POLICY = {f"People/{name}" for name in POLICIES.values()}
OF_SETTLEMENTS = {of_role(f"{machine}/Role") for machine in SETTLEMENTS}
MACHINE_ROLES = {of_role(f"{machine}/Role") for machine in MACHINES}
SCHEDULED = {
    function: of_role(f"SchedulerRoleForTarget-{target}")
    for function, target in (
        *(("RecoverStalled", "3d2812"), ("ReconcileBooks", "4543ec")),
        ("SealJournal", "9e5f28"),
    )
}

BY_THE_STACKS_NAME = "Acceptance/Policy"
"""The one policy limited by the stack's name, because its stack has no customers' money."""

SEALED = "The seals show what access logs would: every object that is added, changed or taken away."
BY_PATTERN = "Executions are named after settlements, so a policy can name them by a pattern only."

EXPLAINED: dict[str, tuple[set[str], str]] = {
    on("*"): (
        {of_role(f"{function}Role") for function in (*STATES, "TakeOrder", *READERS)} | MACHINE_ROLES,
        "X-Ray, a task's token, the list of streams, and the delivery of vended logs have no resources that a"
        " policy could name.",
    ),
    "AwsSolutions-IAM5[Action::kms:GenerateDataKey*]": (
        OF_ROWS,
        "DynamoDB uses either form of this action; bound to the table's key and to DynamoDB.",
    ),
    "AwsSolutions-IAM5[Action::kms:ReEncrypt*]": (
        OF_ROWS,
        "Re-encryption is one act with two actions; bound to the table's key and to DynamoDB.",
    ),
    on_arn("states", "execution:<SettlementStandard.Name>:*"): (EACH_POLICY, BY_PATTERN),
    on_arn("states", "execution:<Compensation.Name>:*"): (
        EACH_POLICY
        | {of_role(role) for role in ("SettlementStandard/Role", "RecoverStalledRole", "TakeOrderRole")},
        BY_PATTERN,
    ),
    **{
        on(f"<{function}.Arn>:*"): (
            {role},
            "The schedule's target grants every version of the one function that it invokes.",
        )
        for function, role in SCHEDULED.items()
    },
    **{
        on(f"<{function}.Arn>:*"): (
            OF_SETTLEMENTS,
            "An execution in flight calls the version that it has started with.",
        )
        for function in WAITED_FOR
    },
    **{
        on(f"<JournalBucket.Arn>/{folder}/*"): (
            {of_role(f"{function}Role") for function in functions},
            "An object's name is the digest of its content, so a policy can name its folder only.",
        )
        for folder, functions in (
            ("journal", ("SealJournal", "ReadSettlements")),
            ("seals", ("SealJournal",)),
        )
    },
    **{
        on_arn("execute-api", f"<OrdersApi>/*/POST/orders/{route}"): (
            {f"People/{POLICIES[kind]}" for kind, given in people(ORDERS).items() if route in given},
            "The API has one stage.",
        )
        for route in routes(ORDERS)
    },
    **{
        on_arn("execute-api", f"<SettlementsApi>/*/GET/{path}"): (
            {*EACH_POLICY, "Settlements/Reader"},
            "The API has one stage, and a path has the key or the account that is read.",
        )
        for path in ("settlements", "settlements/*", "accounts/*/entries", "journal")
    },
    **{
        on_arn("execute-api", f"<SettlementsApi>/*/POST/{path}"): (
            {"Settlements/Starter"},
            "The API has one stage, and a path has the key that is cancelled.",
        )
        for path in there("doors", "settlements", "settlements/*/cancel")
    },
    on("<JournalBucket.Arn>/*"): (EACH_POLICY, "A person reads the whole journal, as the command does."),
    on("arn:<AWS::Partition>:iam::<AWS::AccountId>:policy/<AWS::StackName>-*"): (
        EACH_POLICY,
        "CloudFormation ends the policies' names, and a policy cannot name itself.",
    ),
    on_arn("cloudformation", "stack/<AWS::StackName>/*"): (
        EACH_POLICY,
        "CloudFormation authorises a call by the stack's name as `stack/NAME/*`.",
    ),
    "AwsSolutions-S1": ({"Journal/Bucket/Resource"}, SEALED),
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
"""Accepted findings by rule: their constructs, and why they stay."""

OF_LEAN_LOGS: dict[str, tuple[set[str], str]] = {
    "AwsSolutions-SF1": (
        {f"{machine}/Resource" for machine in SETTLEMENTS},
        "What succeeds is in the functions' lines and in the rows: docs/decisions/2026-11-22-logs.md.",
    ),
}
"""Additional findings of a stage with minimal logs."""


OF_PCI: dict[str, tuple[set[str], str]] = {
    "PCI.DSS.321-CloudWatchLogGroupEncrypted": (
        {f"{one}Logs/Resource" for one in (*FUNCTIONS, *MACHINES)}
        | {"Orders/Log/Resource", "Settlements/Log/Resource"},
        "CloudWatch's key encrypts them. No line has a card, a name or a secret, and a dead key of ours would"
        " take away the lines of the very incident.",
    ),
    "PCI.DSS.321-IAMNoInlinePolicy": (
        ROLES | MACHINE_ROLES | {*SCHEDULED.values()},
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
        SEALED,
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


@pytest.mark.parametrize("stage", [pytest.param("dev", marks=pytest.mark.long), "prod"])
@pytest.mark.parametrize("pack", [AwsSolutionsChecks, PCIDSS321Checks])
def test_every_finding_of_cdk_nag_is_explained_without_surplus(stage: str, pack: Any) -> None:
    of_aws = EXPLAINED if STAGES[stage].logs_in_full else EXPLAINED | OF_LEAN_LOGS
    accepted = OF_PCI if pack is PCIDSS321Checks else of_aws
    explained = {(rule, path) for rule, (paths, _) in accepted.items() for path in paths}

    every = linted(stage).findings[pack]
    bound = {rule for rule, path in every if path == BY_THE_STACKS_NAME}
    found = {(rule, path) for rule, path in every if path != BY_THE_STACKS_NAME}

    assert {rule.partition("[")[0] for rule in bound} <= {"AwsSolutions-IAM5"}
    assert bool(bound) == (pack is AwsSolutionsChecks and not STAGES[stage].must_reach_people)
    assert sorted(found - explained) == []
    assert sorted(explained - found) == []
