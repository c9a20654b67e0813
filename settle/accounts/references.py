from collections.abc import Sequence

from settle.stack import Stack
from settlement.accounts.order import OrderKind
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.store import batch

_OF_ORDERS = (OrderKind.DEPOSIT, OrderKind.WITHDRAW)


def read(stack: Stack, entries: Sequence[Row]) -> list[str | None]:
    """Return payments' references by entry, None for others. Settlement rows never expire."""
    subjects = [None if entry["step"] in _OF_ORDERS else entry["key"] for entry in entries]
    rows = [keys.settlement(key) for key in dict.fromkeys(subjects) if key is not None]
    found = {keys.subject(row)[1]: row.get("reference") for row in batch.read(stack.store, rows)}
    references = [found.get(key or "") for key in subjects]
    return [reference if isinstance(reference, str) else None for reference in references]
