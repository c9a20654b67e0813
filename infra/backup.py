import re
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_backup as backup
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from .core import Added, Core, Room
from .pager import Pager
from .settings import LOCK_DAYS_MAX, CoreSettings
from .urgency import Urgency

_COMPLIANCE_AFTER = Duration.days(3)
"""Time in which a compliance lock can be removed: AWS's minimum."""

_DAYS_MIN = 7
_VAULT = re.compile(r"arn:aws[a-z-]*:backup:[a-z0-9-]+:\d{12}:backup-vault:[A-Za-z0-9_-]{2,50}")
_FAILED = ["FAILED", "ABORTED", "EXPIRED"]


@dataclass(frozen=True, kw_only=True)
class BackupSettings(CoreSettings):
    """Daily backups of the table: see docs/operating/restore.md."""

    backup_days: int | None = None
    backup_lock: str = "governance"
    backup_copy_to: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        days, copy_to = self.backup_days, self.backup_copy_to
        if self.backup_lock not in ("governance", "compliance"):
            raise ValueError("backup_lock: must be governance or compliance")
        if copy_to is not None and not (isinstance(copy_to, str) and _VAULT.fullmatch(copy_to)):
            raise ValueError("backup_copy_to: must be the ARN of a backup vault")
        if days is None:
            if copy_to is not None:
                raise ValueError("backup_copy_to: must be left out without backup_days")
            return
        if type(days) is not int or not _DAYS_MIN <= days <= LOCK_DAYS_MAX:
            raise ValueError(f"backup_days: must be from {_DAYS_MIN} to {LOCK_DAYS_MAX}, or None")
        if self.is_embedded or not self.keeps_data:
            raise ValueError("backup_days: must be None on a stage that keeps no data")


class Backup(Construct):
    """The locked vault, the daily plan and failure notices.

    Even the account's owner cannot delete a locked backup, or its copy in another account.
    """

    def __init__(self, core: Core, days: int, settings: BackupSettings) -> None:
        super().__init__(core.scope, "Backup")
        ledger, pager = core.ledger, core.pager
        kept = Duration.days(days)
        removal_policy = settings.removal_policy
        key = kms.Key(self, "Key", enable_key_rotation=True, removal_policy=removal_policy)
        is_compliance = settings.backup_lock == "compliance"
        vault = backup.BackupVault(
            self,
            "Vault",
            encryption_key=key,
            removal_policy=removal_policy,
            lock_configuration=backup.LockConfiguration(
                min_retention=kept, changeable_for=_COMPLIANCE_AFTER if is_compliance else None
            ),
        )
        plan = backup.BackupPlan(self, "Plan", backup_vault=vault)
        plan.add_rule(
            backup.BackupPlanRule(
                rule_name="Daily",
                schedule_expression=events.Schedule.cron(hour="2", minute="0"),
                delete_after=kept,
                copy_actions=self._copies(settings.backup_copy_to, kept),
            )
        )
        table = ledger.table.table_arn
        plan.add_selection("Table", resources=[backup.BackupResource.from_arn(table)])
        self._tell_of_failures(table, pager)

    def _copies(self, vault_arn: str | None, kept: Duration) -> list[backup.BackupPlanCopyActionProps]:
        if vault_arn is None:
            return []
        other = backup.BackupVault.from_backup_vault_arn(self, "Other", vault_arn)
        return [backup.BackupPlanCopyActionProps(destination_backup_vault=other, delete_after=kept)]

    def _tell_of_failures(self, table_arn: str, pager: Pager) -> None:
        """Report a failed backup. It is not urgent, because point-in-time recovery still works."""
        topic = pager.topics[Urgency.MORNING]
        pager.key.grant(iam.ServicePrincipal("events.amazonaws.com"), "kms:Decrypt", "kms:GenerateDataKey*")
        state = events.EventField.from_path("$.detail.state")
        kind = events.EventField.from_path("$.detail-type")
        events.Rule(
            self,
            "Failed",
            event_pattern=events.EventPattern(
                source=["aws.backup"],
                detail_type=["Backup Job State Change", "Copy Job State Change"],
                detail={"state": _FAILED, "resourceArn": [table_arn]},
            ),
            targets=[
                targets.SnsTopic(
                    topic,
                    message=events.RuleTargetInput.from_text(
                        f"A backup of the settlement table has failed ({kind}: {state})."
                        f" Table: {table_arn}. Look with: aws backup list-backup-jobs --by-resource-arn"
                        f" {table_arn}. See docs/operating/restore.md."
                    ),
                )
            ],
        )


def build(core: Core, settings: BackupSettings) -> Added:
    if settings.backup_days is not None:
        Backup(core, settings.backup_days, settings)
    return Added()


ROOM = Room(build=build)
