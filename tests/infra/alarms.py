"""The alarms of a template by their names, and the metrics that functions write."""

import ast
from typing import Any

import pytest

from infra.config import STAGES
from infra.functions import LAMBDAS
from settlement.adapters import dynamodb
from settlement.model import errors
from tests.infra.machines import name
from tests.support import templates

PERIODS = {"OldestInFlight": 4}
"""The alarms on more than one period. For the others the last period decides."""

ALARMS = {
    "OldestInFlight": ("Settlement", "OldestInFlightSeconds", "Maximum"),
    "RecoveryFailed": ("AWS/Lambda", "Errors", "Sum"),
    "NotRecovered": ("Settlement", "NotRecovered", "Sum"),
    "AlertUndelivered": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum"),
    "CompensationFailed": ("AWS/States", "ExecutionsFailed", "Sum"),
    "CompensationTimedOut": ("AWS/States", "ExecutionsTimedOut", "Sum"),
    "CompensationAborted": ("AWS/States", "ExecutionsAborted", "Sum"),
    "LimboAge": ("Settlement", "OldestLimboSeconds", "Maximum"),
    "LimboOpen": ("Settlement", "LimboOpen", "Maximum"),
    "FunctionFailed": ("Settlement", "FunctionFailed", "Sum"),
    "StoreUnavailable": ("Settlement", "StoreUnavailable", "Sum"),
    "RecoveryCutShort": ("Settlement", "RecoveryCutShort", "Sum"),
    "TransactionConflict": ("Settlement", "TransactionConflict", "Sum"),
    "Recoveries": ("Settlement", "Recoveries", "Sum"),
    "SettlementExpressFailed": ("AWS/States", "ExecutionsFailed", "Sum"),
    "SettlementExpressTimedOut": ("AWS/States", "ExecutionsTimedOut", "Sum"),
    "SettlementStandardFailed": ("AWS/States", "ExecutionsFailed", "Sum"),
    "SettlementStandardTimedOut": ("AWS/States", "ExecutionsTimedOut", "Sum"),
    "SettlementStandardAborted": ("AWS/States", "ExecutionsAborted", "Sum"),
    "StartQueueAge": ("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum"),
    "StartDeadLetters": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum"),
    "StartSettlementsFailed": ("AWS/Lambda", "Errors", "Sum"),
    "KycDecidedFailed": ("AWS/Lambda", "Errors", "Sum"),
    "KycCircuitOpen": ("Settlement", "KycCircuit", "Maximum"),
    "KycRequestRefused": ("Settlement", "KycRequestRefused", "Sum"),
    "KycSecretUnreadable": ("Settlement", "KycSecretUnreadable", "Sum"),
    "KycVerdictConflict": ("Settlement", "KycVerdictConflict", "Sum"),
}
"""Each alarm on one metric, with its namespace, name and statistic."""

SUMS = {
    "ForwardThrottled": ("AWS/Lambda", {"Throttles"}),
    "CompensatingThrottled": ("AWS/Lambda", {"Throttles"}),
    "TriggeredThrottled": ("AWS/Lambda", {"Throttles"}),
    "TableThrottled": ("AWS/DynamoDB", {"ReadThrottleEvents", "WriteThrottleEvents"}),
}
"""The alarms on a sum of metrics, on AWS only: the embedded AWS has no metric math."""

OURS = {alarm for alarm, (namespace, *_) in ALARMS.items() if namespace == "Settlement"}
"""Alarms on metrics of our own, which the functions write into their logs."""

each_alarm = pytest.mark.parametrize(
    ("stage", "alarm"), [(stage, alarm) for stage in STAGES for alarm in ALARMS]
)
each_sum = pytest.mark.parametrize(
    ("stage", "alarm"), [(stage, alarm) for stage in ("dev", "prod") for alarm in SUMS]
)


def properties(stage: str) -> dict[str, Any]:
    """Return the properties of the stage's alarms by their names."""
    found = templates.resources("AWS::CloudWatch::Alarm", stage)
    return {name(one).removeprefix("Pager"): resource["Properties"] for one, resource in found.items()}


def counted() -> set[str]:
    """Return the metrics that the functions write: by name, as a refusal, or as a reason of the store."""
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
                for part in _named(node):
                    found |= _texts(part) | _texts(tables.get(getattr(part, "id", ""), ast.Pass()))
            elif isinstance(node, ast.keyword) and node.arg == "metric":  # a StepTransaction's
                found |= _texts(node.value)
    return found


def _called(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))


def _named(call: ast.Call) -> list[ast.AST]:
    """Return the expressions that a metric's name may come from."""
    given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "name")]
    return [part for one in given for part in ast.walk(one)]


def _texts(part: ast.AST) -> set[str]:
    return {
        one.value for one in ast.walk(part) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }
