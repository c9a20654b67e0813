"""Where each row of the table stands, and what the accounts are called."""

import zlib
from datetime import UTC, datetime
from typing import Any

Row = dict[str, Any]
"""A row as plain Python: str, int, set of str, dict."""

INDEX = "gsi1"
"""The one index: statements of accounts, and settlements that are in flight."""

IN_FLIGHT_SHARDS = 8
"""Index partitions that settlements in flight are spread over; recovery reads each of them."""

IN_FLIGHT = "IN_FLIGHT#"
"""What the index partitions of settlements in flight begin with."""

LIMBO = "LIMBO"
"""The one index partition of settlements in LIMBO, as they are few."""

END_OF_TIME = "9999"
"""After any timestamp."""

INTERNAL_SHARDS = 16
"""Index partitions of an internal account: one of them takes 1,000 writes a second, an account more."""


def subject(row: Row) -> tuple[str, str]:
    """What a row belongs to, by its partition key: such as ("ACCOUNT", id) or ("SETTLEMENT", key)."""
    kind, _, name = row["pk"].partition("#")
    return kind, name


def is_settlement(row: Row) -> bool:
    """Whether a row is a settlement's state, and not one of its entries or another kind."""
    return bool(row["sk"] == "SETTLEMENT")


def account_key(account: str) -> Row:
    """The row that holds a customer's available balance."""
    return {"pk": f"ACCOUNT#{account}", "sk": "BALANCE"}


def settlement_key(key: str) -> Row:
    """The row that is the settlement's state, its escrow balance and its fence."""
    return {"pk": f"SETTLEMENT#{key}", "sk": "SETTLEMENT"}


def entry_key(key: str, step: str) -> Row:
    """The journal entry of one step: the idempotency key of its transaction."""
    return {"pk": f"SETTLEMENT#{key}", "sk": f"{key}:{step}"}


def deposit_key(key: str) -> Row:
    """The journal entry of money that came in from outside."""
    return {"pk": f"DEPOSIT#{key}", "sk": f"{key}:deposit"}


def event_key(event: str) -> Row:
    """The marker of a webhook's event: it has had its effect."""
    return {"pk": f"KYC_EVENT#{event}", "sk": "EVENT"}


def circuit_key(circuit: str) -> Row:
    """The state of a circuit breaker."""
    return {"pk": "CIRCUIT", "sk": circuit}


def escrow(key: str) -> str:
    """The settlement's own account, through which all of its money passes."""
    return f"escrow:{key}"


def fees(currency: str) -> str:
    """The internal account that earns the fees of a currency."""
    return f"fees:{currency}"


def losses(currency: str) -> str:
    """The internal account that bears what a person writes off in a currency."""
    return f"losses:{currency}"


def external(currency: str) -> str:
    """The internal account that stands for the world outside: deposits come from it."""
    return f"external:{currency}"


def is_customer(account: str) -> bool:
    """Whether an account has a balance row. Internal ones have none: their balance is their entries' sum."""
    return ":" not in account


def statement_partitions(account: str) -> list[str]:
    """The index partitions that together list an account's entries."""
    if is_customer(account):
        return [f"ACCOUNT#{account}"]
    return [f"ACCOUNT#{account}#{shard}" for shard in range(INTERNAL_SHARDS)]


def statement_index(account: str, key: str, step: str, posted_at: str) -> Row:
    """Where the index lists an entry of `account`; within a partition, oldest first."""
    partitions = statement_partitions(account)
    return {
        "gsi1pk": partitions[_shard(key, len(partitions))],
        "gsi1sk": f"{posted_at}#{key}:{step}",
    }


def limbo_index(since: str) -> Row:
    """Where the index lists a settlement in LIMBO, the oldest in front."""
    return {"gsi1pk": LIMBO, "gsi1sk": since}


def in_flight_index(key: str, recover_at: str) -> Row:
    """Where the index lists a settlement in flight, the one that is due first in front."""
    return {"gsi1pk": in_flight_partition(_shard(key, IN_FLIGHT_SHARDS)), "gsi1sk": recover_at}


def in_flight_partition(shard: int) -> str:
    """The index partition of a shard of what is in flight."""
    return f"{IN_FLIGHT}{shard}"


def timestamp(moment: datetime) -> str:
    """A UTC instant as text of fixed width, so that the order of texts is the order of instants."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shard(key: str, shards: int) -> int:
    return zlib.crc32(key.encode()) % shards
