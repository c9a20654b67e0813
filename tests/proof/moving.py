from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import EXISTS
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, put, update
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from tests.proof.town import external
from tests.world.environment import NOW


def moving(store: Store, account: str) -> Callable[..., Iterator[Row]]:
    """Return a replacement of `store.entries` that credits a cent to the account before each read."""
    read, numbers, later = store.entries, count(), timestamp(NOW + timedelta(seconds=1))

    def entries(*bounds: str, **more: Any) -> Iterator[Row]:
        entry = external(f"a-deposit-{next(numbers):06}", "deposit", account, 1, "EUR", later)
        entry |= {"request_hash": "0" * 64}
        credit = update(
            keys.account(account),
            "SET available = available + :amount",
            values={":amount": 1},
            conditions=[EXISTS],
            on_failure=AlreadyApplied,
        )
        store.transact([put(entry, on_failure=AlreadyApplied), credit])
        return read(*bounds, **more)

    return entries
