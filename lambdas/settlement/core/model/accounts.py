"""Account names. Customers have a balance row; an internal account is the sum of its entries."""

MERCHANT = "merchant."
"""Prefix of a merchant's account id."""


def escrow(key: str) -> str:
    return f"escrow:{key}"


def fees(currency: str) -> str:
    return f"fees:{currency}"


def losses(currency: str) -> str:
    return f"losses:{currency}"


def external(currency: str) -> str:
    return f"external:{currency}"


def is_customer(account: str) -> bool:
    """Return whether the name has no colon, the mark of internal accounts."""
    return ":" not in account


def is_merchant(account: str) -> bool:
    """Return whether a sweep adds the account's releases: writing each to its balance would conflict."""
    return account.startswith(MERCHANT)
