from dataclasses import dataclass

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from constructs import Construct

from .core import Added, Core, Room
from .layouts import MIGRATIONS
from .settings import CoreSettings
from .table import SettlementTable

_KEY = ("pk", "sk")


@dataclass(frozen=True, kw_only=True)
class MigrationSettings(CoreSettings):
    """See docs/operating/migrating.md."""

    migration: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.migration is not None and self.migration not in MIGRATIONS:
            raise ValueError(f"migration: must be one of {', '.join(MIGRATIONS)}, or None")


class MigrationRole(Construct):
    """Role that `settle migrate` assumes. It may write only the migration's attributes.

    An administrator grants `sts:AssumeRole` on it. The role cannot write a new settlement, entry, balance,
    slot or status. It cannot read a party or amount.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, ledger: SettlementTable, migration: str
    ) -> None:
        super().__init__(scope, construct_id)
        self.role = iam.Role(self, "Role", assumed_by=iam.AccountRootPrincipal())
        table, key = ledger.table.table_arn, ledger.key.key_arn
        written = {"dynamodb:Attributes": [*_KEY, *MIGRATIONS[migration]]}
        read = {"dynamodb:Attributes": [*_KEY, "status", *MIGRATIONS[migration]]}
        own = {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": [f"MIGRATION#{migration}"]}}
        settlements = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["SETTLEMENT#*"]}}
        for actions, resource, conditions in (
            (
                ["dynamodb:Scan"],
                table,
                {
                    "ForAllValues:StringEquals": read,
                    "StringEquals": {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"},
                },
            ),
            (["dynamodb:UpdateItem"], table, {"ForAllValues:StringEquals": written, **settlements}),
            (["dynamodb:GetItem", "dynamodb:PutItem"], table, own),
            (
                ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
                key,
                {"StringEquals": {"kms:ViaService": f"dynamodb.{Aws.REGION}.amazonaws.com"}},
            ),
            (["cloudwatch:DescribeAlarms"], "*", {}),
        ):
            self.role.add_to_policy(
                iam.PolicyStatement(actions=actions, resources=[resource], conditions=conditions)
            )


def build(core: Core, settings: MigrationSettings) -> Added:
    if settings.migration is None:
        return Added()
    part = MigrationRole(core.scope, "Migration", ledger=core.ledger, migration=settings.migration)
    return Added(outputs={"MigrationRoleArn": part.role.role_arn})


ROOM = Room(build=build)
