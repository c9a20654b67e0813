"""Daily backups of the table in a locked vault, with copies to another account."""

from aws_cdk import Duration
from aws_cdk import aws_backup as backup
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.config import Settings
from infra.pager import Pager
from infra.table import SettlementTable
from infra.urgency import Urgency

_COMPLIANCE_AFTER = Duration.days(3)
"""The time in which a compliance lock may still be taken back: the least that AWS allows."""

_FAILED = ["FAILED", "ABORTED", "EXPIRED"]


class Backup(Construct):
    """The vault under a key of its own, the daily plan, and the notice of a backup or copy that failed.

    Point-in-time recovery is for mistakes. These backups are for the loss of the account: who owns it can
    delete the table with its recovery, and neither a locked backup nor the other account's copy.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        ledger: SettlementTable,
        pager: Pager,
        settings: Settings,
    ) -> None:
        super().__init__(scope, construct_id)
        if settings.backup_days is None:
            raise ValueError("backup_days: must be set for a stage with backups")
        kept = Duration.days(settings.backup_days)
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
        """Tell people by the next working day, as point-in-time recovery is still there."""
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
