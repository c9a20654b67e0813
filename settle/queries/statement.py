"""An account's balance and its statement."""

from itertools import accumulate
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.queries import merchant
from settle.stack import Stack
from settlement.adapters import pages
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.ledger.sweep import is_release
from settlement.model import accounts, money


def show(stack: Stack, account: str) -> dict[str, Any]:
    """Return an account's balance and its statement, oldest entry first.

    A customer's balance is in the account's row; an internal account (`fees:EUR`) is the sum of its entries.
    `sum` adds up the entries in the order of their times. The clocks of the functions differ, so this is not
    always the order of the commits: it may show a balance that the account never had. `unswept` is what a
    merchant has received and cannot spend yet.
    """
    state = stack.store.account(account) if accounts.is_customer(account) else None
    folded = merchant.folded(stack, account) if accounts.is_merchant(account) else None
    found = entries(stack, account)
    if state is None and (accounts.is_customer(account) or not found):
        raise CommandFailed(Exit.NOT_FOUND, f"account: there is no {account} in {stack.name}")
    currency = state.currency if state else found[0]["currency"]
    exponent = stack.config.currencies[currency]
    sums = list(accumulate(map(_change, found)))
    released = sum(entry["amount"] for entry in found if is_release(entry))
    return {
        "account": account,
        "currency": currency,
        "available": money.render(state.available if state else sums[-1], exponent),
        **({} if folded is None else {"unswept": money.render(released - folded, exponent)}),
        "limbo_keys": sorted(state.limbo_keys) if state else [],
        "entries": [
            {
                "posted_at": entry["posted_at"],
                "key": _key(entry),
                "step": entry["step"],
                "change": money.render(_change(entry), exponent),
                "sum": money.render(so_far, exponent),
            }
            for entry, so_far in zip(found, sums, strict=True)
        ],
    }


def entries(stack: Stack, account: str) -> list[Row]:
    """Return the account's entries, read consistently, by their times."""
    return sorted(
        pages.query(stack.store, *keys.entry_partitions(account)), key=lambda entry: str(entry["sk"])
    )


def _key(entry: Row) -> str:
    """Return the key under which the entry was posted: a settlement's, or a deposit's."""
    key: str = entry["sk"].partition("#")[2].partition(":")[0]
    return key


def _change(entry: Row) -> int:
    """Return the change of the account's balance, in minor units."""
    amount: int = entry["amount"]
    return amount if entry["side"] == "credit" else -amount
