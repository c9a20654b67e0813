import re
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from .buckets import new_bucket
from .core import Added, Core, Room
from .functions import HandlerFunction
from .grants import LONG_MEMORY_MB, ORDER, Handler
from .journal import Journal
from .pager import Pager
from .settings import CoreSettings
from .urgency import Urgency

BANK_LINE, BANKED, BANK_FILE = "BANK_LINE#*", "BANKED#*", "BANK_FILE#*"
BANK_ORDER = "BANK_ORDER#*"

OPTIONAL = {
    "ReadStatements": Handler(
        rows={
            "BatchGetItem": (BANK_LINE, BANKED, BANK_FILE, ORDER),
            "Query": (BANK_FILE,),
            "PutItem": (BANK_LINE, BANK_FILE),
            "Put": (BANK_LINE, BANKED),
        },
        names=("currency",),
        lists=True,
        seconds=900,
        memory_mb=LONG_MEMORY_MB,
        disk_gb=4,
    )
}
"""The reader. Its disk, four times the largest file, holds the file, and its lines beside the orders."""

INCOMING, KEPT = "incoming/*", "statements/*"

_EVERY_MINUTES = (15, 1_440)


@dataclass(frozen=True, kw_only=True)
class BankSettings(CoreSettings):
    """See docs/operating/bank.md."""

    statements_every_minutes: int | None = None
    statement_accounts: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        least, most = _EVERY_MINUTES
        minutes = self.statements_every_minutes
        if minutes is not None and not (type(minutes) is int and least <= minutes <= most):
            raise ValueError(f"statements_every_minutes: must be from {least} to {most}, or None")
        if self.statement_accounts is not None:
            _check_pattern(self.statement_accounts)


def _check_pattern(text: str) -> None:
    try:
        names_account = "account" in re.compile(text).groupindex
    except re.error as wrong:
        raise ValueError(f"statement_accounts: must be a pattern: {wrong}") from wrong
    if not names_account:
        raise ValueError("statement_accounts: must have a group (?P<account>…)")


class Bank(Construct):
    """The bucket for statements, and its reader's schedules and alarms.

    A sender of files can add lines, and match orders to the cent. No file moves money.
    """

    def __init__(self, core: Core, function: lambda_.Function, every: int, settings: BankSettings) -> None:
        super().__init__(core.scope, "Bank")
        self.reader = function
        journal = core.needed(Journal)
        self.bucket = new_bucket(self, "Statements", settings)
        function.add_environment("STATEMENTS_BUCKET", self.bucket.bucket_name)
        function.add_environment("TMPDIR", "/tmp")  # noqa: S108 (the one place where Lambda lets it write)
        function.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(5))
        self._grant(function)
        journal.kept_by(function, KEPT)
        for name, rate, event in (
            ("Readings", Duration.minutes(every), {}),
            ("Matches", Duration.days(1), {"match": True}),
        ):
            scheduler.Schedule(
                self,
                name,
                schedule=scheduler.ScheduleExpression.rate(rate),
                target=targets.LambdaInvoke(
                    function, input=scheduler.ScheduleTargetInput.from_object(event), retry_attempts=0
                ),
            )
        self._watch(core.pager, function, every)

    def _grant(self, function: lambda_.Function) -> None:
        objects = self.bucket.arn_for_objects(INCOMING)
        for statement in (
            iam.PolicyStatement(
                actions=["s3:ListBucketVersions"],
                resources=[self.bucket.bucket_arn],
                conditions={"StringEquals": {"s3:prefix": INCOMING.removesuffix("*")}},
            ),
            # Without it, S3 answers 403, and not 404, for a file that another run has removed.
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[self.bucket.bucket_arn]),
            iam.PolicyStatement(
                actions=["s3:GetObjectVersion", "s3:DeleteObjectVersion"], resources=[objects]
            ),
        ):
            function.add_to_role_policy(statement)

    def _watch(self, pager: Pager, function: lambda_.Function, every: int) -> None:
        period = Duration.minutes(max(every, 60))
        for name, meaning in (
            (
                "StatementFaults",
                "A bank's statement cannot be read, or contradicts itself or another.",
            ),
            ("StatementMissing", "An account has no statement of the last business day."),
        ):
            pager.alarm(
                name,
                pager.metric(name, statistic="Maximum").with_(period=period),
                meaning,
                missing=cloudwatch.TreatMissingData.IGNORE,
                urgency=Urgency.MORNING,
            )
        pager.alarm(
            "ReadStatementsFailed",
            function.metric_errors(period=Duration.minutes(5), statistic="Sum"),
            "The bank's statements are not read: the function fails or times out. The next run goes on.",
            urgency=Urgency.MORNING,
        )


def build(core: Core, settings: BankSettings) -> Added:
    if settings.statements_every_minutes is None:
        return Added()
    ((name, handler),) = OPTIONAL.items()
    function = HandlerFunction(core.scope, name, handler, settings=settings, environment=core.environment)
    core.ledger.grant(function, handler.rows, untouched=handler.untouched)
    core.ledger.grant_listing(function)
    part = Bank(core, function, settings.statements_every_minutes, settings)
    return Added(
        part=part,
        outputs={
            "StatementsBucket": part.bucket.bucket_name,
            **({"StatementAccounts": pattern} if (pattern := settings.statement_accounts) else {}),
        },
        graphs={
            "bank": {
                "Bank: faults of statements, accounts without one": core.pager.levels(
                    "StatementFaults", "StatementMissing"
                ),
                "Bank: lines recorded and matched": core.pager.metrics(
                    "BankLinesRecorded", "BankLinesMatched"
                ),
            }
        },
    )


ROOM = Room(
    build=build,
    widens={
        "TakeOrder": {
            "GetItem": (BANK_LINE, BANK_ORDER),
            "Put": (BANK_LINE, BANKED),
            "PutItem": (BANK_ORDER,),
        }
    },
    orders={"propose-lines": "operator", "book-lines": "approver"},
)
