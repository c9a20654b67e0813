"""A payee's bank account, read from the table."""

from datetime import datetime
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.payouts.payout import masked
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import timestamp
from settlement.payouts.destination import Destination

_NOTED = ("reason", "frozen_by", "last_payout")


def show(stack: Stack, name: str, now: datetime) -> dict[str, Any]:
    """Return a bank account, with who added and confirmed it. Raises CommandFailed, MalformedRow."""
    row = stack.store.read(keys.destination(name))
    if row is None:
        raise CommandFailed(Exit.NOT_FOUND, f"id: {name} is no payee in {stack.name}")
    found = Destination.from_rows(row, stack.store.read(keys.destination_confirmed(name)))
    return {
        "id": found.id,
        "state": _state(found, now),
        "account": found.account,
        "iban": masked(found.iban),
        "holder": found.holder,
        "added_by": found.added_by,
        "added_at": found.added_at,
        "confirmed_by": found.confirmed_by,
        "payable_from": found.payable_from,
        "frozen_at": found.frozen_at,
        **_noted(row),
    }


def _noted(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in _NOTED if isinstance(row.get(name), str)}


def _state(found: Destination, now: datetime) -> str:
    if found.frozen_at is not None:
        return "frozen"
    if found.payable_from is None:
        return "added: another person confirms it"
    return "payable" if found.payable_from <= timestamp(now) else "confirmed: not payable yet"
