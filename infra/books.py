import string
from dataclasses import dataclass

from aws_cdk import Duration, Fn, RemovalPolicies, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_rds as rds
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from .core import Added, Core, Room
from .functions import HandlerFunction
from .grants import LONG_MEMORY_MB, Handler
from .journal import Journal
from .pager import Pager
from .settings import CoreSettings
from .urgency import Urgency

OPTIONAL = {"ProjectEntries": Handler(seconds=180, memory_mb=LONG_MEMORY_MB, reaches_table=False)}
"""The projector. It has time to wait for Aurora, and starts no object in its last minute."""

PROJECTOR, OWNER, DATABASE = "projector", "books_owner", "books"

_VERSION = "17.7"
"""PostgreSQL's version. AWS raises the minor version. A cluster that pauses needs at least 16.3."""

_CAPACITY_MAX = 4
"""Capacity in units of 2 GB. To project 1,500 entries a second takes about two."""

_PAUSES_AFTER_SECONDS = 300
"""Idle time before Aurora pauses: AWS's minimum."""

_BACKUP_DAYS = 35
"""AWS's maximum. The journal can rebuild everything except closed months."""

_BEHIND_SECONDS = 900
"""Lag at which a person must look. The journal alone gathers records for two minutes."""

_PERIOD_MINUTES = 5
_MINUTES_MAX = 60
"""Maximum minutes between rounds. With more, finance would lack the day's entries."""


@dataclass(frozen=True, kw_only=True)
class BooksSettings(CoreSettings):
    """See docs/operating/ledger.md."""

    books_every_minutes: int | None = None
    finance_address: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_address("finance_address")
        minutes = self.books_every_minutes
        if minutes is None:
            if self.finance_address is not None:
                raise ValueError("finance_address: must be left out without books_every_minutes")
            return
        if type(minutes) is not int or not 1 <= minutes <= _MINUTES_MAX:
            raise ValueError(f"books_every_minutes: must be from 1 to {_MINUTES_MAX}, or None")
        if self.is_embedded:
            raise ValueError("books_every_minutes: must be None on the embedded AWS, which has no Aurora")


