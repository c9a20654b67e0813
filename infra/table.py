from collections.abc import Mapping, Sequence

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from .settings import CoreSettings

INDEX = "gsi1"

EXPIRES = "expires_at"

IMMUTABLE_ATTRIBUTES = (
    *("amount", "credit", "debit", "posted_at", "side", "step"),
    *("decision", "provider", "reason", "reference", "metadata"),
    *("account", "by", "cause", "error", "order", "user_id", "request_id", "source_ip"),
    *("checks", "claimed_at", "deadline_seconds", "fee", "payer", "payee", "payer_name", "payee_name"),
    *("digest", "received_at"),
    EXPIRES,
)
"""Immutable attributes. IAM lets no update name them, in any kind of row."""

PAYOUT, DESTINATION, PAYOUT_CASE = "PAYOUT#*", "DESTINATION#*", "PAYOUT_CASE#*"
PAYRUN_DECISION = "PAYRUN_DECISION#*"

IMMUTABLE_OF_PAYOUTS = (
    "iban",
    "holder",
    "added_by",
    "added_at",
    "confirmed_by",
    "confirmed_at",
    "payable_from",
)
"""Immutable attributes of payouts and destinations."""

IN_A_TRANSACTION = {"Put": "PutItem", "Update": "UpdateItem"}
"""Writes of a transaction, with their IAM actions."""

READS = ("BatchGetItem", "GetItem", "Query", "Scan")

_ENCLOSED = {"ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}}
"""A condition that is true only inside a transaction.

A single write lacks the key, and so fails ForAnyValue.
"""


class SettlementTable(Construct):
    """The table with its index `gsi1`: backed up, protected, encrypted and streamed.

    Entries expire if the stage has a retention. No function may add `expires_at` to other rows. After a
    restore, `table` is the restored table. The stack's own table stays in the template, so nothing creates or
    deletes a table: see docs/operating/restore.md.
    """

    def __init__(self, scope: Construct, construct_id: str, *, settings: CoreSettings) -> None:
        super().__init__(scope, construct_id)
        removal_policy = settings.removal_policy
        units = settings.warm_write_units
        warm = None if units is None else dynamodb.WarmThroughput(write_units_per_second=units)
        self.key = kms.Key(self, "Key", enable_key_rotation=True, removal_policy=removal_policy)
        own = dynamodb.Table(
            self,
            "Table",
            partition_key=_text("pk"),
            sort_key=_text("sk"),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=self.key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=settings.keeps_data,
            removal_policy=removal_policy,
            stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES,
            warm_throughput=warm,
        )
        own.add_global_secondary_index(
            index_name=INDEX,
            partition_key=_text("gsi1pk"),
            sort_key=_text("gsi1sk"),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
            warm_throughput=warm,  # an index that is throttled throttles the table
        )
        self.own = own
        self.table: dynamodb.ITable = own
        if settings.restored_table is not None:
            self.table = self._restored(settings.restored_table, str(settings.restored_stream))

    def _restored(self, name: str, stream: str) -> dynamodb.ITable:
        stream_arn = Stack.of(self).format_arn(
            service="dynamodb", resource="table", resource_name=f"{name}/stream/{stream}"
        )
        return dynamodb.Table.from_table_attributes(
            self,
            "Restored",
            table_name=name,
            table_stream_arn=stream_arn,
            encryption_key=self.key,
            global_indexes=[INDEX],
        )

    @property
    def stream_arn(self) -> str:
        if self.table.table_stream_arn is None:
            raise ValueError("the table has no stream")
        return self.table.table_stream_arn

    def grant_listing(self, function: lambda_.Function) -> None:
        """Allow queries of the index. It has only keys."""
        index = f"{self.table.table_arn}/index/{INDEX}"
        function.add_to_role_policy(iam.PolicyStatement(actions=["dynamodb:Query"], resources=[index]))

    def grant_reading(self, function: lambda_.Function) -> None:
        actions = [f"dynamodb:{action}" for action in READS]
        function.add_to_role_policy(iam.PolicyStatement(actions=actions, resources=[self.table.table_arn]))

    def grant(
        self, function: lambda_.Function, actions: Mapping[str, Sequence[str]], *, untouched: Sequence[str]
    ) -> None:
        """Grant exactly these actions, without updates of immutable attributes.

        `actions` maps actions to patterns of partition keys. `Put` and `Update` are granted only inside a
        transaction. No write may name an `untouched` attribute.
        """
        self.grant_rows(function, actions)
        statements = [
            iam.PolicyStatement(
                actions=[
                    "kms:Decrypt",
                    "kms:DescribeKey",
                    "kms:Encrypt",
                    "kms:GenerateDataKey*",
                    "kms:ReEncrypt*",
                ],
                resources=[self.key.key_arn],
                conditions={
                    "StringEquals": {"kms:ViaService": f"dynamodb.{Stack.of(self).region}.amazonaws.com"}
                },
            ),
            iam.PolicyStatement(
                effect=iam.Effect.DENY,
                actions=["dynamodb:UpdateItem"],
                resources=[self.table.table_arn],
                conditions={"ForAnyValue:StringEquals": {"dynamodb:Attributes": immutable(actions)}},
            ),
        ]
        if untouched and actions.keys() & {"PutItem", "UpdateItem", *IN_A_TRANSACTION}:
            statements += [
                iam.PolicyStatement(
                    effect=iam.Effect.DENY,
                    actions=["dynamodb:PutItem", "dynamodb:UpdateItem"],
                    resources=[self.table.table_arn],
                    conditions={"ForAnyValue:StringEquals": {"dynamodb:Attributes": list(untouched)}},
                )
            ]
        for statement in statements:
            function.add_to_role_policy(statement)

    def grant_rows(self, function: lambda_.Function, actions: Mapping[str, Sequence[str]]) -> None:
        """Grant rows alone: `grant` also gives the encryption key, and denies attributes."""
        for action, rows in actions.items():
            function.add_to_role_policy(
                iam.PolicyStatement(
                    actions=[f"dynamodb:{IN_A_TRANSACTION.get(action, action)}"],
                    resources=[self.table.table_arn],
                    conditions={
                        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(rows)},
                        **(_ENCLOSED if action in IN_A_TRANSACTION else {}),
                    },
                )
            )


def immutable(actions: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the attributes that no update of these rows may name."""
    updated = {row for action in ("Update", "UpdateItem") for row in actions.get(action, ())}
    return [*IMMUTABLE_ATTRIBUTES, *(IMMUTABLE_OF_PAYOUTS if updated & {PAYOUT, DESTINATION} else ())]


def _text(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
