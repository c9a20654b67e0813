"""The permissions of every role, complete: each action with its resource and its condition."""

from collections.abc import Sequence
from typing import Any

import pytest

from infra.config import STAGES
from infra.grants import STARTING
from infra.table import IMMUTABLE_ATTRIBUTES, INDEX
from settlement.ledger import keys
from tests.infra.stack import (
    FUNCTIONS,
    MACHINES,
    Permission,
    allow,
    definition,
    deny,
    each_stage,
    executions,
    granted,
    properties,
    variables,
)

TABLE, KEY = "${LedgerTable.Arn}", "${LedgerKey.Arn}"
EXPRESS, STANDARD = "${SettlementExpress}", "${SettlementStandard}"
STARTS = "states:StartExecution"
SECRET = ("secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue")
LOOKS = ("sqs:GetQueueAttributes", "sqs:GetQueueUrl")
RECEIVES = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility")
READS_STREAM = (
    *("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"),
    "dynamodb:ListStreams",
)
TRACES = ("xray:PutTelemetryRecords", "xray:PutTraceSegments")
KEY_USE = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
THROUGH_DYNAMODB = {"StringEquals": {"kms:ViaService": "dynamodb.${AWS::Region}.amazonaws.com"}}
OF_ENTRIES = {"ForAnyValue:StringEquals": {"dynamodb:Attributes": list(IMMUTABLE_ATTRIBUTES)}}

MORE: dict[str, set[Permission]] = {
    # A function reads its own secret, and neither changes nor lists it.
    "VerifyKyc": allow(*SECRET, on=["${KycCredentials.Id}"])
    | allow("events:PutEvents", on=["${PagerBus.Arn}"]),
    # Only a Standard execution is known by its name, and starts once: Express takes the name again.
    "KycDecided": allow(*SECRET, on=["${KycSigning.Id}"]) | allow(STARTS, on=[STANDARD]),
    # The index is a hint: only the row has a settlement's state. Executions have no names before they start.
    # Each start of recovery has a name of its own, and a second execution of one does no harm.
    "RecoverStalled": allow("dynamodb:Query", on=[f"{TABLE}/index/{keys.INDEX}"])
    | allow(STARTS, on=[STANDARD, EXPRESS, "${Compensation}"])
    | allow("states:DescribeExecution", on=[executions("Compensation")]),
    # If it could send to its own queue, a message could circulate for ever.
    "StartSettlements": allow(*RECEIVES, *LOOKS, on=["${StartQueue.Arn}"])
    | allow("sqs:SendMessage", *LOOKS, on=["${StartDeadLetters.Arn}"])
    | allow(STARTS, on=[STANDARD]),
    # What it gives up goes to a queue that no function reads.
    "SweepMerchants": allow(*READS_STREAM, on=["${LedgerTable.StreamArn}"])
    | allow("sqs:SendMessage", *LOOKS, on=["${MerchantsGivenUp.Arn}"]),
}
"""The permissions of a function besides those of every function."""

EVERYWHERE = {
    *("logs:CreateLogDelivery", "logs:DeleteLogDelivery", "logs:DescribeLogGroups"),
    *("logs:DescribeResourcePolicies", "logs:GetLogDelivery", "logs:ListLogDeliveries"),
    *("logs:PutResourcePolicy", "logs:UpdateLogDelivery"),
    *("xray:GetSamplingRules", "xray:GetSamplingTargets", *TRACES),
}
"""A machine's actions without a resource: X-Ray and the delivery of vended logs have none to name."""

SYNC_RULE = (
    "arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:rule/"
    "StepFunctionsGetEventsForStepFunctionsExecutionRule"
)
CALLS = {
    "SettlementExpress": allow(STARTS, on=["${Compensation}"]),
    # If it is stopped, it stops the compensation; it learns of its end through a rule of AWS's own.
    "SettlementStandard": allow(STARTS, on=["${Compensation}"])
    | allow("states:DescribeExecution", "states:StopExecution", on=[executions("Compensation")])
    | allow("events:PutTargets", "events:PutRule", "events:DescribeRule", on=[SYNC_RULE]),
    "Compensation": allow("events:PutEvents", on=["${PagerBus.Arn}"]),
}
"""The permissions of a machine for its calls of other services."""

IN_THIS_ACCOUNT = {"StringEquals": {"aws:SourceAccount": "${AWS::AccountId}"}}


def scheduler(stage: str) -> str:
    """Return the role of recovery's schedule."""
    (found,) = (role for role in properties(stage, "IAM::Role") if role.startswith("SchedulerRole"))
    return found


def leading_keys(rows: Sequence[str]) -> dict[str, Any]:
    """Return the condition that binds an action to rows, by the patterns of their partition keys."""
    return {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(rows)}}


