"""Opening a customer's account."""

from datetime import UTC, datetime
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.queries import statement
from settle.stack import Stack
from settlement.ledger import balances, entries, keys
from settlement.ledger.transaction import AlreadyApplied
from settlement.model import money
from settlement.model.request import ACCOUNT
from settlement.model.state import AccountState


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
    if highest is not None and amount > highest:
        raise CommandFailed(Exit.USAGE, f"deposit: is above this stage's highest balance in {currency}")
    key = f"open-{account}"
    writes = [balances.open_account(account, currency, amount)]
    if amount:
        writes.append(entries.deposit(key, account, amount, currency, datetime.now(UTC)))
    try:
        stack.store.transact(writes)
    except AlreadyApplied as earlier:
        found, deposit_entry = earlier.found, stack.store.read(keys.deposit(key))
        opened_in = found.currency if isinstance(found, AccountState) else found["currency"]
        deposited = deposit_entry["amount"] if deposit_entry else 0
        if (opened_in, deposited) != (currency, amount):
            raise CommandFailed(
                Exit.CONFLICT, f"account: {account} is open already, with another currency or first deposit"
            ) from None
    return statement.show(stack, account)
