"""The reconciliation of a table, which may be at work."""

from collections.abc import Iterator, Mapping
from typing import Any

from settlement.adapters import pages
from settlement.adapters.dynamodb import Store
from settlement.adapters.second_look import look_again
from settlement.ledger.keys import Row
from settlement.model import money
from settlement.model.status import REVERSIBLE, Step
from settlement.reconciliation import Findings, describe, reconcile

_ATTRIBUTES = (
    *("pk", "sk", "status", "payer", "payee", "amount", "fee", "currency", "escrow", "request_hash"),
    *(step.slot for step in Step),
    *(step.reversal_slot for step in REVERSIBLE),
    *("verdict", "decision", "resolution", "resolutions"),
    *("step", "posted_at", "debit", "credit", "side", "available", "folded"),
)
"""The attributes that are judged. No other leaves the table: neither a name, nor a reason, nor a token."""


def check(store: Store) -> Findings:
    """Reconcile the whole table."""
    return reconcile(_every_row(store), lambda difference: look_again(store, difference))


def proof(store: Store, currencies: Mapping[str, int]) -> dict[str, Any]:
    """Reconcile the whole table, and return the findings with amounts as decimal strings.

    `currencies` maps each currency of the stage to its exponent.
    """

    def render(amount: int, currency: str) -> str:
        return money.render(amount, currencies[currency])

    return describe(check(store), render)


def _every_row(store: Store) -> Iterator[Row]:
    names = {f"#{number}": name for number, name in enumerate(_ATTRIBUTES)}
    return pages.scan(store, ProjectionExpression=", ".join(names), ExpressionAttributeNames=names)
