"""The scheduled proof. Permissions: test_roles.py; alarms: test_alarms.py."""

from dataclasses import replace

import pytest
from aws_cdk import App
from aws_cdk.assertions import Match, Template

from infra.config import STAGES
from infra.settlement_stack import SettlementStack
from tests.infra.stack import each_stage, of_function, properties, variables


@each_stage
def test_the_proof_runs_each_day_and_no_run_is_repeated(stage: str) -> None:
    """Each run reads the whole table: a concurrent second one would only double the cost."""
    schedule = properties(stage, "Scheduler::Schedule")["ReconciliationProof"]

    assert STAGES[stage].reconcile_every_hours == 24
    assert schedule["ScheduleExpression"] == "rate(1 day)"
    assert schedule["State"] == "ENABLED"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert schedule["Target"]["Arn"] == "${ReconcileBooks.Arn}"
    assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0
    assert of_function(stage, "ReconcileBooks", "Lambda::EventInvokeConfig") == {
        "FunctionName": "${ReconcileBooks}",
        "MaximumEventAgeInSeconds": 900,
        "MaximumRetryAttempts": 0,
        "Qualifier": "$LATEST",
    }


@each_stage
def test_the_spool_is_where_lambda_lets_a_function_write(stage: str) -> None:
    assert variables(stage, "ReconcileBooks")["TMPDIR"] == "/tmp"


@each_stage
def test_only_the_schedule_invokes_the_proof(stage: str) -> None:
    for kind in ("Permission", "Url", "EventSourceMapping"):
        for found in properties(stage, f"Lambda::{kind}").values():
            assert "ReconcileBooks" not in str(found)


@pytest.mark.parametrize(("hours", "expression"), [(1, "rate(1 hour)"), (6, "rate(6 hours)")])
def test_the_absence_alarm_follows_a_more_frequent_proof(hours: int, expression: str) -> None:
    template = deployed(reconcile_every_hours=hours)

    template.has_resource_properties("AWS::Scheduler::Schedule", {"ScheduleExpression": expression})
    template.has_resource_properties(
        "AWS::CloudWatch::Alarm", {"MetricName": "ReconcileUnproven", "Period": hours * 3600}
    )


def test_a_stage_without_a_schedule_has_no_absence_alarm() -> None:
    template = deployed(reconcile_every_hours=None)

    template.resource_properties_count_is(
        "AWS::Scheduler::Schedule", {"ScheduleExpression": Match.string_like_regexp("hour|day")}, 0
    )
    template.resource_properties_count_is("AWS::CloudWatch::Alarm", {"MetricName": "ReconcileUnproven"}, 0)
    template.resource_properties_count_is("AWS::CloudWatch::Alarm", {"MetricName": "ReconcileFaults"}, 1)


@pytest.mark.parametrize("hours", [0, -1, 25, 168])
def test_a_period_that_no_alarm_could_watch_is_refused(hours: int) -> None:
    with pytest.raises(ValueError, match="reconcile_every_hours: must be from 1 to 24, or None"):
        replace(STAGES["prod"], reconcile_every_hours=hours)


def deployed(*, reconcile_every_hours: int | None) -> Template:
    settings = replace(STAGES["local"], reconcile_every_hours=reconcile_every_hours)
    return Template.from_stack(SettlementStack(App(), settings=settings))