class Books(Construct):
    """Aurora cluster that pauses when idle. Only the RDS Data API reaches it.

    Its network has no function, gateway, endpoint or inbound rule. People need a policy and a secret.
    """

    def __init__(self, core: Core, function: lambda_.Function, every: int, settings: BooksSettings) -> None:
        super().__init__(core.scope, "Books")
        journal, pager = core.needed(Journal), core.pager
        self._every = every
        self.key = kms.Key(self, "Key", enable_key_rotation=True)
        self.owner, self.projector = self._secret("Owner", OWNER), self._secret("Projector", PROJECTOR)
        self.cluster = self._cluster(settings)
        # The network too: CloudFormation cannot delete the network of a retained cluster.
        RemovalPolicies.of(self).apply(
            settings.removal_policy, exclude_resource_types=["AWS::Scheduler::Schedule"]
        )
        self._grant(function)
        journal.read_by(function)
        function.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(1))
        scheduler.Schedule(
            self,
            "Rounds",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(self._every)),
            target=targets.LambdaInvoke(function, retry_attempts=0),
        )
        self.finance = pager.topic("FinanceTopic", settings.finance_address)
        self._watch(pager)

    @property
    def outputs(self) -> dict[str, str]:
        return {
            "BooksClusterArn": self.cluster.attr_db_cluster_arn,
            "BooksOwnerArn": self.owner.secret_arn,
            "BooksProjectorArn": self.projector.secret_arn,
            "FinanceTopicArn": self.finance.topic_arn,
        }

    def _secret(self, construct_id: str, user: str) -> secretsmanager.Secret:
        return secretsmanager.Secret(
            self,
            construct_id,
            encryption_key=self.key,
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template=f'{{"username": "{user}"}}',
                generate_string_key="password",
                exclude_characters=string.punctuation,
                password_length=44,
            ),
        )

    def _cluster(self, settings: BooksSettings) -> rds.CfnDBCluster:
        subnets, group = self._network()
        secret = f"{{{{resolve:secretsmanager:{self.owner.secret_arn}:SecretString:"
        cluster = rds.CfnDBCluster(
            self,
            "Cluster",
            engine="aurora-postgresql",
            engine_version=_VERSION,
            database_name=DATABASE,
            master_username=f"{secret}username}}}}",
            master_user_password=f"{secret}password}}}}",
            enable_http_endpoint=True,
            enable_iam_database_authentication=True,
            storage_encrypted=True,
            kms_key_id=self.key.key_arn,
            db_subnet_group_name=subnets.ref,
            vpc_security_group_ids=[group.attr_group_id],
            backup_retention_period=_BACKUP_DAYS,
            copy_tags_to_snapshot=True,
            deletion_protection=settings.keeps_data,
            serverless_v2_scaling_configuration=rds.CfnDBCluster.ServerlessV2ScalingConfigurationProperty(
                min_capacity=0, max_capacity=_CAPACITY_MAX, seconds_until_auto_pause=_PAUSES_AFTER_SECONDS
            ),
        )
        rds.CfnDBInstance(
            self,
            "Instance",
            engine="aurora-postgresql",
            db_instance_class="db.serverless",
            db_cluster_identifier=cluster.ref,
            publicly_accessible=False,
            auto_minor_version_upgrade=True,
        )
        return cluster

    def _network(self) -> tuple[rds.CfnDBSubnetGroup, ec2.CfnSecurityGroup]:
        vpc = ec2.CfnVPC(self, "Network", cidr_block="10.0.0.0/26")
        subnets = [
            ec2.CfnSubnet(
                self,
                f"Subnet{number}",
                vpc_id=vpc.ref,
                cidr_block=f"10.0.0.{number * 32}/27",
                availability_zone=Fn.select(number, Fn.get_azs()),
            )
            for number in range(2)
        ]
        group = ec2.CfnSecurityGroup(
            self,
            "Group",
            vpc_id=vpc.ref,
            group_description="The books: no rule admits a caller",
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    ip_protocol="-1", cidr_ip="127.0.0.1/32", description="Without a rule AWS allows all"
                )
            ],
        )
        of_cluster = rds.CfnDBSubnetGroup(
            self,
            "Subnets",
            db_subnet_group_description="The books: no way in or out",
            subnet_ids=[one.ref for one in subnets],
        )
        return of_cluster, group

    def _grant(self, function: lambda_.Function) -> None:
        """Let the function act as the projector. The projector can only add rows."""
        function.add_environment("BOOKS_CLUSTER", self.cluster.attr_db_cluster_arn)
        function.add_environment("BOOKS_SECRET", self.projector.secret_arn)
        calls = ("BeginTransaction", "CommitTransaction", "ExecuteStatement", "RollbackTransaction")
        of_secrets = {"kms:ViaService": f"secretsmanager.{Stack.of(self).region}.amazonaws.com"}
        for statement in (
            iam.PolicyStatement(
                actions=[f"rds-data:{one}" for one in calls], resources=[self.cluster.attr_db_cluster_arn]
            ),
            iam.PolicyStatement(
                actions=["secretsmanager:GetSecretValue"], resources=[self.projector.secret_arn]
            ),
            iam.PolicyStatement(
                actions=["kms:Decrypt"],
                resources=[self.key.key_arn],
                conditions={"StringEquals": of_secrets},
            ),
        ):
            function.add_to_role_policy(statement)

    def _watch(self, pager: Pager) -> None:
        minutes = max(_PERIOD_MINUTES, self._every)
        pager.alarm(
            "BooksBehind",
            pager.metric("BooksBehindSeconds", statistic="Maximum").with_(period=Duration.minutes(minutes)),
            "The books in Aurora lack what the journal has had for long, or no round tells how far they are.",
            threshold=self._every * 60 + _BEHIND_SECONDS,
            periods=2,
            in_all_periods=True,
            missing=cloudwatch.TreatMissingData.BREACHING,
            urgency=Urgency.MORNING,
        )
        pager.alarm(
            "BooksLeftOut",
            pager.metric("BooksLeftOut", statistic="Maximum"),
            "Objects or lines of the journal are in no book: they cannot be read, or the books refuse them.",
            missing=cloudwatch.TreatMissingData.IGNORE,
            urgency=Urgency.MORNING,
        )
        pager.alarm(
            "BooksLate",
            pager.metric("BooksLate"),
            "Entries came after their month was closed. Its figures stay; each of them is in suspense.",
            topic=self.finance,
        )


def build(core: Core, settings: BooksSettings) -> Added:
    if settings.books_every_minutes is None:
        return Added()
    ((name, handler),) = OPTIONAL.items()
    function = HandlerFunction(core.scope, name, handler, settings=settings, environment=core.environment)
    part = Books(core, function, settings.books_every_minutes, settings)
    return Added(outputs=part.outputs)


ROOM = Room(build=build)
