"""Account names. A customer's account has a balance row. An internal account is the sum of its entries."""

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
    """Account of the payouts that are under way."""
    return f"transit:{currency}"


def suspense(currency: str) -> str:
    """Account of the returned payouts that the customers' accounts cannot receive."""
    return f"suspense:{currency}"


def is_customer(account: str) -> bool:
    """Whether the name has no colon, the mark of internal accounts."""
    return ":" not in account


def is_merchant(account: str) -> bool:
    """Whether the account is a merchant's. A sweep adds its many releases to its balance later."""
    return account.startswith(MERCHANT)
