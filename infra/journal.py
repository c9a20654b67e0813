"""The sealed journal. Functions that move money cannot reach its bucket."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from .core import DEAD_LETTERS, QUEUES, Added, Core, Room
from .grants import LONG_MEMORY_MB, Handler, allow, decrypt
from .pager import Pager
from .queues import depth, waiting
from .settings import LOCK_DAYS_MAX, CoreSettings
from .stream_trigger import Batches, call_by_stream
from .urgency import Urgency

_IMMUTABLE = ("ENTRIES#", "EVIDENCE#", "ORDER#", "BANK_LINE#", "BANKED#", "BANK_FILE#", "BANK_ORDER#")
_CREATED = ("SETTLEMENT#", "ACCOUNT#")
_UNPAID = ["COMPENSATED", "REJECTED"]


def _status_changed(**statuses: list[Any]) -> dict[str, Any]:
    images = {image: {"status": {"S": passing}} for image, passing in statuses.items()}
    keys = {"Keys": {"pk": {"S": [{"prefix": "SETTLEMENT#"}]}}}
    return {"eventName": ["MODIFY"], "dynamodb": keys | images}


SEALED = (
    {
        "eventName": ["INSERT", "REMOVE"],
        "dynamodb": {"Keys": {"pk": {"S": [{"prefix": kind} for kind in (*_IMMUTABLE, *_CREATED)]}}},
    },
    {
        "eventName": ["MODIFY"],
        "dynamodb": {"Keys": {"pk": {"S": [{"prefix": kind} for kind in _IMMUTABLE]}}},
    },
    _status_changed(OldImage=_UNPAID, NewImage=[{"anything-but": _UNPAID}]),
    _status_changed(OldImage=[{"anything-but": ["PROCESSING"]}], NewImage=["PROCESSING"]),
    _status_changed(NewImage=[{"exists": False}]),
)
"""Filters for records of the rows in `journal/lines.py`. Lambda allows five filters.

Most of the stream is lawful changes of settlements and accounts: these are left out. Some changes could let a
refused or reversing payment be paid: these are copied.
"""

SEAL_SECONDS, SEAL_SECONDS_EMBEDDED = 3_600, 60
"""The time that a seal covers."""

_WINDOW_SECONDS = 120
"""Batching window, for one put per shard. Waiting is safe: the table's writers cannot change the stream."""

_AGE_HOURS_MAX = 12
"""Age at which a record is given up. The stream keeps it twelve hours more, for a person."""

_BEHIND_SECONDS, _LONG_BEHIND_SECONDS = 600, 6 * 3_600


@dataclass(frozen=True, kw_only=True)
class JournalSettings(CoreSettings):
    """See docs/decisions/2026-11-22-sealed-journal.md."""

    journal_lock: str = "governance"
    journal_lock_days: int = 400

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.journal_lock not in ("governance", "compliance"):
            raise ValueError("journal_lock: must be governance or compliance")
        if not 1 <= self.journal_lock_days <= LOCK_DAYS_MAX:
            raise ValueError(f"journal_lock_days: must be from 1 to {LOCK_DAYS_MAX}")


