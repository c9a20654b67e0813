"""The permissions of each function: DynamoDB actions, rows, and machines to start."""

from collections.abc import Mapping

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from infra.state_machines import Machine
from infra.table import EXPIRES, SettlementTable

Rows = tuple[str, ...]
"""Patterns of partition keys. The kinds of rows have different ones, so that IAM can tell them apart."""

SETTLEMENT, ACCOUNT, ENTRIES, EVIDENCE = "SETTLEMENT#*", "ACCOUNT#*", "ENTRIES#*", "EVIDENCE#*"

ORDER, WAITING, PROPOSAL = "ORDER#*", "WAITING#*", "PROPOSAL#*"
SWEPT, MERCHANT_ENTRIES, MERCHANT = "SWEPT#*", "ENTRIES#merchant.*", "ACCOUNT#merchant.*"

GRANTS: Mapping[str, Mapping[str, Rows]] = {
    "HoldFunds": {
        "GetItem": (SETTLEMENT, ACCOUNT),
        "PutItem": (SETTLEMENT,),
        "Put": (SETTLEMENT, ENTRIES),
        "Update": (SETTLEMENT, ACCOUNT),
    },
    "VerifyKyc": {
        "GetItem": (SETTLEMENT, EVIDENCE, "CIRCUIT"),
        "PutItem": (EVIDENCE, "CIRCUIT"),
        "UpdateItem": (SETTLEMENT,),
    },
    "ReleaseFunds": {"GetItem": (ACCOUNT, SETTLEMENT), "Put": (ENTRIES,), "Update": (SETTLEMENT, ACCOUNT)},
    "CollectFee": {"Put": (ENTRIES,), "Update": (SETTLEMENT,)},
    "RejectSettlement": {"PutItem": (SETTLEMENT,), "UpdateItem": (SETTLEMENT,)},
    "ReportOutcome": {"GetItem": (SETTLEMENT,)},
    "BeginCompensation": {
        "GetItem": (SETTLEMENT,),
        "PutItem": (SETTLEMENT,),
        "UpdateItem": (SETTLEMENT,),
    },
    "RefundFee": {"Put": (ENTRIES,), "Update": (SETTLEMENT,)},
    "ReclaimFunds": {
        "GetItem": (SETTLEMENT, SWEPT, MERCHANT),
        "Query": (MERCHANT_ENTRIES,),
        "Put": (ENTRIES, SWEPT),
        "Update": (SETTLEMENT, ACCOUNT),
    },
    "VoidHold": {"UpdateItem": (SETTLEMENT,), "Put": (ENTRIES,), "Update": (SETTLEMENT, ACCOUNT)},
    "EnterLimbo": {"GetItem": (SETTLEMENT,), "Put": (EVIDENCE,), "Update": (SETTLEMENT, ACCOUNT)},
    "PrepareAlert": {"GetItem": (SETTLEMENT,)},
    "AwaitResolution": {"GetItem": (SETTLEMENT,), "PutItem": (WAITING,)},
    "ResolveLimbo": {"GetItem": (EVIDENCE,)},
}
"""The functions of states: their actions, each with its rows. IAM authorises a transaction by its items'
actions, and refuses the whole of it for one row that is not among them. `Put` and `Update` are the items of a
transaction, `PutItem` and `UpdateItem` are writes of their own: what moves money is among the former alone.
"""

TRIGGERED: Mapping[str, Mapping[str, Rows]] = {
    "RecoverStalled": {"GetItem": (SETTLEMENT, WAITING), "UpdateItem": (SETTLEMENT,)},
    "KycDecided": {
        "GetItem": (SETTLEMENT,),
        "Put": (EVIDENCE, "KYC_EVENT#*"),
        "Update": (SETTLEMENT,),
    },
    "StartSettlements": {"GetItem": (SETTLEMENT,), "PutItem": (SETTLEMENT,)},
    "AcceptSettlements": {"GetItem": (SETTLEMENT,), "PutItem": (SETTLEMENT,)},
    "CancelSettlement": {"GetItem": (SETTLEMENT,), "UpdateItem": (SETTLEMENT,)},
    "TakeOrder": {
        "GetItem": (SETTLEMENT, EVIDENCE, ACCOUNT, WAITING, SWEPT, PROPOSAL),
        "Query": (MERCHANT_ENTRIES, SWEPT),
        "Put": (ORDER, EVIDENCE, ENTRIES, SWEPT, PROPOSAL),
        "Update": (SETTLEMENT, ACCOUNT, PROPOSAL),
    },
    "ReadSettlements": {"GetItem": (SETTLEMENT, ACCOUNT), "Query": (ENTRIES,)},
    "SweepMerchants": {
        "GetItem": (SWEPT, MERCHANT),
        "Query": (MERCHANT_ENTRIES,),
        "Put": (SWEPT,),
        "Update": (MERCHANT,),
    },
    "PublishEvents": {"GetItem": (SETTLEMENT,)},  # for a replay; else it gets rows from the stream
    "SendPage": {},  # it reads the event, and no row
    "SealJournal": {},  # it gets rows from the stream, and none from the table
    "ReconcileBooks": {},
}
"""The functions that no machine calls: they serve a webhook, schedules, a queue, callers of HTTP, people's
orders, readers, and the table's stream. ReconcileBooks reads every row and writes none: a scan has no
partition keys to tell rows apart by.
"""

