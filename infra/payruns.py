"""Pay runs: the bucket of their files, and the function that pays their lines."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from .buckets import new_bucket
from .core import FAILED, Added, Core, Room
from .events import Outcomes
from .functions import HandlerFunction
from .grants import LONG_MEMORY_MB, SETTLEMENT, Handler, allow, grant_rows
from .pager import Pager
from .payouts import RESERVING, Payouts
from .settings import CoreSettings
from .signing import RowKeys
from .table import PAYRUN_DECISION
from .urgency import Urgency

PAYRUN, PAYRUN_LINE = "PAYRUN#*", "PAYRUN_LINE#*"
FILES = "runs/*"
"""Objects with runs: `PREFIX` in `payruns/bucket.py`."""

CHANGES = {"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "PAYRUN#"}]}}}}

_PAYMENTS = Handler(
    rows={
        "GetItem": (SETTLEMENT, PAYRUN),
        "BatchGetItem": (SETTLEMENT, PAYRUN_LINE),
        "Query": (PAYRUN_DECISION,),
        "PutItem": (SETTLEMENT,),
        "Put": (PAYRUN_LINE,),
        "Update": (PAYRUN,),
    },
    names=("currency", "escrow"),
    lists=True,
    seconds=57,  # the next run is a minute away
    memory_mb=LONG_MEMORY_MB,
)
_PAYOUTS = replace(
    _PAYMENTS.widened({**RESERVING, "BatchGetItem": ("PAYOUT#*",)}),
    names=("currency", "escrow", "available"),
)

OPTIONAL = {"PayLines": _PAYOUTS}

_PER_SECOND = (4, 1_000)
"""Lines a second. Below 4, a part of 40 lines takes longer than its reserved time."""


@dataclass(frozen=True, kw_only=True)
class PayRunSettings:
    """How fast runs are paid, and which need a second approval.

    `lines_per_second`: for all runs together; one payer's account bears some 70. A run needs two approvals
    above `lines_over` lines, or above a sum in `over` (decimal text by currency).
    """

    lines_per_second: int = 40
    over: Mapping[str, str] = field(default_factory=dict, hash=False)
    lines_over: int = 1_000

    def __post_init__(self) -> None:
        least, most = _PER_SECOND
        if type(self.lines_per_second) is not int or not least <= self.lines_per_second <= most:
            raise ValueError(f"lines_per_second: must be a whole number from {least} to {most}")
        if type(self.lines_over) is not int or self.lines_over < 1:
            raise ValueError("lines_over: must be a whole number from 1")


@dataclass(frozen=True, kw_only=True)
class PayRunsSettings(CoreSettings):
    """See docs/decisions/2026-11-29-pay-runs.md."""

    pay_runs: PayRunSettings | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pay_runs is None or not self.pay_runs.over:
            return
        self._check_decimals("pay_runs.over", self.pay_runs.over)
        if missing := sorted(self.exponents.keys() - self.pay_runs.over.keys()):
            raise ValueError(f"pay_runs.over: must name each currency and asset; {missing[0]} is missing")


class PayRuns(Construct):
    """The bucket, and a call each minute. A file is put once, under its digest, and never removed."""

    def __init__(self, core: Core, function: HandlerFunction, settings: CoreSettings) -> None:
        super().__init__(core.scope, "PayRuns")
        self._is_embedded = settings.is_embedded
        self.bucket = new_bucket(self, "Files", settings)
        self.files = self.bucket.arn_for_objects(FILES)
        function.add_environment("PAYRUNS_BUCKET", self.bucket.bucket_name)
        function.add_to_role_policy(iam.PolicyStatement(actions=["s3:GetObject"], resources=[self.files]))
        # Without it, S3 answers 403, and not 404, for a file that is not there.
        function.add_to_role_policy(
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[self.bucket.bucket_arn])
        )
        function.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(1))
        scheduler.Schedule(
            self,
            "EachMinute",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(1)),
            target=targets.LambdaInvoke(
                function, input=scheduler.ScheduleTargetInput.from_object({}), retry_attempts=0
            ),
        )

    @property
    def proposes(self) -> dict[str, object]:
        """The right to propose runs: to put a file under a new name."""
        put = allow("RunFiles", ["s3:PutObject"], [self.files])
        # The embedded AWS does not know this key of a condition.
        return put if self._is_embedded else put | {"Condition": {"Null": {"s3:if-none-match": "false"}}}


def _watch(pager: Pager, function: HandlerFunction) -> None:
    pager.alarm(
        "PayRunsWaiting",
        pager.metric("PayRunsWaiting", statistic="Maximum"),
        "A pay run cannot go on: its file, its approvals or a service hinder it; or nothing looks at runs.",
        missing=cloudwatch.TreatMissingData.BREACHING,
        urgency=Urgency.MORNING,
    )
    pager.alarm(
        "PayLinesFailed",
        function.metric_errors(period=Duration.minutes(5), statistic="Sum"),
        "Pay runs are not paid: the function fails or times out.",
        threshold=3,  # a dead schedule causes five
        urgency=Urgency.MORNING,
    )


def _configure(core: Core, settings: PayRunsSettings, runs: PayRunSettings) -> None:
    taker = core.functions.get("TakeOrder")
    if taker is None:
        return
    rules = {"over": settings.in_minor_units(runs.over), "lines_over": runs.lines_over}
    taker.add_environment("PAYRUNS", json.dumps(rules))
    core.needed(RowKeys).give_all(taker)


def build(core: Core, settings: PayRunsSettings) -> Added:
    if settings.pay_runs is None:
        return Added()
    payouts = core.part(Payouts)
    handler = _PAYMENTS if payouts is None else _PAYOUTS
    function = HandlerFunction(
        core.scope, "PayLines", handler, settings=settings, environment=core.environment
    )
    grant_rows(core.ledger, {"PayLines": function}, {"PayLines": handler})
    core.express.startable_by(function, "EXPRESS_MACHINE")
    core.needed(RowKeys).give_all(function)
    part = PayRuns(core, function, settings)
    function.add_environment("LINES_PER_SECOND", str(settings.pay_runs.lines_per_second))
    if payouts is not None:
        function.add_environment("PAYOUTS", payouts.limits)
    _configure(core, settings, settings.pay_runs)
    core.needed(Outcomes).tell(CHANGES)
    _watch(core.pager, function)
    return Added(
        part=part,
        outputs={"PayRunsBucket": part.bucket.bucket_name},
        graphs={
            "payruns": {
                "Pay runs: waiting, and failures of a minute": [
                    *core.pager.levels("PayRunsWaiting"),
                    *core.pager.metrics("PayRunFailed"),
                ]
            },
            "functions": {FAILED: [function.metric_errors(label="PayLines")]},
        },
        reads=[allow("PayRuns", ["s3:GetObject"], [part.files])],
        lets={"operator": [part.proposes]},
    )


ROOM = Room(
    build=build,
    widens={
        "TakeOrder": {
            "GetItem": (PAYRUN, PAYRUN_DECISION),
            "Put": (PAYRUN, PAYRUN_DECISION),
            "Update": (PAYRUN,),
        }
    },
    orders={
        "propose-payrun": "operator",
        "approve-payrun": "approver",
        "run-payrun": "operator",
        "pause-payrun": "operator",
        "cancel-payrun": "operator",
    },
)
