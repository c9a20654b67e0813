"""Account names. Customers have a balance row; an internal account is the sum of its entries."""

MERCHANT = "merchant."


def escrow(key: str) -> str:
    return f"escrow:{key}"


def fees(currency: str) -> str:
    return f"fees:{currency}"


def losses(currency: str) -> str:
    return f"losses:{currency}"


def external(currency: str) -> str:
    return f"external:{currency}"


def transit(currency: str) -> str:
    """Payouts that are under way."""
    return f"transit:{currency}"


def suspense(currency: str) -> str:
    """Returned payouts that their accounts do not take."""
    return f"suspense:{currency}"


def is_customer(account: str) -> bool:
    """Whether the name has no colon, the mark of internal accounts."""
    return ":" not in account


def is_merchant(account: str) -> bool:
    """A merchant's releases skip its balance, where they would conflict: a sweep adds them."""
    return account.startswith(MERCHANT)