OPTIONAL = ("ProjectEntries",)
"""The functions that a stage has if it sets what they are for. None has a row of the table, or its stream."""

WITHOUT_ROWS = ("SendPage",)
"""The functions that reach neither the table nor its key, nor the stream."""

MONEY_ATTRIBUTES = (
    *("available", "currency", "escrow", "hold_at", "verify_at", "release_at", "fee_at"),
    *("hold_reversed_at", "release_reversed_at", "fee_reversed_at"),
)
"""What a payout depends on: the balances, the escrow, their currency, and the slots of the steps."""

NAMED: Mapping[str, tuple[str, ...]] = {
    "HoldFunds": ("available", "currency", "escrow", "hold_at"),
    "VerifyKyc": ("hold_at", "verify_at"),
    "ReleaseFunds": ("available", "currency", "escrow", "verify_at", "release_at"),
    "CollectFee": ("currency", "escrow", "release_at", "fee_at"),
    "RejectSettlement": ("currency", "escrow", "hold_at"),
    "BeginCompensation": ("currency", "escrow", "hold_at", "release_at"),
    "RefundFee": ("currency", "escrow", "fee_at", "fee_reversed_at"),
    "ReclaimFunds": ("available", "currency", "escrow", "release_at", "release_reversed_at"),
    "VoidHold": (
        "available",
        "currency",
        "escrow",
        "hold_at",
        "hold_reversed_at",
        "fee_at",
        "fee_reversed_at",
    ),
    "EnterLimbo": ("hold_reversed_at", "release_reversed_at", "fee_reversed_at"),
    "KycDecided": ("hold_at", "verify_at"),
    "RecoverStalled": ("release_at",),
    "StartSettlements": ("currency", "escrow"),
    "AcceptSettlements": ("currency", "escrow"),
    "CancelSettlement": ("hold_at",),
    "SweepMerchants": ("available", "currency"),
    "TakeOrder": (
        *("available", "currency", "escrow", "hold_at", "release_at", "fee_at"),
        *("hold_reversed_at", "release_reversed_at", "fee_reversed_at"),
    ),
}
"""Those that a function's writes name, in a change or in a condition; any other is denied to it. Without
`escrow` no hold can be forged, as the release and the void ask the escrow for the amount.
"""

EXPIRING = ("HoldFunds", "ReleaseFunds", "CollectFee", "RefundFee", "ReclaimFunds", "VoidHold")
"""The functions whose entries expire, on a stage with a retention. No other may put or name `expires_at`."""

STARTING = ("RecoverStalled", "StartSettlements", "AcceptSettlements")
"""The functions that start settlements. KycDecided, which strangers can call, asks RecoverStalled for it."""


READING = ("ReconcileBooks",)
"""The functions that read the whole table."""


def untouched(name: str) -> list[str]:
    """Return the attributes that no write of a function may name, beside the immutable ones."""
    found = [one for one in MONEY_ATTRIBUTES if one not in NAMED.get(name, ())]
    return found if name in EXPIRING else [*found, EXPIRES]


def grant_rows(table: SettlementTable, functions: Mapping[str, lambda_.Function]) -> None:
    """Grant each function its actions on rows; three of them the index; the proof the table."""
    for name, actions in (*GRANTS.items(), *TRIGGERED.items()):
        if name in WITHOUT_ROWS:
            continue
        table.grant(functions[name], actions, untouched=untouched(name))
    for name in ("RecoverStalled", "ReconcileBooks", "ReadSettlements"):
        table.grant_listing(functions[name])
    for name in READING:
        table.grant_reading(functions[name])


def grant_starts(
    functions: Mapping[str, lambda_.Function], *, express: Machine, standard: Machine, compensation: Machine
) -> None:
    """Let functions start Standard settlements, recovery the other machines too, and some ask recovery.

    The webhook and the starters' cancellation ask it to resume what they have ended, and start nothing.

    The function of people's orders may wake an execution in LIMBO, start one, ask recovery, ask VerifyKyc for
    a probe, and PublishEvents for a replay.

    Recovery's settlements overflow to Express: after an outage they are more than an account's quota of
    Standard starts. See docs/decisions/2026-11-22-recovery-at-scale.md.
    """
    for name in STARTING:
        standard.startable_by(functions[name], "SETTLEMENT_MACHINE")
    recovery, orders = functions["RecoverStalled"], functions["TakeOrder"]
    for asking in (functions["KycDecided"], functions["CancelSettlement"], orders):
        asking.add_environment("RECOVER_STALLED", recovery.function_arn)
        _let_call(asking, recovery)
    for variable, asked in (("VERIFY_KYC", "VerifyKyc"), ("PUBLISH_EVENTS", "PublishEvents")):
        orders.add_environment(variable, functions[asked].function_arn)
        _let_call(orders, functions[asked])
    express.startable_by(recovery, "EXPRESS_MACHINE")
    compensation.startable_by(recovery, "COMPENSATION_MACHINE")
    compensation.startable_by(orders, "COMPENSATION_MACHINE")
    for looking in (recovery, orders):
        compensation.describable_by(looking)
    compensation.wakeable_by(orders)


def _let_call(caller: lambda_.Function, called: lambda_.Function) -> None:
    caller.add_to_role_policy(
        iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[called.function_arn])
    )
