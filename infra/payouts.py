"""Payouts to a bank: their functions, machine, schedule and webhook, if the stage has a bank."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from .bank import BANK_LINE, Bank, BankSettings
from .buckets import new_bucket
from .core import FAILED, Added, Core, Room, let_call
from .events import Outcomes
from .functions import HandlerFunction
from .grants import ACCOUNT, ENTRIES, LONG_MEMORY_MB, Handler, allow
from .http_api import SettlementsApi, api_of
from .pager import Pager
from .payouts_config import PayoutSettings
from .settings import CoreSettings
from .shared_secrets import let_read, new_secret
from .signing import RowKeys
from .state_machines import Machine
from .table import DESTINATION, PAYOUT
from .table import PAYOUT_CASE as CASE
from .urgency import Urgency
from .webhook import Receiver, Webhook, WebhookSettings

CHANGES = {"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "PAYOUT#"}]}}}}
"""Stream records that `payouts/changes.py` turns into events."""

REFERENCE, DAY, LISTED = "PAYOUT_REFERENCE#*", "PAYOUT_DAY#*", "PAYOUT_LINE#*"
CIRCUIT = "CIRCUIT"

RESERVING = {
    "GetItem": (PAYOUT, DESTINATION),
    "Put": (PAYOUT, REFERENCE, ENTRIES),
    "Update": (DAY, ACCOUNT),
}

_FOLLOW = Handler(
    rows={
        "GetItem": (PAYOUT, REFERENCE, CASE, ENTRIES, BANK_LINE, LISTED),
        "Put": (ENTRIES, BANK_LINE),
        "Update": (PAYOUT, DESTINATION, ACCOUNT, LISTED),
    },
    names=("available", "currency"),
    lists=True,
    seconds=55,  # the next run is a minute away
    memory_mb=LONG_MEMORY_MB,
)

OPTIONAL = {
    "ReservePayout": Handler(rows=RESERVING, names=("available", "currency")),
    "ServePayouts": Handler(
        rows=RESERVING,
        names=("available", "currency"),
        by_http=True,
        failure=Urgency.MORNING,
    ),
    "FollowPayouts": _FOLLOW.widened({"GetItem": (CIRCUIT,), "PutItem": (CIRCUIT,)}),
    "BankEvents": Handler(
        rows={"GetItem": (PAYOUT, REFERENCE), "Update": (PAYOUT,)},
        by_http=True,
        failure=Urgency.MORNING,
    ),
}
"""The room's functions. Only FollowPayouts reaches the bank and moves payouts."""

FILES, ANSWERS = "payouts/*", "answers/*"
"""Payout files and the bank's answers: `PREFIX` and `ANSWERS` in `payouts/over_files.py`."""


def handlers_of(bank: PayoutSettings) -> dict[str, Handler]:
    """The room's handlers: a bank that takes files has no circuit, and sends no events."""
    if bank.debtor is None:
        return dict(OPTIONAL)
    without_events = {name: handler for name, handler in OPTIONAL.items() if name != "BankEvents"}
    return without_events | {"FollowPayouts": _FOLLOW}


_PROVING = ("ReservePayout", "ServePayouts", "FollowPayouts")
"""Functions that sign entries, and prove rows signed by earlier keys."""

_OF_MOVES = (
    *("destination", "request_hash", "reserved_at"),
    *("status", "said", "said_at", "decided", "trouble", "cases", "in_suspense", "asked_from", "gsi1pk"),
    *("attempts", "first_sent_at", "sent_at", "sent_sha256", "paid_at", "ended_at"),
    *("debit_line", "return_line", "detail", "given_back_at", "given_back_to"),
)
"""Attributes of a payout that BankEvents cannot write: strangers can call it."""

_READER = {"Put": (LISTED,)}
"""Rows that ReadStatements puts, to list the statement lines that name a payout."""

PAY_ROUTE, READ_ROUTE = "POST /payouts", "GET /payouts/{key}"
PAY_CALL, READ_CALL = "POST/payouts", "GET/payouts/*"

_LATE_SECONDS = 900
"""Time to clear the backlog after an outage of the bank."""

_RETURNED_MANY = 10
"""Returns in an hour that raise the alarm. Single returns are ordinary: they have an event each."""


