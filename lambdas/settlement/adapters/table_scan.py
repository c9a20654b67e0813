"""The reconciliation of a table, which may be at work."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from settlement.adapters import pages
from settlement.adapters.dynamodb import Store
from settlement.adapters.second_look import look_again
from settlement.ledger.keys import Row
from settlement.model import money
from settlement.reconciliation import Findings, describe, reconcile
from settlement.reconciliation.attributes import JUDGED


def check(store: Store, *, currencies: Collection[str] | None = None) -> Findings:
    """Reconcile the whole table. A row in none of the `currencies` is at fault (None: any may be)."""
    return reconcile(
        _every_row(store), lambda difference: look_again(store, difference), currencies=currencies
    )


def proof(store: Store, currencies: Mapping[str, int]) -> dict[str, Any]:
    """Reconcile the whole table, and return the findings with amounts as decimal strings.

    `currencies` maps each currency of the stage to its exponent.
    """

    def render(amount: int, currency: str) -> str:
        if currency not in currencies:
            return f"{amount} minor units"
        return money.render(amount, currencies[currency])

    return describe(check(store, currencies=currencies), render)


def _every_row(store: Store) -> Iterator[Row]:
    names = {f"#{number}": name for number, name in enumerate(JUDGED)}
    return pages.scan(store, ProjectionExpression=", ".join(names), ExpressionAttributeNames=names)
