import json
from typing import Any

import pytest
from moto.events.models import EventPattern

from infra.config import STAGES
from infra.journal import SEALED
from settlement.core.model.status import TRANSITIONS, Status
from settlement.journal import lines
from tests.infra.stack import each_stage, each_stage_on_aws, of_function, properties
from tests.world.stream import is_unlawful, record

KINDS = (
    *("ACCOUNT#", "CIRCUIT", "ENTRIES#", "EVIDENCE#", "KYC_EVENT#"),
    *("ORDER#", "SETTLEMENT#", "SWEPT#", "WAITING#"),
)
NAME = "JournalBucket"


STATUSES = (None, *Status, "FORGED")


def passes(told: dict[str, Any]) -> bool:
    """Return whether a record passes a filter, by EventBridge's rules, which Lambda shares."""
    return any(EventPattern(None, one).matches_event(told) for one in SEALED)  # type: ignore[arg-type]


def changed(event: str, pk: str) -> dict[str, Any]:
    row = {"pk": {"S": pk}, "sk": {"S": "x"}, "status": {"S": "PROCESSING"}}
    return record(None if event == "INSERT" else row, None if event == "REMOVE" else row, at=0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_filters_pass_sealed_rows_and_changes_of_immutable_ones(kind: str) -> None:
    """Settlements and accounts change lawfully and often, so the filters drop their changes."""
    passing = {event for event in ("INSERT", "MODIFY", "REMOVE") if passes(changed(event, f"{kind}x"))}

    wanted = {"INSERT", "REMOVE"} if kind in lines.KINDS else set()
    assert passing == (wanted | {"MODIFY"} if kind in lines.IMMUTABLE else wanted)


@pytest.mark.parametrize("new", STATUSES)
@pytest.mark.parametrize("old", STATUSES)
def test_the_filters_pass_exactly_the_unlawful_changes_of_status(old: str | None, new: str | None) -> None:
    before, after = (
        {"pk": {"S": "SETTLEMENT#x"}, "sk": {"S": "SETTLEMENT"}, **({"status": {"S": one}} if one else {})}
        for one in (old, new)
    )

    passing = passes(record(before, after, at=0))

    assert passing is is_unlawful(old, new)
    if old in TRANSITIONS and (old == new or new in TRANSITIONS[Status(old)]):
        assert not passing
    if new == Status.PROCESSING and old not in (None, new):
        assert passing
    assert passes(record(before, before | {"status": {"N": "1"}}, at=0))


def test_the_filters_ignore_a_change_of_an_accounts_status() -> None:
    frozen = {"pk": {"S": "ACCOUNT#x"}, "sk": {"S": "BALANCE"}, "status": {"S": "FROZEN"}}

    assert not passes(record(frozen, {**frozen, "status": {"S": "PROCESSING"}}, at=0))


@each_stage
def test_the_journal_stream_sends_large_batches_and_retries_twelve_hours(stage: str) -> None:
    """The stream keeps records for a day, so a person has half a day to act."""
    found = of_function(stage, "SealJournal", "Lambda::EventSourceMapping")
    filters: list[Any] = [json.loads(one["Pattern"]) for one in found.pop("FilterCriteria")["Filters"]]

    assert filters == list(SEALED)
    assert found == {
        "BatchSize": 10_000,
        "BisectBatchOnFunctionError": True,
        "DestinationConfig": {"OnFailure": {"Destination": "${JournalGivenUp.Arn}"}},
        "EventSourceArn": "${LedgerTable.StreamArn}",
        "FunctionName": "${SealJournal}",
        "MaximumBatchingWindowInSeconds": 1 if STAGES[stage].is_embedded else 120,
        "MaximumRecordAgeInSeconds": 12 * 3600,
        "ParallelizationFactor": 1,
        "StartingPosition": "TRIM_HORIZON",
    }


@each_stage
def test_the_bucket_is_versioned_private_and_encrypted_by_its_key(stage: str) -> None:
    found = properties(stage, "S3::Bucket")["JournalBucket"]

    (rule,) = found["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule == {
        "BucketKeyEnabled": True,
        "ServerSideEncryptionByDefault": {"KMSMasterKeyID": "${JournalKey.Arn}", "SSEAlgorithm": "aws:kms"},
    }
    assert found["VersioningConfiguration"] == {"Status": "Enabled"}
    assert found["PublicAccessBlockConfiguration"] == dict.fromkeys(
        ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"), True
    )
    assert "BucketName" not in found
    assert "LifecycleConfiguration" not in found, "no object expires"


@pytest.mark.parametrize(("stage", "days"), [("dev", 400), ("prod", 3_653)])
def test_on_aws_each_object_is_locked(stage: str, days: int) -> None:
    found = properties(stage, "S3::Bucket")["JournalBucket"]

    assert found["ObjectLockEnabled"] is True
    assert found["ObjectLockConfiguration"] == {
        "ObjectLockEnabled": "Enabled",
        "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": days}},
    }


@each_stage_on_aws
def test_on_aws_the_journal_bucket_forbids_overwriting_and_deleting(stage: str) -> None:
    (policy,) = properties(stage, "S3::BucketPolicy").values()
    statements = policy["PolicyDocument"]["Statement"]
    objects = f"${{{NAME}.Arn}}/*"

    assert {one["Effect"] for one in statements} == {"Deny"}
    assert {
        "Action": "s3:PutObject",
        "Condition": {"Null": {"s3:if-none-match": "true"}},
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Resource": objects,
    } in statements
    assert {
        "Action": ["s3:BypassGovernanceRetention", "s3:DeleteObject", "s3:DeleteObjectVersion"],
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Resource": objects,
    } in statements
    assert any(one.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}} for one in statements)


@each_stage
def test_the_seals_are_made_by_a_schedule(stage: str) -> None:
    found = properties(stage, "Scheduler::Schedule")
    (schedule,) = (one for name, one in found.items() if name.startswith("Journal"))

    assert schedule["ScheduleExpression"] == (
        "rate(1 minute)" if STAGES[stage].is_embedded else "rate(15 minutes)"
    )
    assert schedule["Target"]["Arn"] == "${SealJournal.Arn}"
    assert json.loads(schedule["Target"]["Input"]) == {}
    assert schedule["State"] == "ENABLED"
