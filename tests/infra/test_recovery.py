"""The recovery of stalled settlements: its schedule and its permissions."""

from typing import Any

import pytest

from infra.config import STAGES
from settlement.ledger import keys
from tests.infra.iam import attribute, statements
from tests.infra.machines import each_stage, executions, function_id, logical_id
from tests.infra.test_functions import FUNCTIONS, properties
from tests.infra.test_grants import about, granted
from tests.support import templates

STARTS = {"states:StartExecution"}


def schedule(stage: str) -> Any:
    (found,) = templates.resources("AWS::Scheduler::Schedule", stage).values()
    return found["Properties"]


def scheduler_role(stage: str) -> str:
    return attribute(schedule(stage)["Target"]["RoleArn"])


def index(stage: str) -> str:
    """Return the ARN of the table's one index."""
    ((table, resource),) = templates.resources("AWS::DynamoDB::Table", stage).items()
    (found,) = resource["Properties"]["GlobalSecondaryIndexes"]
    return f"${{{table}.Arn}}/index/{found['IndexName']}"


@each_stage
def test_recovery_runs_each_minute(stage: str) -> None:
    """Without a flexible window: that would delay recovery by its length."""
    found = schedule(stage)

    assert found["ScheduleExpression"] == "rate(1 minute)"
    assert found["State"] == "ENABLED"
    assert found["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert not found.keys() & {"StartDate", "EndDate"}


@each_stage
def test_the_schedule_invokes_the_recovery_and_repeats_no_run(stage: str) -> None:
    """The next run makes up for a failed one; a retry would only be one run too many."""
    target = schedule(stage)["Target"]

    assert attribute(target["Arn"]) == function_id(stage, "RecoverStalled")
    assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0


@each_stage
def test_lambda_repeats_no_run_either_and_begins_none_late(stage: str) -> None:
    """The schedule invokes asynchronously: by default Lambda would retry a failed run."""
    (found,) = templates.resources("AWS::Lambda::EventInvokeConfig", stage).values()

    assert found["Properties"] == {
        "FunctionName": {"Ref": function_id(stage, "RecoverStalled")},
        "MaximumEventAgeInSeconds": 60,  # otherwise throttled runs would pile up for hours
        "MaximumRetryAttempts": 0,
        "Qualifier": "$LATEST",
    }


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_a_run_ends_before_the_next_one_begins(stage: str) -> None:
    """The embedded AWS starts functions slowly and lets them run longer; overlap does no harm there."""
    assert properties(stage, "RecoverStalled")["Timeout"] < 60


@each_stage
def test_the_schedule_may_invoke_the_recovery_only(stage: str) -> None:
    recovery = function_id(stage, "RecoverStalled")

    (allowed,) = statements(scheduler_role(stage), stage)

    assert allowed.effect == "Allow"
    assert allowed.actions == {"lambda:InvokeFunction"}
    assert set(allowed.resources) == {recovery, f"${{{recovery}.Arn}}:*"}


@each_stage
def test_only_the_scheduler_of_this_account_takes_that_role(stage: str) -> None:
    role = templates.resources("AWS::IAM::Role", stage)[scheduler_role(stage)]
    (trust,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]

    assert (trust["Effect"], trust["Action"]) == ("Allow", "sts:AssumeRole")
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trust["Condition"]["StringEquals"]["aws:SourceAccount"] == {"Ref": "AWS::AccountId"}


@each_stage
def test_recovery_may_query_the_index_and_read_rows_of_settlements(stage: str) -> None:
    """The index is a hint; only the row has the settlement's state, and whether it is due."""
    (table,) = templates.resources("AWS::DynamoDB::Table", stage)

    allowed = about("dynamodb", granted(stage, "RecoverStalled"))

    assert {one.resources: one.actions for one in allowed} == {
        (table,): {"dynamodb:GetItem", "dynamodb:UpdateItem"},
        (index(stage),): {"dynamodb:Query"},
    }
    assert {one.resources: one.conditions for one in allowed} == {
        (table,): {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["SETTLEMENT#*"]}},
        (index(stage),): {},
    }


def test_the_index_that_it_may_query_is_the_one_that_it_queries() -> None:
    for stage in STAGES:
        assert index(stage).endswith(f"/index/{keys.INDEX}")


@each_stage
def test_no_other_role_may_query_the_index(stage: str) -> None:
    reading = {
        role
        for role in templates.resources("AWS::IAM::Role", stage)
        for one in about("dynamodb", statements(role, stage))
        if any("index" in resource or "*" in resource for resource in one.resources)
        or one.actions & {"dynamodb:Query", "dynamodb:Scan", "dynamodb:*"}
    }

    assert reading == {attribute(properties(stage, "RecoverStalled")["Role"])}


@each_stage
def test_recovery_may_start_the_standard_machines_but_not_the_express_one(stage: str) -> None:
    """Express starts a second execution under the same name without an error."""
    machines = {logical_id(stage, name) for name in ("Compensation", "SettlementStandard")}

    (allowed,) = (one for one in about("states", granted(stage, "RecoverStalled")) if STARTS & one.actions)

    assert allowed.actions == STARTS
    assert set(allowed.resources) == machines


@each_stage
def test_recovery_may_describe_compensations_and_stop_none(stage: str) -> None:
    (allowed,) = (
        one for one in about("states", granted(stage, "RecoverStalled")) if not STARTS & one.actions
    )

    assert allowed.actions == {"states:DescribeExecution"}
    assert allowed.resources == (executions(stage, "Compensation"),)


@each_stage
def test_recovery_gets_each_machine_by_its_own_name(stage: str) -> None:
    """Crossed, a settlement that should resume would be reversed."""
    variables = properties(stage, "RecoverStalled")["Environment"]["Variables"]

    assert variables["COMPENSATION_MACHINE"] == {"Ref": logical_id(stage, "Compensation")}
    assert variables["SETTLEMENT_MACHINE"] == {"Ref": logical_id(stage, "SettlementStandard")}


@each_stage
def test_only_the_schedule_may_invoke_recovery(stage: str) -> None:
    """A person's permission is in their own role; the function's policy admits no principal."""
    recovery = function_id(stage, "RecoverStalled")
    invoking = {
        role
        for role in templates.resources("AWS::IAM::Role", stage)
        for one in about("lambda", statements(role, stage))
        if any(resource == "*" or recovery in resource for resource in one.resources)
    }

    assert invoking == {scheduler_role(stage)}
    for kind in ("Permission", "Url", "EventSourceMapping"):
        for found in templates.resources(f"AWS::Lambda::{kind}", stage).values():
            assert recovery not in str(found["Properties"])


@each_stage
def test_only_the_triggered_functions_start_a_machine(stage: str) -> None:
    """A step that could start an execution would be a second way to settle."""
    starting = {function for function in FUNCTIONS if about("states", granted(stage, function))}
    informed = {
        function
        for function in FUNCTIONS
        if any(name.endswith("_MACHINE") for name in properties(stage, function)["Environment"]["Variables"])
    }

    assert starting == informed == {"KycDecided", "RecoverStalled", "StartSettlements"}
