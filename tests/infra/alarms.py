import ast
import re
from typing import Any, NamedTuple

from infra.assets import LAMBDAS
from infra.config import STAGES
from infra.recovery import PARTITIONS
from settlement.core import telemetry
from settlement.core.model import errors
from settlement.core.policy import recovery
from settlement.core.store import dynamodb
from tests.infra.stack import PAYING, READING, RUNNING, changed, properties
from tests.world.rooms import is_there
from tests.world.templates import PROJECT

STACK = "the stack's name"
"""Stands for the stack's name, the `service` dimension of metrics."""

_VISIBLE, _OLDEST = "ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"


class Alarm(NamedTuple):
    """An alarm on one metric: fires if `threshold` is reached in `breaching` of the last `periods`."""

    namespace: str
    metric: str
    dimension: tuple[str, str]
    statistic: str
    seconds: int
    threshold: int
    missing: str = "notBreaching"
    periods: int = 1
    breaching: int = 1


def _ours(metric: str, threshold: int = 1, statistic: str = "Sum", seconds: int = 300, **more: Any) -> Alarm:
    namespace = str(telemetry.metrics.namespace)
    return Alarm(namespace, metric, ("service", STACK), statistic, seconds, threshold, **more)


def _errors(function: str, threshold: int) -> Alarm:
    return Alarm("AWS/Lambda", "Errors", ("FunctionName", f"${{{function}}}"), "Sum", 300, threshold)


def _ended(machine: str, end: str, seconds: int, threshold: int = 1, **more: Any) -> Alarm:
    arn = ("StateMachineArn", f"${{{machine}}}")
    return Alarm("AWS/States", f"Executions{end}", arn, "Sum", seconds, threshold, **more)


def _queue(queue: str, metric: str, threshold: int = 1) -> Alarm:
    named = ("QueueName", f"${{{queue}.QueueName}}")
    return Alarm("AWS/SQS", metric, named, "Maximum", 60, threshold)


ONE_FAULT_MINUTES = 30
"""Period of the alarms on reversals: recovery retries within 20 minutes, so that a fault pages once."""

ALARMS = {
    # A run measures a stalled settlement when it is due: after the longest pause, and up to a minute late.
    # Recovery measures in each run: no data means that it is dead, and LIMBO stays as it is.
    "OldestInFlight": _ours(
        "OldestInFlightSeconds",
        STAGES["prod"].deadline_seconds + recovery.BACKOFF_SECONDS_MAX,
        "Maximum",
        missing="breaching",
        periods=recovery.BACKOFF_SECONDS_MAX // 300 + 1,
    ),
    "LimboAge": _ours("OldestLimboSeconds", 4 * 3600, "Maximum", missing="ignore"),
    "LimboOpen": _ours("LimboOpen", 1, "Maximum", missing="ignore"),
    "ReviewsEnding": _ours("ReviewsEnding", 1, "Maximum", missing="ignore"),
    "Recoveries": _ours("Recoveries", 20, seconds=60),
    "RecoveryFailed": _errors("RecoverStalled", 3),
    "NotRecovered": _ours("NotRecovered"),
    "RecoveryCutShort": _ours("RecoveryCutShort", len(PARTITIONS) + 1),
    "RecoveryBehind": _ours("RecoveryBehindSeconds", 300, "Maximum", missing="breaching"),
    "AlertUndelivered": _queue("PagerUndelivered", _VISIBLE),
    "CompensationFailed": _ended("Compensation", "Failed", 60, periods=ONE_FAULT_MINUTES),
    "CompensationTimedOut": _ended("Compensation", "TimedOut", 60, periods=ONE_FAULT_MINUTES),
    "CompensationAborted": _ended("Compensation", "Aborted", 60, periods=ONE_FAULT_MINUTES),
    "FunctionFailed": _ours("FunctionFailed"),
    "StoreUnavailable": _ours("StoreUnavailable", 5),
    "TransactionConflict": _ours("TransactionConflict", 6),
    # A refused request fails its execution, too.
    "SettlementExpressFailed": _ended("SettlementExpress", "Failed", 300, 5),
    "SettlementExpressTimedOut": _ended("SettlementExpress", "TimedOut", 300),
    "SettlementStandardFailed": _ended("SettlementStandard", "Failed", 300, 5),
    "SettlementStandardTimedOut": _ended("SettlementStandard", "TimedOut", 300),
    "SettlementStandardAborted": _ended("SettlementStandard", "Aborted", 300),
    "WebhookRefused": Alarm(
        *("AWS/Lambda", "Url4xxCount", ("FunctionName", "${KycDecided}")), "Sum", 300, 100
    ),
    "KycDecidedFailed": _errors("KycDecided", 1),
    "ReadSettlementsFailed": _errors("ReadSettlements", 1),
    "PublishEventsFailed": _errors("PublishEvents", 1),
    "EventsBehind": Alarm(
        *("AWS/Lambda", "IteratorAge", ("FunctionName", "${PublishEvents}")), "Maximum", 300, 60_000
    ),
    "EventsLongBehind": Alarm(
        *("AWS/Lambda", "IteratorAge", ("FunctionName", "${PublishEvents}")), "Maximum", 300, 21_600_000
    ),
    "EventsPutAside": _queue("OutcomesPutAside", _VISIBLE),
    "EventsGivenUp": _queue("OutcomesGivenUp", _VISIBLE),
    "ReconcileFaults": _ours("ReconcileFaults", 1, "Maximum"),
    "ListedAhead": _ours("ListedAhead", 1, "Maximum"),
    # The best run of each period: two days in a row without a whole proof, or without any.
    "ReconcileUnproven": _ours(
        "ReconcileUnproven", 1, "Minimum", 24 * 3600, missing="breaching", periods=2, breaching=2
    ),
    "ReconcileBooksFailed": _errors("ReconcileBooks", 1),
    "SealJournalFailed": _errors("SealJournal", 1),
    "SendPageFailed": _errors("SendPage", 1),
    "JournalTampered": _ours("JournalTampered", seconds=60),
    "JournalBehind": Alarm(
        *("AWS/Lambda", "IteratorAge", ("FunctionName", "${SealJournal}")), "Maximum", 300, 600_000
    ),
    # Eighteen hours before the stream forgets.
    "JournalLongBehind": Alarm(
        *("AWS/Lambda", "IteratorAge", ("FunctionName", "${SealJournal}")), "Maximum", 300, 21_600_000
    ),
    "JournalGivenUp": _queue("JournalGivenUp", _VISIBLE),
    # A circuit reports its changes alone.
    "KycCircuitOpen": _ours("KycCircuit", 1, "Maximum", seconds=60, missing="ignore"),
    "SignatureRefused": _ours("SignatureRefused", 5),
    "KycRequestRefused": _ours("KycRequestRefused", 3),
    "KycSecretUnreadable": _ours("KycSecretUnreadable"),
    "KycVerdictConflict": _ours("KycVerdictConflict"),
}

