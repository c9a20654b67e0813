"""The permissions of each function: DynamoDB actions, rows, and machines to start."""

from collections.abc import Mapping

from aws_cdk import aws_lambda as lambda_

from infra.state_machines import Machine
from infra.table import SettlementTable

GRANTS = {
    "ClaimKey": ("dynamodb:GetItem", "dynamodb:PutItem"),
    "HoldFunds": ("dynamodb:PutItem", "dynamodb:UpdateItem"),
    "VerifyKyc": ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
    "ReleaseFunds": ("dynamodb:PutItem", "dynamodb:UpdateItem"),
    "CollectFee": ("dynamodb:PutItem", "dynamodb:UpdateItem"),
    "RejectSettlement": ("dynamodb:UpdateItem",),
    "ReportOutcome": ("dynamodb:GetItem",),
    "BeginCompensation": ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
    "RefundFee": ("dynamodb:PutItem", "dynamodb:UpdateItem"),
    "ReclaimFunds": ("dynamodb:PutItem", "dynamodb:UpdateItem"),
    "VoidHold": ("dynamodb:PutItem", "dynamodb:UpdateItem"),
    "EnterLimbo": ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
    "PrepareAlert": ("dynamodb:GetItem",),
    "AwaitResolution": ("dynamodb:UpdateItem",),
    "ResolveLimbo": ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
}
"""The functions of states, with their actions. IAM authorises a transaction by its items' actions."""

TRIGGERED = {
    "KycDecided": ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
    "RecoverStalled": ("dynamodb:GetItem", "dynamodb:UpdateItem"),
    "StartSettlements": ("dynamodb:GetItem", "dynamodb:PutItem"),
}
"""The functions that no machine calls, with their actions: they serve a webhook, a schedule and a queue."""

KEYS = {
    "ClaimKey": ("SETTLEMENT#*",),
    "VerifyKyc": ("SETTLEMENT#*", "CIRCUIT"),
    "KycDecided": ("SETTLEMENT#*", "KYC_EVENT#*"),
    "RecoverStalled": ("SETTLEMENT#*",),
    "StartSettlements": ("SETTLEMENT#*",),
}
"""The partition keys of functions that must never reach a balance; the other functions may use every key."""


def grant_rows(table: SettlementTable, functions: Mapping[str, lambda_.Function]) -> None:
    """Grant each function its actions on rows, and recovery the index."""
    for name, actions in (GRANTS | TRIGGERED).items():
        table.grant(functions[name], *actions, rows=KEYS.get(name, ("*",)))
    table.grant_listing(functions["RecoverStalled"])


def grant_starts(
    functions: Mapping[str, lambda_.Function], *, standard: Machine, compensation: Machine
) -> None:
    """Let the triggered functions start Standard settlements, and recovery start compensations as well."""
    for name in TRIGGERED:
        standard.startable_by(functions[name], "SETTLEMENT_MACHINE")
    compensation.startable_by(functions["RecoverStalled"], "COMPENSATION_MACHINE")
    compensation.describable_by(functions["RecoverStalled"])
