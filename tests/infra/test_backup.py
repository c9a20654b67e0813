from typing import Any

import pytest

from tests.infra.stack import allow, changed, permissions
from tests.infra.test_options import OPTIONS, VAULT


def resources(**changes: Any) -> dict[str, Any]:
    return changed(**OPTIONS["Backup"].settings | changes)


def only(kind: str, **changes: Any) -> Any:
    (found,) = (one for one in resources(**changes).values() if one["Type"] == f"AWS::Backup::{kind}")
    return found


def test_the_backup_vault_with_its_key_outlives_the_stack() -> None:
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
def test_the_backup_vaults_lock_is_as_configured(lock: str, wanted: Any) -> None:
    assert only("BackupVault", backup_lock=lock)["Properties"]["LockConfiguration"] == wanted


def test_only_the_table_is_backed_up_daily_and_copied_elsewhere() -> None:
    """A copy with a shorter retention would expire before the backup."""
    (rule,) = only("BackupPlan")["Properties"]["BackupPlan"]["BackupPlanRule"]
    selection = only("BackupSelection")["Properties"]["BackupSelection"]
    kept = {"DeleteAfterDays": 35}

    assert (rule["ScheduleExpression"], rule["Lifecycle"]) == ("cron(0 2 * * ? *)", kept)
    assert rule["CopyActions"] == [{"DestinationBackupVaultArn": VAULT, "Lifecycle": kept}]
    assert selection["Resources"] == ["${LedgerTable.Arn}"]


def test_without_a_second_account_no_backup_is_copied() -> None:
    (rule,) = only("BackupPlan", backup_copy_to=None)["Properties"]["BackupPlan"]["BackupPlanRule"]

    assert rule["CopyActions"] == []


def test_a_failed_backup_or_copy_notifies_the_morning_topic() -> None:
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