if is_there("merchants"):
    ALARMS |= {
        "SweepMerchantsFailed": _errors("SweepMerchants", 1),
        "SweepBehind": _queue("MerchantsReleases", _OLDEST, 150),
        "SweepsGivenUp": _queue("MerchantsGivenUp", _VISIBLE),
    }
if is_there("doors"):
    ALARMS |= {
        "StartQueueAge": _queue("StartQueue", _OLDEST, 600),
        "StartDeadLetters": _queue("StartDeadLetters", _VISIBLE),
        "StartSettlementsFailed": _errors("StartSettlements", 1),
        "AcceptSettlementsFailed": _errors("AcceptSettlements", 1),
        "CancelSettlementFailed": _errors("CancelSettlement", 1),
    }

BOOKS_ALARMS = {
    # A round each minute, and a quarter of an hour; no data means that the lag is unknown.
    "BooksBehind": _ours("BooksBehindSeconds", 960, "Maximum", missing="breaching", periods=2, breaching=2),
    "BooksLeftOut": _ours("BooksLeftOut", 1, "Maximum", missing="ignore"),
    "BooksLate": _ours("BooksLate"),
}

CHECK_ALARMS = {
    "CheckUnavailable": _ours("CheckUnavailable", 5),
    "CheckConflict": _ours("CheckConflict"),
    "CheckCallbackRefused": Alarm(
        *("AWS/Lambda", "Url4xxCount", ("FunctionName", "${CheckDecided}")), "Sum", 300, 100
    ),
    "CheckDecidedFailed": _errors("CheckDecided", 1),
}

BANK_ALARMS = {
    "StatementFaults": _ours("StatementFaults", 1, "Maximum", missing="ignore", seconds=3_600),
    "StatementMissing": _ours("StatementMissing", 1, "Maximum", missing="ignore", seconds=3_600),
    "ReadStatementsFailed": _errors("ReadStatements", 1),
}