@dataclass(frozen=True, kw_only=True)
class PayoutsSettings(BankSettings, WebhookSettings):
    """See docs/decisions/2026-11-29-payouts.md."""

    payouts: PayoutSettings | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.payouts is None:
            return
        if self.statements_every_minutes is None:
            raise ValueError("payouts: needs statements_every_minutes, as a statement has the last word")
        if not (self.payouts.is_secure or self.is_embedded or self.payouts.debtor):
            raise ValueError("bank_url: must be an HTTPS address")
        for name in ("payout", "day"):
            limits = getattr(self.payouts, name)
            if assets := sorted(limits.keys() & self.assets.keys()):
                raise ValueError(f"payouts.{name}: {assets[0]} is an asset, which no bank pays out")
            self._check_decimals(f"payouts.{name}", limits)
        for code, amount in self.payouts.payout.items():
            if not 0 < Decimal(amount) <= Decimal(self.payouts.day[code]):
                raise ValueError(f"payouts.day: {code} must be at least the limit of a payout, above 0")

    @property
    def payout_limits(self) -> tuple[dict[str, int], dict[str, int]]:
        """The limits of a payout and of a day, in minor units."""
        return self.in_minor_units(self.bank.payout), self.in_minor_units(self.bank.day)

    @property
    def bank(self) -> PayoutSettings:
        """The settings of a stage that pays out. Raises ValueError for others."""
        if self.payouts is None:
            raise ValueError("payouts: is not set")
        return self.payouts


class Payouts(Construct):
    """The machine, the schedule, and the way to the bank."""

    def __init__(
        self, core: Core, functions: Mapping[str, HandlerFunction], settings: PayoutsSettings
    ) -> None:
        super().__init__(core.scope, "Payouts")
        follow = functions["FollowPayouts"]
        self.way: Files | Service
        if settings.bank.debtor is not None:
            self.way = Files(self, follow, settings)
        else:
            self.way = Service(self, core, functions, settings)
        self._configure(core, functions, settings)
        self.machine = Machine(
            core.scope,
            "PayOut",
            definition="pay_out",
            machine_type=sfn.StateMachineType.STANDARD,
            names=functions,
            settings=settings,
        )
        let_call(functions["ServePayouts"], "FOLLOW_PAYOUTS", follow)
        self._follow_each_minute(follow)

    def _configure(
        self, core: Core, functions: Mapping[str, HandlerFunction], settings: PayoutsSettings
    ) -> None:
        others = [functions["ReservePayout"], functions["ServePayouts"]]
        if taker := core.functions.get("TakeOrder"):
            others.append(taker)
            core.needed(RowKeys).give_all(taker)
            let_call(taker, "FOLLOW_PAYOUTS", functions["FollowPayouts"])
        self.limits = settings.bank.limits(*settings.payout_limits)
        for function in others:
            function.add_environment("PAYOUTS", self.limits)
        functions["FollowPayouts"].add_environment("PAYOUTS", self.way.described(settings))

    def _follow_each_minute(self, follow: lambda_.Function) -> None:
        follow.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(1))
        scheduler.Schedule(
            self,
            "EachMinute",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(1)),
            target=targets.LambdaInvoke(
                follow, input=scheduler.ScheduleTargetInput.from_object({}), retry_attempts=0
            ),
        )


