"""Sweep a merchant by hand, for releases whose stream record was lost."""

from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.order import give
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.model import accounts, money
from settlement.merchants.order import SWEEP


def sweep(stack: Stack, merchant: str, since: str | None = None) -> dict[str, Any]:
    """Move a merchant's unswept money into the balance. Return the amounts by minute.

    Safe to repeat. Raises CommandFailed.

    Releases before minute `since` are left out.
    """
    if not accounts.is_merchant(merchant):
        raise CommandFailed(Exit.USAGE, f"account: {merchant} is no merchant's, and has nothing to sweep")
    state = stack.store.account(merchant)
    if state is None:
        raise CommandFailed(Exit.NOT_FOUND, f"account: there is no {merchant} in {stack.name}")
    exponent, minutes, aside = state.exponent(stack.config), dict[str, int](), dict[str, str]()
    order = {"account": merchant} | ({"since": since[: keys.MINUTE]} if since else {})
    while True:
        answer = give(stack, SWEEP, order)
        for one in answer["minutes"]:
            folded = money.parse(one["folded"], exponent)
            minutes[one["minute"]] = minutes.get(one["minute"], 0) + folded
        aside |= {one["row"]: one["reason"] for one in answer["unreadable"]}
        if not answer["more"]:
            break
        order["from"] = answer["from"]
    return {
        "account": merchant,
        "currency": state.currency,
        "folded": money.render(sum(minutes.values()), exponent),
        "minutes": [
            {"minute": minute, "folded": money.render(folded, exponent)}
            for minute, folded in sorted(minutes.items())
        ],
        "unreadable": [{"unreadable": f"{row}: {reason}"} for row, reason in sorted(aside.items())],
    }
