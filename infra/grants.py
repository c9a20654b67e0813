"""The permissions of each function: DynamoDB actions, rows, and machines to start."""

from collections.abc import Mapping

from aws_cdk import aws_lambda as lambda_

from infra.state_machines import Machine
from infra.table import SettlementTable

Rows = tuple[str, ...]
"""Patterns of partition keys. The kinds of rows have different ones, so that IAM can tell them apart."""

SETTLEMENT, ACCOUNT, ENTRIES, EVIDENCE = "SETTLEMENT#*", "ACCOUNT#*", "ENTRIES#*", "EVIDENCE#*"

SWEPT, MERCHANT_ENTRIES, MERCHANT = "SWEPT#*", "ENTRIES#merchant.*", "ACCOUNT#merchant.*"

GRANTS: Mapping[str, Mapping[str, Rows]] = {
    "HoldFunds": {
        "GetItem": (SETTLEMENT,),
        "PutItem": (SETTLEMENT, ENTRIES),
        "UpdateItem": (SETTLEMENT, ACCOUNT),
    },
    "VerifyKyc": {
        "GetItem": (SETTLEMENT, EVIDENCE, "CIRCUIT"),
        "PutItem": (EVIDENCE, "CIRCUIT"),
        "UpdateItem": (SETTLEMENT, "CIRCUIT"),
    },
    "ReleaseFunds": {
        "GetItem": (ACCOUNT,),
        "PutItem": (ENTRIES,),
        "UpdateItem": (SETTLEMENT, ACCOUNT),
    },
    "CollectFee": {"PutItem": (ENTRIES,), "UpdateItem": (SETTLEMENT,)},
    "RejectSettlement": {"PutItem": (SETTLEMENT,), "UpdateItem": (SETTLEMENT,)},
    "ReportOutcome": {"GetItem": (SETTLEMENT,)},
    "BeginCompensation": {
        "GetItem": (SETTLEMENT,),
        "PutItem": (SETTLEMENT, EVIDENCE),
        "UpdateItem": (SETTLEMENT,),
    },
    "RefundFee": {"PutItem": (ENTRIES,), "UpdateItem": (SETTLEMENT,)},
    "ReclaimFunds": {
        "GetItem": (SETTLEMENT, SWEPT),
        "Query": (MERCHANT_ENTRIES,),
        "PutItem": (ENTRIES, SWEPT),
        "UpdateItem": (SETTLEMENT, ACCOUNT),
    },
    "VoidHold": {"PutItem": (ENTRIES,), "UpdateItem": (SETTLEMENT, ACCOUNT)},
    "EnterLimbo": {
        "GetItem": (SETTLEMENT,),
        "PutItem": (EVIDENCE,),
        "UpdateItem": (SETTLEMENT, ACCOUNT),
    },
    "PrepareAlert": {"GetItem": (SETTLEMENT,)},
    "AwaitResolution": {"GetItem": (SETTLEMENT,), "PutItem": ("WAITING#*",)},
    "ResolveLimbo": {
        "GetItem": (SETTLEMENT, EVIDENCE),
        "PutItem": (ENTRIES, EVIDENCE),
        "UpdateItem": (SETTLEMENT, ACCOUNT),
    },
}
"""The functions of states: their actions, each with its rows. IAM authorises a transaction by its items'
actions, and refuses the whole of it for one row that is not among them.
"""

TRIGGERED: Mapping[str, Mapping[str, Rows]] = {
    "KycDecided": {
        "GetItem": (SETTLEMENT,),
        "PutItem": (EVIDENCE, "KYC_EVENT#*"),
        "UpdateItem": (SETTLEMENT,),
    },
    "RecoverStalled": {"GetItem": (SETTLEMENT, "WAITING#*"), "UpdateItem": (SETTLEMENT,)},
    "StartSettlements": {"GetItem": (SETTLEMENT,), "PutItem": (SETTLEMENT,)},
    "SweepMerchants": {
        "GetItem": (SWEPT,),
        "Query": (MERCHANT_ENTRIES,),
        "PutItem": (SWEPT,),
        "UpdateItem": (MERCHANT,),
    },
}
"""The functions that no machine calls: they serve a webhook, a schedule, a queue and the table's stream."""

STARTING = ("KycDecided", "RecoverStalled", "StartSettlements")
"""The functions that start settlements."""


def grant_rows(table: SettlementTable, functions: Mapping[str, lambda_.Function]) -> None:
    """Grant each function its actions on rows, and recovery the index."""
    for name, actions in (*GRANTS.items(), *TRIGGERED.items()):
        table.grant(functions[name], {f"dynamodb:{action}": rows for action, rows in actions.items()})
    table.grant_listing(functions["RecoverStalled"])


def grant_starts(
    functions: Mapping[str, lambda_.Function], *, express: Machine, standard: Machine, compensation: Machine
) -> None:
    """Let functions start Standard settlements, and recovery start the other machines as well.

    Recovery's settlements overflow to Express: after an outage they are more than an account's quota of
    Standard starts. See docs/decisions/2026-11-22-recovery-at-scale.md.
    """
    for name in STARTING:
        standard.startable_by(functions[name], "SETTLEMENT_MACHINE")
    recovery = functions["RecoverStalled"]
    express.startable_by(recovery, "EXPRESS_MACHINE")
    compensation.startable_by(recovery, "COMPENSATION_MACHINE")
    compensation.describable_by(recovery)