class Service:
    """A bank with an address: secrets, each readable by one function, and a webhook.

    A new stage's secrets are random: the bank refuses requests until an operator stores its token.
    """

    def __init__(
        self,
        scope: Construct,
        core: Core,
        functions: Mapping[str, HandlerFunction],
        settings: PayoutsSettings,
    ) -> None:
        follow, events = functions["FollowPayouts"], functions["BankEvents"]
        self.credentials = new_secret(scope, "Credentials", {}, "api_key", settings)
        let_read(follow, self.credentials)
        self.signing = new_secret(scope, "Signing", {"previous": None}, "current", settings)
        let_read(events, self.signing)
        events.add_environment("BANK_SIGNING_SECRET", self.signing.secret_arn)
        self.webhook = Webhook(
            scope,
            "Webhook",
            receiver=Receiver(
                function=events,
                name="bank-events",
                path="/",
                alarm="BankEventsRefused",
                described="Many of the bank's events are refused: a wrong secret, or strangers.",
            ),
            pager=core.pager,
            settings=settings,
        )
        _watch_service(core.pager)

    def described(self, settings: PayoutsSettings) -> str:
        return settings.bank.to_json(*settings.payout_limits, secret_id=self.credentials.secret_arn)

    @property
    def outputs(self) -> dict[str, str]:
        return {
            "BankWebhookUrl": self.webhook.url,
            "BankCredentialsArn": self.credentials.secret_arn,
            "BankSigningArn": self.signing.secret_arn,
        }

    def graphs(self, pager: Pager) -> Mapping[str, Sequence[cloudwatch.IMetric]]:
        return {
            "Bank: circuit, 1 while it is open; no answer, no secret, refused events": [
                *pager.levels("BankCircuit"),
                *pager.metrics("PayoutUnknown", "BankSecretUnreadable"),
                self.webhook.refused,
            ]
        }


class Files:
    """A bank that takes files: their bucket. FollowPayouts adds files, and never replaces or removes one."""

    def __init__(self, scope: Construct, follow: HandlerFunction, settings: PayoutsSettings) -> None:
        self.bucket = new_bucket(scope, "Files", settings)
        files, answers = (self.bucket.arn_for_objects(one) for one in (FILES, ANSWERS))
        for statement in (
            iam.PolicyStatement(
                actions=["s3:PutObject"],
                resources=[files],
                conditions={"Null": {"s3:if-none-match": "false"}},
            ),
            iam.PolicyStatement(actions=["s3:GetObject"], resources=[files, answers]),
            # Without it, S3 answers 403, and not 404, for a file that is not there: that question names no
            # prefix, so a condition on the prefix would refuse it.
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[self.bucket.bucket_arn]),
        ):
            follow.add_to_role_policy(statement)

    def described(self, settings: PayoutsSettings) -> str:
        return settings.bank.to_files_json(*settings.payout_limits, bucket=self.bucket.bucket_name)

    @property
    def outputs(self) -> dict[str, str]:
        return {"PayoutFilesBucket": self.bucket.bucket_name}

    def graphs(self, pager: Pager) -> Mapping[str, Sequence[cloudwatch.IMetric]]:
        return {"Bank: no answer of the bucket": pager.metrics("PayoutUnknown")}


def _watch_service(pager: Pager) -> None:
    pager.alarm(
        "BankCircuitOpen",
        pager.metric("BankCircuit", statistic="Maximum").with_(period=Duration.minutes(1)),
        "The bank is unavailable: payouts wait.",
        # The circuit writes its metric when it changes. Until then the alarm keeps its state.
        missing=cloudwatch.TreatMissingData.IGNORE,
        urgency=Urgency.INFORMATION,
    )
    pager.alarm(
        "BankSecretUnreadable",
        pager.metric("BankSecretUnreadable"),
        "A function cannot read a secret that it shares with the bank.",
    )


def _watch(pager: Pager, functions: Mapping[str, HandlerFunction]) -> None:
    pager.level("PayoutCases", "PayoutCases", "Payouts wait for a decision of two persons.")
    pager.alarm(
        "PayoutLookLate",
        pager.metric("PayoutLookLateSeconds", statistic="Maximum"),
        "Payouts are followed a quarter of an hour late, or not at all.",
        threshold=_LATE_SECONDS,
        missing=cloudwatch.TreatMissingData.BREACHING,
    )
    pager.level(
        "PayoutLineFaults",
        "PayoutLineFaults",
        "Lines of the bank contradict the payouts that they name.",
        urgency=Urgency.MORNING,
    )
    pager.alarm(
        "PayoutUnknown",
        pager.metric("PayoutUnknown"),
        "The bank has not said for an hour whether it took a payout.",
        urgency=Urgency.MORNING,
    )
    pager.alarm(
        "PayoutsReturned",
        pager.metric("PayoutReturned").with_(period=Duration.hours(1)),
        "Many payouts come back: wrong bank accounts, or a bank that fails.",
        threshold=_RETURNED_MANY,
        urgency=Urgency.MORNING,
    )
    pager.alarm(
        "PayoutNotFollowed",
        pager.metric("PayoutNotFollowed"),
        "A payout, or a line of the bank, could not be read or followed: it waits.",
        urgency=Urgency.MORNING,
    )
    pager.alarm(
        "FollowPayoutsFailed",
        _errors(functions["FollowPayouts"]),
        "Payouts are not followed: the function fails or times out.",
        threshold=3,  # a dead schedule causes five; calls that race for a payout cause a few
        urgency=Urgency.MORNING,
    )
    for name, function in functions.items():
        if (failure := OPTIONAL[name].failure) is not None:
            pager.alarm(
                f"{name}Failed",
                _errors(function),
                f"{name} fails, times out or cannot start. Its caller retries.",
                urgency=failure,
            )


