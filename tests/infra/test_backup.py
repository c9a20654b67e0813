from pathlib import Path
from typing import Any

import pytest
from cdk_nag import AwsSolutionsChecks, PCIDSS321Checks

from infra.config import STAGES
from tests.infra.stack import allow, changed, each_stage, findings, permissions, template

VAULT = "arn:aws:backup:eu-central-1:123456789012:backup-vault:safe"


BACKUPS = {"backup_days": 35, "backup_copy_to": VAULT}


def resources(**changes: Any) -> dict[str, Any]:
    return changed(**BACKUPS | changes)


def only(kind: str, **changes: Any) -> Any:
    (found,) = (one for one in resources(**changes).values() if one["Type"] == f"AWS::Backup::{kind}")
    return found


@each_stage
def test_no_stage_has_a_vault_unless_its_operator_wants_one(stage: str) -> None:
    assert STAGES[stage].backup_days is None
    assert not [one for one in template(stage).values() if one["Type"].startswith("AWS::Backup::")]


def test_it_changes_nothing_else_but_the_pagers_topic_and_key() -> None:
    before, after = template("prod"), resources()

    changed_ones = {one for one in before if after.get(one) != before[one]}
    assert changed_ones <= {"PagerKey", "PagerMorningTopicPolicy"}
    assert {one for one in after.keys() - before.keys() if not one.startswith("Backup")} == set()


def test_the_vault_has_its_own_key_and_outlives_the_stack() -> None:
    vault, key = only("BackupVault"), resources()["BackupKey"]

    assert vault["Properties"]["EncryptionKeyArn"] == "${BackupKey.Arn}"
    assert key["Properties"]["EnableKeyRotation"] is True
    for one in (vault, key):
        assert one["DeletionPolicy"] == "RetainExceptOnCreate"


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("governance", {"MinRetentionDays": 35}),
        ("compliance", {"MinRetentionDays": 35, "ChangeableForDays": 3}),
    ],
)
def test_an_administrator_or_no_one_may_lift_the_lock(lock: str, wanted: Any) -> None:
    assert only("BackupVault", backup_lock=lock)["Properties"]["LockConfiguration"] == wanted


def test_only_the_table_is_backed_up_daily_and_copied_elsewhere() -> None:
    """A copy kept for less time than the backup would be the first to go."""
    (rule,) = only("BackupPlan")["Properties"]["BackupPlan"]["BackupPlanRule"]
    selection = only("BackupSelection")["Properties"]["BackupSelection"]
    kept = {"DeleteAfterDays": 35}

    assert (rule["ScheduleExpression"], rule["Lifecycle"]) == ("cron(0 2 * * ? *)", kept)
    assert rule["CopyActions"] == [{"DestinationBackupVaultArn": VAULT, "Lifecycle": kept}]
    assert selection["Resources"] == ["${LedgerTable.Arn}"]


def test_without_another_account_there_is_no_copy() -> None:
    (rule,) = only("BackupPlan", backup_copy_to=None)["Properties"]["BackupPlan"]["BackupPlanRule"]

    assert rule["CopyActions"] == []


def test_a_failed_backup_or_copy_is_told_by_the_morning() -> None:
    rule = resources()["BackupFailed"]["Properties"]
    (target,) = rule["Targets"]
    topic, key = (resources()[one]["Properties"] for one in ("PagerMorningTopicPolicy", "PagerKey"))

    assert rule["EventPattern"]["detail"] == {
        "state": ["FAILED", "ABORTED", "EXPIRED"],
        "resourceArn": ["${LedgerTable.Arn}"],
    }
    assert target["Arn"] == "${PagerMorningTopic}"
    may_publish = allow("sns:Publish", on=["${PagerMorningTopic}"], by="events.amazonaws.com")
    may_encrypt = allow("kms:Decrypt", "kms:GenerateDataKey*", on=["*"], by="events.amazonaws.com")
    assert may_publish <= set(permissions(topic["PolicyDocument"]))
    assert may_encrypt <= set(permissions(key["KeyPolicy"]))


EXPLAINED = {
    "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
    "AWSBackupServiceRolePolicyForBackup]": "AWS keeps this policy in step with what its backups need.",
}


@pytest.mark.parametrize("pack", [AwsSolutionsChecks, PCIDSS321Checks])
def test_every_finding_in_the_backups_is_explained(pack: Any, tmp_path: Path) -> None:
    found = findings("prod", pack, tmp_path, **BACKUPS)

    assert {rule for rule, path in found if path.startswith("Backup/")} == (
        set(EXPLAINED) if pack is AwsSolutionsChecks else set()
    )
