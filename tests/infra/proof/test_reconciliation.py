import pytest

from infra.config import STAGES
from tests.infra.stack import changed, each_stage, of_function, properties, template, variables


@each_stage
def test_the_proof_runs_each_day_and_no_run_is_repeated(stage: str) -> None:
    """Each run reads the whole table, so a concurrent second run would only double the cost."""
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
def test_the_proofs_temporary_files_go_to_a_writable_folder(stage: str) -> None:
    assert variables(stage, "ReconcileBooks")["TMPDIR"] == "/tmp"


@pytest.mark.parametrize(("hours", "expression"), [(1, "rate(1 hour)"), (6, "rate(6 hours)")])
def test_the_alarm_on_missing_proofs_follows_the_proofs_interval(hours: int, expression: str) -> None:
    found = changed("local", reconcile_every_hours=hours)

    assert found["ReconciliationProof"]["Properties"]["ScheduleExpression"] == expression
    assert found["PagerReconcileUnproven"]["Properties"]["Period"] == hours * 3600


def test_without_scheduled_proofs_there_is_no_missing_proof_alarm() -> None:
    found = changed("local", reconcile_every_hours=None)

    assert template("local").keys() - found.keys() >= {"ReconciliationProof", "PagerReconcileUnproven"}
    assert "PagerReconcileFaults" in found