def _errors(function: lambda_.Function) -> cloudwatch.Metric:
    return function.metric_errors(period=Duration.minutes(5), statistic="Sum")


def _new_functions(core: Core, settings: PayoutsSettings) -> dict[str, HandlerFunction]:
    handlers = handlers_of(settings.bank)
    functions = {
        name: HandlerFunction(core.scope, name, handler, settings=settings, environment=core.environment)
        for name, handler in handlers.items()
    }
    for name, handler in handlers.items():
        fixed = _OF_MOVES if name == "BankEvents" else ()
        core.ledger.grant(functions[name], handler.rows, untouched=[*handler.untouched, *fixed])
        if handler.lists:
            core.ledger.grant_listing(functions[name])
        if name in _PROVING:
            core.needed(RowKeys).give_all(functions[name])
    reader = core.needed(Bank).reader
    core.ledger.grant_rows(reader, _READER)
    reader.add_environment("LINES_FOR", "payouts")
    return functions


def _open(core: Core, function: lambda_.Function, settings: CoreSettings) -> tuple[SettlementsApi, str]:
    api = api_of(core, settings)
    api.open("Payouts", function, {"PayOut": PAY_ROUTE, "Payout": READ_ROUTE}, "*/payouts*")
    api.let_readers(READ_CALL)
    calls = [api.arn(call) for call in (PAY_CALL, READ_CALL)]
    payer = api.policy("Payer", "What a service may do that pays out by HTTP, and follows its payouts", calls)
    return api, payer.ref


def build(core: Core, settings: PayoutsSettings) -> Added:
    if settings.payouts is None:
        return Added()
    functions = _new_functions(core, settings)
    part = Payouts(core, functions, settings)
    api, payer = _open(core, functions["ServePayouts"], settings)
    core.needed(Outcomes).tell(CHANGES)
    _watch(core.pager, functions)
    pager = core.pager
    return Added(
        part=part,
        outputs={
            "SettlementsApiUrl": api.url,
            "PayerPolicyArn": payer,
            "PayoutMachineArn": part.machine.state_machine_arn,
            **part.way.outputs,
        },
        graphs={
            "payouts": {
                "Payouts: open cases, faults of lines, not followed, returned": [
                    *pager.levels("PayoutCases", "PayoutLineFaults"),
                    *pager.metrics("PayoutNotFollowed", "PayoutReturned"),
                ],
                "Payouts: looks late, in seconds": pager.levels("PayoutLookLateSeconds"),
                **part.way.graphs(pager),
                "PayOut": [
                    part.machine.metric_started(),
                    part.machine.metric_succeeded(),
                    part.machine.metric_failed(),
                    part.machine.metric_timed_out(),
                    part.machine.metric_aborted(),
                ],
            },
            "functions": {FAILED: [one.metric_errors(label=name) for name, one in functions.items()]},
        },
        reads=[allow("Payouts", ["execute-api:Invoke"], [api.arn(READ_CALL)])],
    )


ROOM = Room(
    build=build,
    widens={
        "TakeOrder": {
            "GetItem": (DESTINATION, PAYOUT, CASE),
            "PutItem": (DESTINATION, CASE),
            "Update": (DESTINATION,),
        }
    },
    orders={
        "add-payee": "operator",
        "confirm-payee": "approver",
        "freeze-payee": "operator",
        "propose-payout": "operator",
        "approve-payout": "approver",
        "ask-payout": "operator",
    },
)
