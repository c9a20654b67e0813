"""Opening accounts, and showing what has passed through them."""

from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from settle.failures import CommandFailed, Exit
from settle.stack import Stack
from settlement import items, money, rows
from settlement.request import ACCOUNT
from settlement.rows import Row
from settlement.store import from_wire
from settlement.writes import Standing

_WITHOUT_STATEMENT = ("escrow:", "external:")
"""Internal accounts that the index does not list: an entry stands there under its other account."""


def open_account(stack: Stack, account: str, currency: str, deposit: str) -> dict[str, Any]:
    """Open a customer's account with a first deposit from outside, in one transaction. Safe to repeat."""
    if not ACCOUNT.fullmatch(account):
        raise CommandFailed(Exit.USAGE, f"account: must match ^{ACCOUNT.pattern}$")
    if currency not in stack.terms.currencies:
        accepted = ", ".join(sorted(stack.terms.currencies))
        raise CommandFailed(Exit.USAGE, f"currency: must be one of {accepted}")
    try:
        amount = money.parse(deposit, stack.terms.currencies[currency])
    except ValueError as expected:
        raise CommandFailed(Exit.USAGE, f"deposit: {expected}") from expected
    highest = stack.terms.highest_balances.get(currency)
    if highest is not None and amount > highest:
        raise CommandFailed(Exit.USAGE, f"deposit: is above this stage's highest balance in {currency}")
    key = f"open-{account}"
    writes = [items.open_account(account, currency, amount)]
    if amount:
        writes.append(items.deposit_entry(key, account, amount, currency, datetime.now(UTC)))
    try:
        stack.store.transact(writes)
    except Standing as standing:
        deposited = stack.store.read(rows.deposit_key(key)) or {"amount": 0}
        if (standing.row["currency"], deposited["amount"]) != (currency, amount):
            raise CommandFailed(
                Exit.CONFLICT, f"account: {account} is open already, with another currency or first deposit"
            ) from None
    return show(stack, account)


def show(stack: Stack, account: str) -> dict[str, Any]:
    """An account's balance and its statement, oldest entry first, with the balance after each entry.

    A customer's balance is its row's; an internal account (`fees:EUR`) has the sum of its entries.
    """
    if account.startswith(_WITHOUT_STATEMENT):
        raise CommandFailed(
            Exit.USAGE,
            "account: escrow is shown by `settle status KEY`, external by `settle reconcile`",
        )
    row = stack.store.read(rows.account_key(account)) if rows.is_customer(account) else None
    entries = indexed(stack, account)
    if row is None and (rows.is_customer(account) or not entries):
        raise CommandFailed(Exit.NOT_FOUND, f"account: there is no {account} in {stack.name}")
    currency = (row or entries[0])["currency"]
    exponent = stack.terms.currencies[currency]
    balances = list(accumulate(map(change, entries)))
    return {
        "account": account,
        "currency": currency,
        "available": money.render(row["available"] if row else balances[-1], exponent),
        "limbo_keys": sorted(row.get("limbo_keys", ())) if row else [],
        "entries": [
            {
                "posted_at": entry["gsi1sk"].partition("#")[0],
                "key": entry["pk"].partition("#")[2],
                "step": entry["step"],
                "change": money.render(change(entry), exponent),
                "balance": money.render(balance, exponent),
            }
            for entry, balance in zip(entries, balances, strict=True)
        ],
    }


def indexed(stack: Stack, account: str) -> list[Row]:
    """The account's entries as the index lists them, oldest first; the index may lag behind the table."""
    pages = stack.client("dynamodb").get_paginator("query")
    found = [
        from_wire(item)
        for partition in rows.statement_partitions(account)
        for page in pages.paginate(
            TableName=stack.outputs["TableName"],
            IndexName=rows.INDEX,
            KeyConditionExpression="gsi1pk = :partition",
            ExpressionAttributeValues={":partition": {"S": partition}},
        )
        for item in page["Items"]
    ]
    return sorted(found, key=lambda entry: str(entry["gsi1sk"]))


def change(entry: Row) -> int:
    """What an entry of the index adds to its account's balance, in minor units; a debit takes away."""
    amount: int = entry["amount"]
    return amount if entry["side"] == "credit" else -amount
