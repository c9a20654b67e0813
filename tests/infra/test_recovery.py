"""Recovery's schedules. Permissions: test_roles.py; alarms: test_alarms.py."""

import json

from handlers.core import recover_stalled
from infra.concurrency import IN_FLIGHT_SHARDS
from infra.config import STAGES
from infra.recovery import PARTITIONS
from settlement.core.ledger import keys
from tests.infra.stack import each_stage, of_function, properties, variables


@each_stage
def test_recovery_runs_on_each_partition_each_minute_without_repeats(stage: str) -> None:
    """The next run replaces a failed one. A flexible window would delay recovery."""
    found = properties(stage, "Scheduler::Schedule").items()
    schedules = [schedule for name, schedule in found if name.startswith("Recovery")]

    asked = [json.loads(schedule["Target"]["Input"])["partition"] for schedule in schedules]
    assert sorted(asked) == sorted(recover_stalled.PARTITIONS) == sorted(PARTITIONS)
    assert IN_FLIGHT_SHARDS == keys.IN_FLIGHT_SHARDS
    for schedule in schedules:
        assert schedule["ScheduleExpression"] == "rate(1 minute)"
        assert schedule["State"] == "ENABLED"
        assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
        assert not schedule.keys() & {"StartDate", "EndDate"}
        assert schedule["Target"]["Arn"] == "${RecoverStalled.Arn}"
        assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0


@each_stage
def test_lambda_retries_no_recovery_run_and_begins_none_late(stage: str) -> None:
    """The schedule invokes asynchronously, so by default Lambda would retry a failed run."""
    assert of_function(stage, "RecoverStalled", "Lambda::EventInvokeConfig") == {
        "FunctionName": "${RecoverStalled}",
        "MaximumEventAgeInSeconds": 60,  # otherwise throttled runs would pile up for hours
        "MaximumRetryAttempts": 0,
        "Qualifier": "$LATEST",
    }


@each_stage
def test_the_runs_of_all_partitions_share_the_stages_pace(stage: str) -> None:
    pace = float(variables(stage, "RecoverStalled")["STARTS_PER_SECOND"])

    assert pace * keys.IN_FLIGHT_SHARDS == STAGES[stage].recovery_starts_per_second == 500
