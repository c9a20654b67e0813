"""What a function is to the stack: its permissions on rows, its limits and its alarm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws_cdk import aws_lambda as lambda_

from infra.table import EXPIRES, SettlementTable
from infra.urgency import Urgency

Rows = tuple[str, ...]
"""Patterns of partition keys. The kinds of rows have different ones, so that IAM can tell them apart."""

SETTLEMENT, ACCOUNT, ENTRIES, EVIDENCE = "SETTLEMENT#*", "ACCOUNT#*", "ENTRIES#*", "EVIDENCE#*"

ORDER, WAITING, PROPOSAL = "ORDER#*", "WAITING#*", "PROPOSAL#*"
SWEPT, MERCHANT_ENTRIES, MERCHANT = "SWEPT#*", "ENTRIES#merchant.*", "ACCOUNT#merchant.*"

LONG_MEMORY_MB = 1_024
"""The least memory of a function whose work grows with a backlog, and with it the share of a CPU: recovery's
threads look at some 700 settlements a second with it, and at half as many with 512 MB.
"""

WAITING_SECONDS = 29
"""The timeout of a function whose caller may wait 20 s for a change: API Gateway gives a call 30 s."""

MONEY_ATTRIBUTES = (
    *("available", "currency", "escrow", "hold_at", "verify_at", "release_at", "fee_at"),
    *("hold_reversed_at", "release_reversed_at", "fee_reversed_at"),
)
"""What a payout depends on: the balances, the escrow, their currency, and the slots of the steps."""


@dataclass(frozen=True, kw_only=True)
class Handler:
    """The function of a handler.

    `rows` are its actions, each with its rows. IAM authorises a transaction by its items' actions, and
    refuses the whole of it for one row that is not among them. `Put` and `Update` are the items of a
    transaction, `PutItem` and `UpdateItem` are writes of their own: what moves money is among the former
    alone.
    `names` are the attributes of money that its writes name, in a change or in a condition; any other is
    denied to it. Without `escrow` no hold can be forged, as the release and the void ask the escrow for the
    amount. Only one that `expires` entries may put or name `expires_at`.
    One that `lists` queries the index, one that `reads_all` scans the table, and one that does not even reach
    the table has no right to its key.
    `seconds` is its own timeout, where no caller waits for the stage's, and `memory_mb` its least memory.
    `failure` is the urgency of each error of a function that answers a refusal without one, or meets none.
    A caller `by_http` gets a throttle as a status, and repeats the call.
    """

    rows: Mapping[str, Rows] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    expires: bool = False
    lists: bool = False
    reads_all: bool = False
    reaches_table: bool = True
    seconds: int | None = None
    memory_mb: int = 0
    disk_gb: int | None = None
    failure: Urgency | None = None
    by_http: bool = False

    @property
    def untouched(self) -> list[str]:
        """The attributes that no write may name, beside the immutable ones."""
        found = [one for one in MONEY_ATTRIBUTES if one not in self.names]
        return found if self.expires else [*found, EXPIRES]

    @property
    def puts(self) -> frozenset[str]:
        """The rows that it puts."""
        return frozenset((*self.rows.get("Put", ()), *self.rows.get("PutItem", ())))


STATES: Mapping[str, Handler] = {
    "HoldFunds": Handler(
        rows={
            "GetItem": (SETTLEMENT, ACCOUNT),
            "PutItem": (SETTLEMENT,),
            "Put": (SETTLEMENT, ENTRIES),
            "Update": (SETTLEMENT, ACCOUNT),
        },
        names=("available", "currency", "escrow", "hold_at"),
        expires=True,
    ),
    "VerifyKyc": Handler(
        rows={
            "GetItem": (SETTLEMENT, EVIDENCE, "CIRCUIT"),
            "PutItem": (EVIDENCE, "CIRCUIT"),
            "UpdateItem": (SETTLEMENT,),
        },
        names=("hold_at", "verify_at"),
    ),
    "ReleaseFunds": Handler(
        rows={"GetItem": (ACCOUNT, SETTLEMENT), "Put": (ENTRIES,), "Update": (SETTLEMENT, ACCOUNT)},
        names=("available", "currency", "escrow", "verify_at", "release_at"),
        expires=True,
    ),
    "CollectFee": Handler(
        rows={"Put": (ENTRIES,), "Update": (SETTLEMENT,)},
        names=("currency", "escrow", "release_at", "fee_at"),
        expires=True,
    ),
    "RejectSettlement": Handler(
        rows={"PutItem": (SETTLEMENT,), "UpdateItem": (SETTLEMENT,)}, names=("currency", "escrow", "hold_at")
    ),
    "ReportOutcome": Handler(rows={"GetItem": (SETTLEMENT,)}),
    "BeginCompensation": Handler(
        rows={"GetItem": (SETTLEMENT,), "PutItem": (SETTLEMENT,), "UpdateItem": (SETTLEMENT,)},
        names=("currency", "escrow", "hold_at", "release_at"),
    ),
    "RefundFee": Handler(
        rows={"Put": (ENTRIES,), "Update": (SETTLEMENT,)},
        names=("currency", "escrow", "fee_at", "fee_reversed_at"),
        expires=True,
    ),
    "ReclaimFunds": Handler(
        rows={
            "GetItem": (SETTLEMENT, SWEPT, MERCHANT),
            "Query": (MERCHANT_ENTRIES,),
            "Put": (ENTRIES, SWEPT),
            "Update": (SETTLEMENT, ACCOUNT),
        },
        names=("available", "currency", "escrow", "release_at", "release_reversed_at"),
        expires=True,
    ),
    "VoidHold": Handler(
        rows={"UpdateItem": (SETTLEMENT,), "Put": (ENTRIES,), "Update": (SETTLEMENT, ACCOUNT)},
        names=("available", "currency", "escrow", "hold_at", "hold_reversed_at", "fee_at", "fee_reversed_at"),
        expires=True,
    ),
    "EnterLimbo": Handler(
        rows={"GetItem": (SETTLEMENT,), "Put": (EVIDENCE,), "Update": (SETTLEMENT, ACCOUNT)},
        names=("hold_reversed_at", "release_reversed_at", "fee_reversed_at"),
    ),
    "PrepareAlert": Handler(rows={"GetItem": (SETTLEMENT,)}),
    "AwaitResolution": Handler(rows={"GetItem": (SETTLEMENT,), "PutItem": (WAITING,)}),
    "ResolveLimbo": Handler(rows={"GetItem": (EVIDENCE,)}),
}
"""The functions of states."""


def allow(sid: str, actions: Sequence[str], resources: Sequence[str]) -> dict[str, Any]:
    """Return a statement of a policy."""
    return {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": list(resources)}


def decrypt(sid: str, key: str, service: str, region: str) -> dict[str, Any]:
    """Let a person use a key to read, through the one service that encrypts by it."""
    through = {"StringEquals": {"kms:ViaService": f"{service}.{region}.amazonaws.com"}}
    return allow(sid, ["kms:Decrypt"], [key]) | {"Condition": through}


def grant_rows(
    table: SettlementTable, functions: Mapping[str, lambda_.Function], handlers: Mapping[str, Handler]
) -> None:
    """Grant each function its actions on rows, the index, or the whole table to read."""
    for name, handler in handlers.items():
        if handler.reaches_table:
            table.grant(functions[name], handler.rows, untouched=handler.untouched)
        if handler.lists:
            table.grant_listing(functions[name])
        if handler.reads_all:
            table.grant_reading(functions[name])
