"""Opening a customer's account."""

from datetime import UTC, datetime
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.queries import statement
from settle.stack import Stack
from settlement.adapters import pages
from settlement.ledger import balances, entries, keys
from settlement.ledger.transaction import AlreadyApplied
from settlement.model import money
from settlement.model.accounts import is_merchant
from settlement.model.request import ACCOUNT


def open_account(stack: Stack, account: str, currency: str, deposit: str) -> dict[str, Any]:
    """Open a customer's account with a first deposit from outside, in one transaction. Safe to repeat."""
    if not ACCOUNT.fullmatch(account):
        raise CommandFailed(Exit.USAGE, f"account: must match ^{ACCOUNT.pattern}$")
    if currency not in stack.config.currencies:
        accepted = ", ".join(sorted(stack.config.currencies))
        raise CommandFailed(Exit.USAGE, f"currency: must be one of {accepted}")
    try:
        amount = money.parse(deposit, stack.config.currencies[currency])
    except ValueError as expected:
        raise CommandFailed(Exit.USAGE, f"deposit: {expected}") from expected
    highest = stack.config.highest_balances.get(currency)
    if highest is not None and amount > highest and not is_merchant(account):
        raise CommandFailed(Exit.USAGE, f"deposit: is above this stage's highest balance in {currency}")
    key = f"open-{account}"
    writes = [balances.open_account(account, currency, amount)]
    if amount:
        writes.append(entries.deposit(key, account, amount, currency, datetime.now(UTC)))
    try:
        stack.store.transact(writes)
    except AlreadyApplied as earlier:  # of the balance row, the first of the two
        if (earlier.found.currency, _first_deposit(stack, account, key)) != (currency, amount):
            raise CommandFailed(
                Exit.CONFLICT, f"account: {account} is open already, with another currency or first deposit"
            ) from None
    return statement.show(stack, account)


def _first_deposit(stack: Stack, account: str, key: str) -> int:
    """Return the deposit with which an account was opened; it is among the first entries, if there is one."""
    entries_of_account = pages.query(stack.store, *keys.entry_partitions(account))
    deposits = (one for one in entries_of_account if one["sk"].endswith(f"#{key}:deposit"))
    return next((one["amount"] for one in deposits), 0)