PAYOUT_ALARMS = {
    "PayoutCases": _ours("PayoutCases", 1, "Maximum", missing="ignore"),
    # FollowPayouts reports in each run: no data means that it is dead.
    "PayoutLookLate": _ours("PayoutLookLateSeconds", 900, "Maximum", missing="breaching"),
    "PayoutLineFaults": _ours("PayoutLineFaults", 1, "Maximum", missing="ignore"),
    "PayoutUnknown": _ours("PayoutUnknown"),
    "PayoutsReturned": _ours("PayoutReturned", 10, seconds=3_600),
    # A circuit reports its changes alone.
    "BankCircuitOpen": _ours("BankCircuit", 1, "Maximum", seconds=60, missing="ignore"),
    "BankSecretUnreadable": _ours("BankSecretUnreadable"),
    "PayoutNotFollowed": _ours("PayoutNotFollowed"),
    "FollowPayoutsFailed": _errors("FollowPayouts", 3),
    "ServePayoutsFailed": _errors("ServePayouts", 1),
    "BankEventsFailed": _errors("BankEvents", 1),
    "BankEventsRefused": Alarm(
        *("AWS/Lambda", "Url4xxCount", ("FunctionName", "${BankEvents}")), "Sum", 300, 100
    ),
}

PAYRUN_ALARMS = {
    # PayLines reports each minute: no data means that it is dead.
    "PayRunsWaiting": _ours("PayRunsWaiting", 1, "Maximum", missing="breaching"),
    "PayLinesFailed": _errors("PayLines", 3),
}

OF_OPTIONS = BANK_ALARMS | (BOOKS_ALARMS if is_there("books") else {})
OPTIONAL_ALARMS = BOOKS_ALARMS | BANK_ALARMS | CHECK_ALARMS | PAYOUT_ALARMS | PAYRUN_ALARMS

SUMS = {
    "ForwardThrottled": ("AWS/Lambda", {"Throttles"}),
    "CompensatingThrottled": ("AWS/Lambda", {"Throttles"}),
    "HttpThrottled": ("AWS/Lambda", {"Throttles"}),
    "TriggeredThrottled": ("AWS/Lambda", {"Throttles"}),
    "TableThrottled": ("AWS/DynamoDB", {"ReadThrottleEvents", "WriteThrottleEvents"}),
    "StatesThrottled": ("AWS/States", {"ThrottledEvents"}),
    "DeliveryFailed": ("AWS/SNS", {"NumberOfNotificationsFailed"}),
}
"""Alarms on sums of metrics. The embedded AWS lacks them, because it has no metric math."""


def of_stage(stage: str) -> dict[str, Alarm]:
    """Return a stage's alarms that watch a single metric."""
    reading = BANK_ALARMS if stage in READING else {}
    running = PAYRUN_ALARMS if stage in RUNNING else {}
    return ALARMS | reading | running | (PAYOUT_ALARMS if stage in PAYING else {})


def deployed(stage: str) -> dict[str, Any]:
    found = properties(stage, "CloudWatch::Alarm")
    return {name.removeprefix("Pager"): alarm for name, alarm in found.items()}


def of_options(stage: str) -> dict[str, Any]:
    """Return the deployed alarms of the options for statements and books."""
    found = changed(stage, statements_every_minutes=60)
    if is_there("books"):
        found = found | changed(stage, books_every_minutes=1)
    alarms = {name: dict(found[f"Pager{name}"]["Properties"]) for name in OF_OPTIONS}
    for alarm in alarms.values():
        alarm.pop("Tags", None)
    return alarms


def listed() -> dict[str, str]:
    table = (PROJECT / "docs" / "runbooks" / "alarms.md").read_text().partition("\n## ")[0]
    rows = re.findall(r"the topic `(\w+)Arn` \| (.+) \|", table)
    topics = {"PagerTopic": "Topic"}
    return {alarm: topics.get(topic, topic) for topic, row in rows for alarm in re.findall(r"\[(\w+)\]", row)}


def counted() -> set[str]:
    """Return the names of the functions' metrics, including refusals and store reasons."""
    refusals = {one for one, kind in vars(errors).items() if isinstance(kind, type)}
    found = refusals | dynamodb._TRANSIENT_REASONS
    for path in LAMBDAS.rglob("*.py"):
        tree = ast.parse(path.read_text())
        tables = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _called(node.func) in ("count", "gauge", "add_metric"):
                given = [*node.args[:1], *(one.value for one in node.keywords if one.arg == "name")]
                for part in (part for one in given for part in ast.walk(one)):
                    found |= _texts(part) | _texts(tables.get(getattr(part, "id", ""), ast.Pass()))
            elif isinstance(node, ast.keyword) and node.arg == "metric":  # a StepTransaction's
                found |= _texts(node.value)
    return found


def _called(function: ast.expr) -> str:
    return str(getattr(function, "attr", getattr(function, "id", "")))


def _texts(part: ast.AST) -> set[str]:
    return {
        one.value for one in ast.walk(part) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }
