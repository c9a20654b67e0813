"""Names of accounts: customers have a balance row, internal accounts are the sum of their entries."""

MERCHANT = "merchant."
"""How the id of a merchant's account begins."""


def escrow(key: str) -> str:
    """Return the settlement's own account, through which all of its money passes."""
    return f"escrow:{key}"


def fees(currency: str) -> str:
    """Return the internal account that earns the fees of a currency."""
    return f"fees:{currency}"


def losses(currency: str) -> str:
    """Return the internal account that bears the write-offs of a currency."""
    return f"losses:{currency}"


def external(currency: str) -> str:
    """Return the internal account of the outside world, from which deposits come."""
    return f"external:{currency}"


def is_customer(account: str) -> bool:
    """Return whether an account is a customer's: only these ids have no colon, and a balance row."""
    return ":" not in account


def is_merchant(account: str) -> bool:
    """Return whether a customer's account is a merchant's, which many pay: releases leave its balance alone.

    A sweep adds them to it later, so that no two of them meet on one row.
    """
    return account.startswith(MERCHANT)
