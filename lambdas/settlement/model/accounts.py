"""Names of accounts: customers have a balance row, internal accounts are the sum of their entries."""


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