class Journal(Construct):
    def __init__(self, core: Core, settings: JournalSettings) -> None:
        super().__init__(core.scope, "Journal")
        function, pager = core.functions["SealJournal"], core.pager
        removal_policy = settings.removal_policy
        self.key = kms.Key(self, "Key", enable_key_rotation=True, removal_policy=removal_policy)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self.key,
            bucket_key_enabled=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=not settings.is_embedded,  # the embedded AWS speaks plain HTTP
            versioned=True,
            object_lock_default_retention=_retention(settings),
            removal_policy=removal_policy,
        )
        if not settings.is_embedded:  # the embedded AWS lacks this condition
            self._refuse("s3:PutObject", conditions={"Null": {"s3:if-none-match": "true"}})
        if settings.keeps_data:
            # Administrators, too, must change the bucket's policy first. The lock and the seals stay.
            self._refuse("s3:DeleteObject", "s3:DeleteObjectVersion", "s3:BypassGovernanceRetention")
        batches = Batches(
            filters=SEALED,
            size=10_000,  # the limit of 6 MB comes first
            window=Duration.seconds(1 if settings.is_embedded else _WINDOW_SECONDS),
            age_max=Duration.hours(_AGE_HOURS_MAX),
        )
        self.given_up = call_by_stream(self, core, function, batches, settings)
        self._grant(function, self.key)
        self.period = SEAL_SECONDS_EMBEDDED if settings.is_embedded else SEAL_SECONDS
        function.add_environment("JOURNAL_BUCKET", self.bucket.bucket_name)
        function.add_environment("SEAL_SECONDS", str(self.period))
        scheduler.Schedule(
            self,
            "Seals",
            # Four runs a period: the next run makes up for a failed one.
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(max(1, self.period // 240))),
            target=targets.LambdaInvoke(
                function, input=scheduler.ScheduleTargetInput.from_object({}), retry_attempts=0
            ),
        )
        self.age = function.metric("IteratorAge", period=Duration.minutes(5), statistic="Maximum")
        self._watch(pager)

    def _grant(self, function: lambda_.Function, key: kms.Key) -> None:
        stack = Stack.of(self)
        for actions, resources in (
            (["s3:PutObject"], ["journal/*", "seals/*"]),
            (["s3:GetObject"], ["seals/*"]),
        ):
            function.add_to_role_policy(
                iam.PolicyStatement(
                    actions=actions, resources=[self.bucket.arn_for_objects(one) for one in resources]
                )
            )
        for statement in (
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[self.bucket.bucket_arn]),
            iam.PolicyStatement(
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=[key.key_arn],
                conditions={"StringEquals": {"kms:ViaService": f"s3.{stack.region}.amazonaws.com"}},
            ),
        ):
            function.add_to_role_policy(statement)

    def kept_by(self, function: lambda_.Function, objects: str) -> None:
        """Let a function put only objects with these names."""
        function.add_environment("JOURNAL_BUCKET", self.bucket.bucket_name)
        via_s3 = {"kms:ViaService": f"s3.{Stack.of(self).region}.amazonaws.com"}
        for actions, resource, condition in (
            (["s3:PutObject"], self.bucket.arn_for_objects(objects), None),
            (["kms:Decrypt", "kms:GenerateDataKey"], self.key.key_arn, via_s3),
        ):
            function.add_to_role_policy(
                iam.PolicyStatement(
                    actions=actions,
                    resources=[resource],
                    conditions={"StringEquals": condition} if condition else None,
                )
            )

    def read_by(self, function: lambda_.Function) -> None:
        """Let a function read all versions of journal objects, but no seals."""
        function.add_environment("JOURNAL_BUCKET", self.bucket.bucket_name)
        function.add_environment("SEAL_SECONDS", str(self.period))
        via_s3 = {"kms:ViaService": f"s3.{Stack.of(self).region}.amazonaws.com"}
        for action, resource, condition in (
            ("s3:ListBucketVersions", self.bucket.bucket_arn, {"s3:prefix": "journal/"}),
            ("s3:GetObjectVersion", self.bucket.arn_for_objects("journal/*"), None),
            ("kms:Decrypt", self.key.key_arn, via_s3),
        ):
            function.add_to_role_policy(
                iam.PolicyStatement(
                    actions=[action],
                    resources=[resource],
                    conditions={"StringEquals": condition} if condition else None,
                )
            )

    def _refuse(self, *actions: str, conditions: Mapping[str, Any] | None = None) -> None:
        self.bucket.add_to_resource_policy(
            iam.PolicyStatement(
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=[*actions],
                resources=[self.bucket.arn_for_objects("*")],
                conditions=conditions,
            )
        )

    def _watch(self, pager: Pager) -> None:
        pager.alarm(
            "JournalTampered",
            pager.metric("JournalTampered").with_(period=Duration.minutes(1)),
            "A row was changed or deleted as no function of this stage changes or deletes it.",
        )
        pager.alarm(
            "JournalGivenUp",
            depth(self.given_up),
            "Rows will not be in the sealed journal. The stream has them for twelve hours more.",
            urgency=Urgency.MORNING,
        )
        pager.alarm(
            "JournalBehind",
            self.age,
            "Rows reach the sealed journal ten minutes late.",
            threshold=_BEHIND_SECONDS * 1_000,
            urgency=Urgency.MORNING,
        )
        pager.alarm(
            "JournalLongBehind",
            self.age,
            "Rows have not reached the sealed journal for six hours. The stream forgets them after a day.",
            threshold=_LONG_BEHIND_SECONDS * 1_000,
        )


def _retention(settings: JournalSettings) -> s3.ObjectLockRetention | None:
    if settings.is_embedded:  # the embedded AWS has no lock
        return None
    days = Duration.days(settings.journal_lock_days)
    if settings.journal_lock == "compliance":
        return s3.ObjectLockRetention.compliance(days)
    return s3.ObjectLockRetention.governance(days)


def build(core: Core, settings: JournalSettings) -> Added:
    part = Journal(core, settings)
    if "ReadSettlements" in core.functions:
        part.read_by(core.functions["ReadSettlements"])
    bucket, objects = part.bucket.bucket_arn, part.bucket.arn_for_objects("*")
    return Added(
        part=part,
        outputs={
            "JournalBucket": part.bucket.bucket_name,
            "JournalGivenUpQueueUrl": part.given_up.queue_url,
        },
        graphs={
            QUEUES: {DEAD_LETTERS: waiting(part.given_up, "rows not in the sealed journal")},
            "journal": {
                "Rows changed that never change": core.pager.metrics("JournalTampered"),
                "Sealed journal behind, in ms": [part.age],
            },
        },
        reads=[
            allow("Journal", ["s3:ListBucket", "s3:ListBucketVersions"], [bucket]),
            allow("JournalObjects", ["s3:GetObject", "s3:GetObjectVersion"], [objects]),
            decrypt("JournalKey", part.key.key_arn, "s3", Stack.of(core.scope).region),
        ],
        tries=[allow("Locks", ["s3:GetObjectRetention"], [objects])],
    )


ROOM = Room(
    build=build,
    handlers={
        "SealJournal": Handler(seconds=60, memory_mb=LONG_MEMORY_MB, failure=Urgency.MORNING),
    },
)
