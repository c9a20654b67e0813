"""Names of executions: the one place that forms them.

Step Functions refuses a second execution of a Standard machine with the same name, for 90 days after it has
ended. So a caller who may start executions could take a name that follows from the key alone. The names of
takeovers and reversals have a nonce: eight hexadecimal digits of a random source, kept on the row with the
owner. With the longest key and five digits of an epoch they have 80 characters, the most that there are.
"""

import hashlib


def sent(key: str, nonce: str) -> str:
    """Return the execution of one try of a client. The key, not this name, prevents a second payment."""
    return f"{key}-{nonce}"


def resume(key: str, owner_epoch: int, nonce: str) -> str:
    """Return the execution that resumes a settlement as its owner with this epoch."""
    return f"{key}-r{owner_epoch}-{nonce}"


def compensate(key: str, owner_epoch: int, nonce: str) -> str:
    """Return the execution that reverses a settlement, or alerts in LIMBO, as its owner with this epoch."""
    return f"{key}-c{owner_epoch}-{nonce}"


def decided(key: str) -> str:
    """Return the owner between the KYC provider's webhook and the resumption: no execution has this name."""
    return f"{key}-decided"


def queued(key: str, message: str) -> str:
    """Return the execution of a message of the start queue: a second delivery has the same name."""
    return f"{key}-{hashlib.sha256(message.encode()).hexdigest()[:12]}"


def ordered(key: str, order: str, nonce: str) -> str:
    """Return the execution that resumes a settlement on a person's `order` ("reverse" or "resolve").

    It has the nonce's first six digits: the longest key leaves no room for more.
    """
    return f"{key}-{order}-{nonce[:6]}"


def is_ordered(key: str, owner: str) -> bool:
    """Return whether a person's decision has named the owner, which need not have been started."""
    return owner.startswith(ordered(key, "resolve", ""))
