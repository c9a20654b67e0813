from pathlib import Path
from typing import Any

import pytest
from cdk_nag import AwsSolutionsChecks, PCIDSS321Checks

from infra.bank import OPTIONAL
from infra.config import STAGES, Settings
from tests.infra.alarms import BANK_ALARMS, STACK, counted, listed
from tests.infra.stack import (
    ON_AWS,
    Permission,
    allow,
    changed,
    each_stage,
    findings,
    permissions,
    template,
)

each_deployed = pytest.mark.parametrize("stage", ON_AWS)
TABLE, BUCKET, JOURNAL = "${LedgerTable.Arn}", "${BankStatements.Arn}", "${JournalBucket.Arn}"


def resources(stage: str = "prod", every: int = 60) -> dict[str, Any]:
    return changed(stage, statements_every_minutes=every)


def properties(name: str, **of: Any) -> Any:
    return resources(**of)[name]["Properties"]


@each_stage
def test_no_stage_reads_statements_unless_its_operator_wants_it(stage: str) -> None:
    assert STAGES[stage].statements_every_minutes is None
    assert not template(stage).keys() & {*OPTIONAL, "BankStatements"}


@pytest.mark.parametrize("minutes", [0, 14, 1_441, True, "60"])
def test_a_wrong_interval_is_refused(minutes: Any) -> None:
    with pytest.raises(ValueError, match=r"^statements_every_minutes: "):
        Settings(stage="mine", currencies=("EUR",), statements_every_minutes=minutes)


@pytest.mark.parametrize("pattern", ["ACC-(", "ACC-(?P<customer>x)", "ACC-x"])
def test_a_pattern_that_names_no_account_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"^statement_accounts: must "):
        Settings(stage="mine", currencies=("EUR",), statement_accounts=pattern)


@each_deployed
def test_it_changes_nothing_else(stage: str) -> None:
    before, after = template(stage), resources(stage)

    others = {"DashboardBoard", "PagerDeliveryFailed"}
    assert {one for one in before if after.get(one) != before[one]} <= others
    added = {one for one in after.keys() - before.keys() if not one.startswith(("Bank", "ReadStatements"))}
    assert {one for one in added if not one.startswith("SchedulerRole")} == {
        f"Pager{alarm}" for alarm in BANK_ALARMS
    }


def test_the_bucket_is_closed_and_keeps_versions() -> None:
    bucket = properties("BankStatements")

    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert resources()["BankStatements"]["DeletionPolicy"] == "RetainExceptOnCreate"


def needed() -> set[Permission]:
    def rows(*patterns: str, alone: bool = True) -> dict[str, Any]:
        only = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(patterns)}}
        enclosed = {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}
        return only if alone else only | {"ForAnyValue:StringEquals": enclosed}

    via_s3 = {"StringEquals": {"kms:ViaService": "s3.${AWS::Region}.amazonaws.com"}}
    of_table = {"StringEquals": {"kms:ViaService": "dynamodb.${AWS::Region}.amazonaws.com"}}
    incoming = {"StringEquals": {"s3:prefix": "incoming/"}}
    keys = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
    said, all_rows = ("BANK_LINE#*", "BANK_FILE#*"), ("BANK_LINE#*", "BANKED#*", "BANK_FILE#*", "ORDER#*")
    return {
        *allow("dynamodb:BatchGetItem", on=[TABLE], only_if=rows(*all_rows)),
        *allow("dynamodb:Query", on=[TABLE], only_if=rows("BANK_FILE#*")),
        *allow("dynamodb:PutItem", on=[TABLE], only_if=rows(*said)),
        *allow("dynamodb:PutItem", on=[TABLE], only_if=rows("BANK_LINE#*", "BANKED#*", alone=False)),
        *allow("dynamodb:Query", on=[f"{TABLE}/index/gsi1"]),
        *allow(*keys, on=["${LedgerKey.Arn}"], only_if=of_table),
        *allow("s3:ListBucketVersions", on=[BUCKET], only_if=incoming),
        *allow("s3:ListBucket", on=[BUCKET]),
        *allow("s3:DeleteObjectVersion", "s3:GetObjectVersion", on=[f"{BUCKET}/incoming/*"]),
        *allow("s3:PutObject", on=[f"{JOURNAL}/statements/*"]),
        *allow("kms:Decrypt", "kms:GenerateDataKey", on=["${JournalKey.Arn}"], only_if=via_s3),
        *allow("logs:CreateLogStream", "logs:PutLogEvents", on=["${ReadStatementsLogs.Arn}"]),
    }


@each_deployed
def test_the_function_records_what_it_reads_and_books_nothing(stage: str) -> None:
    documents = [
        one["Properties"]["PolicyDocument"]
        for one in resources(stage).values()
        if one["Type"] == "AWS::IAM::Policy" and "${ReadStatementsRole}" in one["Properties"]["Roles"]
    ]

    found = {one for document in documents for one in permissions(document)}
    assert {one for one in found if "Deny" not in str(one)} == needed()


@each_deployed
@pytest.mark.parametrize("every", [15, 60])
def test_schedules_call_it_and_no_failed_run_is_repeated(stage: str, every: int) -> None:
    reads, matches = (properties(f"Bank{name}", stage=stage, every=every) for name in ("Readings", "Matches"))

    assert "minute" in reads["ScheduleExpression"] or "hour" in reads["ScheduleExpression"]
    assert matches["ScheduleExpression"] == "rate(1 day)"
    assert (reads["Target"]["Input"], matches["Target"]["Input"]) == ("{}", '{"match":true}')
    for one in (reads, matches):
        assert one["Target"]["Arn"] == "${ReadStatements.Arn}"
        assert one["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0


@each_deployed
@pytest.mark.parametrize("name", BANK_ALARMS)
def test_an_alarm_tells_of_statements(stage: str, name: str) -> None:
    found, alarm = properties(f"Pager{name}", stage=stage), BANK_ALARMS[name]

    told = {one["Name"]: one["Value"] for one in found["Dimensions"]}
    of = STAGES[stage].stack_name if alarm.dimension[1] == STACK else alarm.dimension[1]
    assert told == {alarm.dimension[0]: of}
    assert (found["MetricName"], found["Statistic"]) == (alarm.metric, alarm.statistic)
    assert (found["Threshold"], found["Period"]) == (alarm.threshold, alarm.seconds)
    assert found["TreatMissingData"] == alarm.missing
    assert found["AlarmActions"] == [f"${{Pager{listed()[name]}}}"]
    assert alarm.metric in counted() | {"Errors"}


NO_LOG = "Who puts a file is in CloudTrail, if data events are on; the journal's bucket keeps each file."
EXPLAINED: dict[type, dict[str, str]] = {
    AwsSolutionsChecks: {"AwsSolutions-S1": NO_LOG},
    PCIDSS321Checks: {
        "PCI.DSS.321-S3BucketLoggingEnabled": NO_LOG,
        "PCI.DSS.321-S3BucketReplicationEnabled": "A file leaves the bucket once it is read.",
        "PCI.DSS.321-S3DefaultEncryptionKMS": "Whoever puts a file needs no key: a bank's own service may.",
    },
}


@pytest.mark.parametrize("pack", [AwsSolutionsChecks, PCIDSS321Checks])
def test_every_finding_is_explained(pack: Any, tmp_path: Path) -> None:
    found = findings("prod", pack, tmp_path, statements_every_minutes=60)

    assert {rule for rule, path in found if path.startswith("Bank/")} == set(EXPLAINED[pack])
