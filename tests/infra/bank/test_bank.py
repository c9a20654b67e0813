from typing import Any

import pytest

from tests.infra.stack import Permission, allow, changed, each_stage_on_aws, granted_in

TABLE, BUCKET, JOURNAL = "${LedgerTable.Arn}", "${BankStatements.Arn}", "${JournalBucket.Arn}"


def resources(stage: str = "prod", every: int = 60) -> dict[str, Any]:
    return changed(stage, statements_every_minutes=every)


def properties(name: str, **of: Any) -> Any:
    return resources(**of)[name]["Properties"]


def test_the_bank_bucket_is_private_and_keeps_versions() -> None:
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


@each_stage_on_aws
def test_the_statement_functions_role_records_lines_but_books_nothing(stage: str) -> None:
    found = granted_in(resources(stage), "ReadStatementsRole")

    assert {one for one in found if "Deny" not in str(one)} == needed()


@each_stage_on_aws
@pytest.mark.parametrize("every", [15, 60])
def test_schedules_call_the_statement_function_without_retries(stage: str, every: int) -> None:
    reads, matches = (properties(f"Bank{name}", stage=stage, every=every) for name in ("Readings", "Matches"))

    assert "minute" in reads["ScheduleExpression"] or "hour" in reads["ScheduleExpression"]
    assert matches["ScheduleExpression"] == "rate(1 day)"
    assert (reads["Target"]["Input"], matches["Target"]["Input"]) == ("{}", '{"match":true}')
    for one in (reads, matches):
        assert one["Target"]["Arn"] == "${ReadStatements.Arn}"
        assert one["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0
