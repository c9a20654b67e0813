from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aws_cdk import aws_lambda as lambda_

from .table import EXPIRES, SettlementTable
from .urgency import Urgency

Rows = tuple[str, ...]
"""Patterns of partition keys. For IAM, they are the kinds of rows."""

SETTLEMENT, ACCOUNT, ENTRIES, EVIDENCE = "SETTLEMENT#*", "ACCOUNT#*", "ENTRIES#*", "EVIDENCE#*"

ORDER, WAITING, PROPOSAL = "ORDER#*", "WAITING#*", "PROPOSAL#*"

LONG_MEMORY_MB = 1_024
"""Least memory for work that grows with a backlog.

With it, recovery looks at 700 settlements a second; with 512 MB, at half as many.
"""

WAITING_SECONDS = 29
"""Timeout of a function whose caller may wait 20 s. API Gateway allows 30 s."""

MONEY_ATTRIBUTES = (
    *("available", "currency", "escrow", "hold_at", "verify_at", "release_at", "fee_at"),
    *("hold_reversed_at", "release_reversed_at", "fee_reversed_at"),
)
"""Attributes that decide who gets money: balances, currency, escrow and step slots."""


@dataclass(frozen=True, kw_only=True)
class Handler:
    """The grants and limits of a handler's function.

    - `rows`: the rows of each action. `Put` and `Update` are items of a transaction. `PutItem` and
      `UpdateItem` are single writes, which move no money. IAM refuses a transaction if one of its items is
      not granted.
    - `names`: the money attributes that writes may name, even in conditions. Without "escrow" in `names`, a
      function cannot forge a hold: release and void demand the amount in escrow.
    - `expires`: writes may name `expires_at`, too.
    - `lists`: grants queries of the index. `reads_all`: grants scans.
    - `reaches_table`: if false, the function may not use the table's encryption key.
    - `seconds`: replaces the stage's timeout.
    - `memory_mb`: the least memory.
    - `failure`: the urgency of an alarm on any error. None if the function also raises for refusals.
    - `by_http`: the callers get a throttle as an HTTP status, and repeat the call.
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

    def widened(self, rows: Mapping[str, Rows]) -> "Handler":
        more = {action: (*self.rows.get(action, ()), *found) for action, found in rows.items()}
        return replace(self, rows={**self.rows, **more})

    @property
    def untouched(self) -> list[str]:
        """Attributes that no write may name. The immutable attributes come in addition."""
        found = [one for one in MONEY_ATTRIBUTES if one not in self.names]
        return found if self.expires else [*found, EXPIRES]

    @property
    def puts(self) -> frozenset[str]:
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
            "GetItem": (SETTLEMENT,),
            "Put": (ENTRIES,),
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


def allow(sid: str, actions: Sequence[str], resources: Sequence[str]) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": list(resources)}


def decrypt(sid: str, key: str, service: str, region: str) -> dict[str, Any]:
    through = {"StringEquals": {"kms:ViaService": f"{service}.{region}.amazonaws.com"}}
    return allow(sid, ["kms:Decrypt"], [key]) | {"Condition": through}


def grant_rows(
    table: SettlementTable, functions: Mapping[str, lambda_.Function], handlers: Mapping[str, Handler]
) -> None:
    for name, handler in handlers.items():
        if handler.reaches_table:
            table.grant(functions[name], handler.rows, untouched=handler.untouched)
        if handler.lists:
            table.grant_listing(functions[name])
        if handler.reads_all:
            table.grant_reading(functions[name])
