"""Forms all names of executions.

Step Functions reserves a Standard execution's name for 90 days after its end. A caller who may start
executions could therefore take a predictable name. So names of takeovers and reversals have a nonce: eight
random hexadecimal digits, kept on the row. The longest key and a five-digit epoch give the maximum of 80
characters.
"""

import hashlib
import re


def sent(key: str, nonce: str) -> str:
    """Name the execution of a client's try. The key, not this name, prevents a second payment."""
    return f"{key}-{nonce}"


def resume(key: str, owner_epoch: int, nonce: str) -> str:
    return f"{key}-r{owner_epoch}-{nonce}"


def compensate(key: str, owner_epoch: int, nonce: str) -> str:
    return f"{key}-c{owner_epoch}-{nonce}"


def decided(key: str) -> str:
    """Name the owner between a KYC webhook and the resumption. No execution has this name."""
    return f"{key}-decided"


def queued(key: str, message: str) -> str:
    """Name a queued start: a second delivery of `message` gets the same name."""
    return f"{key}-{hashlib.sha256(message.encode()).hexdigest()[:12]}"


def follows_claim(key: str, name: str) -> bool:
    """Whether `name` has the form of a queued or resumed execution."""
    return re.fullmatch(rf"{re.escape(key)}-([0-9a-f]{{12}}|r[0-9]+-[0-9a-f]{{8}})", name) is not None


def ordered(key: str, order: str, nonce: str) -> str:
    """Name the execution of an `order`, "reverse" or "resolve".

    The nonce has six digits here: more would not fit beside the longest key.
    """
    return f"{key}-{order}-{nonce[:6]}"


def is_ordered(key: str, owner: str) -> bool:
    """Whether a resolution named this owner, whose execution may never have started."""
    return owner.startswith(ordered(key, "resolve", ""))
