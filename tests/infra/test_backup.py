import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Validations
from aws_cdk.assertions import Template
from cdk_nag import AwsSolutionsChecks, PCIDSS321Checks

from infra.config import STAGES, settings_of
from infra.settlement_stack import SettlementStack
from tests.infra.stack import allow, context, each_stage, permissions, readable, template
from tests.infra.stack import name as name_of
from tests.world.templates import PROJECT

VAULT = "arn:aws:backup:eu-central-1:123456789012:backup-vault:safe"


def built(lock: str, copy_to: str | None, directory: str | None = None) -> tuple[App, SettlementStack]:
    changed = {"backup_days": 35, "backup_lock": lock, "backup_copy_to": copy_to}
    settings = replace(settings_of(context("prod")), **changed)  # type: ignore[arg-type]
    flags = json.loads((PROJECT / "cdk.json").read_text())["context"]
    app = App(context=flags | {"stage": "prod"}, outdir=directory)
    return app, SettlementStack(app, settings=settings)


@cache
def resources(lock: str = "governance", copy_to: str | None = VAULT) -> dict[str, Any]:
    found = Template.from_stack(built(lock, copy_to)[1]).to_json()["Resources"]
    return {name_of(one): readable(resource) for one, resource in found.items()}


def only(kind: str, **changed: Any) -> Any:
    (found,) = (one for one in resources(**changed).values() if one["Type"] == f"AWS::Backup::{kind}")
    return found


@each_stage
def test_no_stage_has_a_vault_unless_its_operator_wants_one(stage: str) -> None:
    assert STAGES[stage].backup_days is None
    assert not [one for one in template(stage).values() if one["Type"].startswith("AWS::Backup::")]


def test_it_changes_nothing_else_but_the_pagers_topic_and_key() -> None:
    before, after = template("prod"), resources()

    changed = {one for one in before if after.get(one) != before[one]}

    assert changed <= {"PagerKey", "PagerMorningTopicPolicy"}
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
    assert only("BackupVault", lock=lock)["Properties"]["LockConfiguration"] == wanted


def test_only_the_table_is_backed_up_daily_and_copied_elsewhere() -> None:
    """A copy kept for less time than the backup would be the first to go."""
    (rule,) = only("BackupPlan")["Properties"]["BackupPlan"]["BackupPlanRule"]
    selection = only("BackupSelection")["Properties"]["BackupSelection"]
    kept = {"DeleteAfterDays": 35}

    assert (rule["ScheduleExpression"], rule["Lifecycle"]) == ("cron(0 2 * * ? *)", kept)
    assert rule["CopyActions"] == [{"DestinationBackupVaultArn": VAULT, "Lifecycle": kept}]
    assert selection["Resources"] == ["${LedgerTable.Arn}"]


def test_without_another_account_there_is_no_copy() -> None:
    (rule,) = only("BackupPlan", copy_to=None)["Properties"]["BackupPlan"]["BackupPlanRule"]

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
    app, stack = built("governance", VAULT, str(tmp_path))
    Validations.of(app).add_plugins(pack(app))

    with pytest.raises(RuntimeError, match=r"^ValidationFailed: "):
        app.synth()

    (report,) = json.loads((tmp_path / "validation-report.json").read_text())["pluginReports"]
    found = {
        re.sub(r"<(\w+?)[0-9A-F]{8}([.>])", r"<\1\2", violation["ruleName"])
        for violation in report["violations"]
        for construct in violation["violatingConstructs"]
        if construct["constructPath"].startswith(f"{stack.node.path}/Backup/")
    }
    assert found == (set(EXPLAINED) if pack is AwsSolutionsChecks else set())
