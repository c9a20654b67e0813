"""Sweeping a merchant by hand, for what a lost record of the stream has left."""

from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.queries import merchant as merchants
from settle.stack import Stack
from settlement.adapters import sweeper
from settlement.model import accounts, money


def sweep(stack: Stack, merchant: str, since: str | None = None) -> dict[str, Any]:
    """Make available what a merchant has received and no sweep has folded, and return it by minute.

    Safe to repeat. `since` leaves out what was posted before its minute.
    """
    if not accounts.is_merchant(merchant):
        raise CommandFailed(Exit.USAGE, f"account: {merchant} is no merchant's, and has nothing to sweep")
    state = stack.store.account(merchant)
    if state is None:
        raise CommandFailed(Exit.NOT_FOUND, f"account: there is no {merchant} in {stack.name}")
    waiting = merchants.unswept(stack, merchant, since) if since else merchants.unswept(stack, merchant)
    exponent, total = stack.config.currencies[state.currency], 0
    minutes: dict[str, int] = {}
    for span, _ in waiting:
        if folded := sweeper.fold(stack.store, span):
            minutes[span.minute] = minutes.get(span.minute, 0) + folded
            total += folded
    return {
        "account": merchant,
        "currency": state.currency,
        "folded": money.render(total, exponent),
        "minutes": [
            {"minute": minute, "folded": money.render(folded, exponent)}
            for minute, folded in sorted(minutes.items())
        ],
    }
