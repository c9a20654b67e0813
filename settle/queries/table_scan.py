"""The reconciliation of a stack's table, which may be at work."""

from collections.abc import Iterator
from typing import Any

from settle import reconciliation
from settle.queries import pages
from settle.queries.second_look import look_again
from settle.reconciliation import Findings
from settle.stack import Stack
from settlement.ledger.keys import Row
from settlement.model import money
from settlement.model.status import REVERSIBLE, Step

_ATTRIBUTES = (
    *("pk", "sk", "status", "payer", "payee", "amount", "fee", "currency", "escrow", "request_hash"),
    *(step.slot for step in Step),
    *(step.reversal_slot for step in REVERSIBLE),
    *("verdict", "decision", "resolution", "resolutions"),
    *("step", "posted_at", "debit", "credit", "side", "available", "folded"),
)
"""The attributes that are judged. No other leaves the table: neither a name, nor a reason, nor a token."""


def check(stack: Stack) -> Findings:
    """Reconcile the whole table of a stack."""
    return reconciliation.reconcile(_every_row(stack), lambda difference: look_again(stack, difference))


def proof(stack: Stack) -> dict[str, Any]:
    """Reconcile the whole table, and return the findings with amounts as decimal strings."""

    def render(amount: int, currency: str) -> str:
        return money.render(amount, stack.config.currencies[currency])

    return reconciliation.describe(check(stack), render)


def _every_row(stack: Stack) -> Iterator[Row]:
    names = {f"#{number}": name for number, name in enumerate(_ATTRIBUTES)}
    return pages.scan(stack, ProjectionExpression=", ".join(names), ExpressionAttributeNames=names)
