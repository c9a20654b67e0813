"""An account's balance and its statement."""

from itertools import accumulate
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.stack import Stack
from settlement.adapters.dynamodb import from_wire
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model import accounts, money


def show(stack: Stack, account: str) -> dict[str, Any]:
    """Return an account's balance and statement, oldest entry first, with the balance after each entry.

    A customer's balance is in the account's row; an internal account (`fees:EUR`) is the sum of its entries.
    """
    state = stack.store.account(account) if accounts.is_customer(account) else None
    entries = indexed(stack, account)
    if state is None and (accounts.is_customer(account) or not entries):
        raise CommandFailed(Exit.NOT_FOUND, f"account: there is no {account} in {stack.name}")
    currency = state.currency if state else entries[0]["currency"]
    exponent = stack.config.currencies[currency]
    balances = list(accumulate(map(change, entries)))
    return {
        "account": account,
        "currency": currency,
        "available": money.render(state.available if state else balances[-1], exponent),
        "limbo_keys": sorted(state.limbo_keys) if state else [],
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
    """Return the account's entries as the index lists them, oldest first. The index may lag."""
    pages = stack.client("dynamodb").get_paginator("query")
    found = [
        from_wire(item)
        for partition in keys.statement_partitions(account)
        for page in pages.paginate(
            TableName=stack.outputs["TableName"],
            IndexName=keys.INDEX,
            KeyConditionExpression="gsi1pk = :partition",
            ExpressionAttributeValues={":partition": {"S": partition}},
        )
        for item in page["Items"]
    ]
    return sorted(found, key=lambda entry: str(entry["gsi1sk"]))


def change(entry: Row) -> int:
    """Return the change of the account's balance by an entry of the index, in minor units."""
    amount: int = entry["amount"]
    return amount if entry["side"] == "credit" else -amount
