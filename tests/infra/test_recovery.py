"""The schedule of recovery. Its permissions are in test_roles.py, its alarms in test_alarms.py."""

from tests.infra.stack import each_stage, only, properties


@each_stage
def test_recovery_runs_each_minute_and_no_run_is_repeated(stage: str) -> None:
    """The next run makes up for a failed one. A flexible window would delay recovery by its length."""
    schedule = only(stage, "Scheduler::Schedule")

    assert schedule["ScheduleExpression"] == "rate(1 minute)"
    assert schedule["State"] == "ENABLED"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    assert not schedule.keys() & {"StartDate", "EndDate"}
    assert schedule["Target"]["Arn"] == "${RecoverStalled.Arn}"
    assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0


@each_stage
def test_lambda_repeats_no_run_either_and_begins_none_late(stage: str) -> None:
    """The schedule invokes asynchronously: by default Lambda would retry a failed run."""
    assert only(stage, "Lambda::EventInvokeConfig") == {
        "FunctionName": "${RecoverStalled}",
        "MaximumEventAgeInSeconds": 60,  # otherwise throttled runs would pile up for hours
        "MaximumRetryAttempts": 0,
        "Qualifier": "$LATEST",
    }


@each_stage
def test_only_the_schedule_invokes_recovery(stage: str) -> None:
    """A person's permission is in their own role; the function's policy admits no principal."""
    for kind in ("Permission", "Url", "EventSourceMapping"):
        for found in properties(stage, f"Lambda::{kind}").values():
            assert "RecoverStalled" not in str(found)