@each_stage
def test_a_function_has_the_permissions_of_its_step_and_no_others(stage: str) -> None:
    """Each action has its own rows. Attributes that are immutable are denied to all, on every row."""
    for function, actions in FUNCTIONS.items():
        of_rows = {
            permission
            for action, rows in actions.items()
            for permission in allow(f"dynamodb:{action}", on=[TABLE], only_if=leading_keys(rows))
        }

        assert granted(stage, f"{function}Role") == (
            of_rows
            | allow(*KEY_USE, on=[KEY], only_if=THROUGH_DYNAMODB)
            | deny("dynamodb:UpdateItem", on=[TABLE], only_if=OF_ENTRIES)
            | allow("logs:CreateLogStream", "logs:PutLogEvents", on=[f"${{{function}Logs.Arn}}"])
            | allow(*TRACES, on=["*"])
            | MORE.get(function, set())
        ), function


@each_stage
def test_a_machine_has_the_permissions_of_its_tasks_and_no_others(stage: str) -> None:
    for machine in MACHINES:
        states = definition(stage, machine)["States"]
        functions = [
            f"${{{name}.Arn}}" for name, one in states.items() if ":lambda:invoke" in one.get("Resource", "")
        ]

        assert granted(stage, f"{machine}Role") == (
            allow("lambda:InvokeFunction", on=functions) | allow(*EVERYWHERE, on=["*"]) | CALLS[machine]
        ), machine


@each_stage
def test_the_schedule_may_invoke_the_recovery_only(stage: str) -> None:
    recovery = ["${RecoverStalled.Arn}", "${RecoverStalled.Arn}:*"]

    assert granted(stage, scheduler(stage)) == allow("lambda:InvokeFunction", on=recovery)


@each_stage
def test_there_is_no_other_role(stage: str) -> None:
    """And so no other one reads a secret, queries the index, uses a queue, or invokes the recovery."""
    expected = {f"{one}Role" for one in FUNCTIONS.keys() | MACHINES.keys()} | {scheduler(stage)}

    assert properties(stage, "IAM::Role").keys() == expected


@each_stage
def test_each_function_and_machine_has_its_own_role(stage: str) -> None:
    for function, found in properties(stage, "Lambda::Function").items():
        assert found["Role"] == f"${{{function}Role.Arn}}"
    for machine, found in properties(stage, "StepFunctions::StateMachine").items():
        assert found["RoleArn"] == f"${{{machine}Role.Arn}}"


@each_stage
def test_only_its_own_service_takes_a_role(stage: str) -> None:
    """A machine's and the schedule's service must act for this account: others have machines, too."""
    services = {
        **{f"{function}Role": ("lambda", None) for function in FUNCTIONS},
        **{f"{machine}Role": ("states", IN_THIS_ACCOUNT) for machine in MACHINES},
        scheduler(stage): ("scheduler", IN_THIS_ACCOUNT),
    }

    for role, found in properties(stage, "IAM::Role").items():
        (trust,) = found["AssumeRolePolicyDocument"]["Statement"]
        service, only_if = services[role]
        assert (trust["Effect"], trust["Action"]) == ("Allow", "sts:AssumeRole")
        assert trust["Principal"] == {"Service": f"{service}.amazonaws.com"}, role
        if only_if:
            account = only_if["StringEquals"].items()
            assert account <= trust["Condition"]["StringEquals"].items(), role


@each_stage
def test_no_resource_admits_a_caller_past_its_role(stage: str) -> None:
    """A person's permission is in their own role."""
    for kind in ("SecretsManager::ResourcePolicy", "Events::EventBusPolicy"):
        assert properties(stage, kind) == {}
    assert {one["FunctionName"] for one in properties(stage, "Lambda::Permission").values()} == {
        "${KycDecided.Arn}"
    }


@each_stage
def test_only_the_starting_functions_know_a_machine_and_each_by_its_name(stage: str) -> None:
    """A step that could start an execution would be a second way to settle. Crossed, it would reverse."""
    for function in FUNCTIONS:
        known = {
            name: value for name, value in variables(stage, function).items() if name.endswith("_MACHINE")
        }
        expected: dict[str, Any] = {"SETTLEMENT_MACHINE": STANDARD} if function in STARTING else {}
        if function == "RecoverStalled":
            expected |= {"EXPRESS_MACHINE": EXPRESS, "COMPENSATION_MACHINE": "${Compensation}"}
        assert known == expected, function


@pytest.mark.parametrize("stage", STAGES)
def test_the_index_that_recovery_may_query_is_the_one_that_it_queries(stage: str) -> None:
    (index,) = properties(stage, "DynamoDB::Table")["LedgerTable"]["GlobalSecondaryIndexes"]

    assert index["IndexName"] == keys.INDEX == INDEX
