"""Keys of the table's rows, and their places in its index."""

import zlib
from typing import Any

from settlement.model.accounts import is_customer

Row = dict[str, Any]
"""A row as plain Python: str, int, set of str, dict."""

INDEX = "gsi1"
"""The one index: statements of accounts, settlements in flight, and settlements in LIMBO."""

IN_FLIGHT_SHARDS = 8
"""Index partitions of settlements in flight. One partition takes 1,000 writes a second and a settlement
costs two, so eight carry 4,000 settlements a second; recovery queries each of them once a minute.
"""

IN_FLIGHT = "IN_FLIGHT#"
"""The prefix of the index partitions of settlements in flight."""

LIMBO = "LIMBO"
"""The single index partition of settlements in LIMBO, of which there are few."""

END_OF_TIME = "9999"
"""A sort key after every timestamp."""

INTERNAL_SHARDS = 16
"""Index partitions of an internal account: every settlement posts to it, and one partition takes 1,000
writes a second.
"""


def subject(row: Row) -> tuple[str, str]:
    """Return the kind and name in a partition key, such as ("ACCOUNT", id) or ("SETTLEMENT", key)."""
    kind, _, name = row["pk"].partition("#")
    return kind, name


def is_settlement(row: Row) -> bool:
    """Return whether a row is a settlement's state: not an entry, and not another kind of row."""
    return bool(row["sk"] == "SETTLEMENT")


def is_account(row: Row) -> bool:
    """Return whether a row is a customer's balance."""
    return bool(row["sk"] == "BALANCE")


def account(name: str) -> Row:
    """Return the key of a customer's balance row."""
    return {"pk": f"ACCOUNT#{name}", "sk": "BALANCE"}


def settlement(key: str) -> Row:
    """Return the key of a settlement's row: its state, its escrow balance and its fence."""
    return {"pk": f"SETTLEMENT#{key}", "sk": "SETTLEMENT"}


def entry(key: str, step: str) -> Row:
    """Return the key of a step's journal entry: the idempotency key of its transaction."""
    return {"pk": f"SETTLEMENT#{key}", "sk": f"{key}:{step}"}


def deposit(key: str) -> Row:
    """Return the key of the journal entry of a deposit."""
    return {"pk": f"DEPOSIT#{key}", "sk": f"{key}:deposit"}


def event(event_id: str) -> Row:
    """Return the key of a webhook event's marker, which makes its effect happen once."""
    return {"pk": f"KYC_EVENT#{event_id}", "sk": "EVENT"}


def circuit(name: str) -> Row:
    """Return the key of a circuit breaker's row."""
    return {"pk": "CIRCUIT", "sk": name}


def statement_partitions(name: str) -> list[str]:
    """Return the index partitions that together list an account's entries."""
    if is_customer(name):
        return [f"ACCOUNT#{name}"]
    return [f"ACCOUNT#{name}#{shard}" for shard in range(INTERNAL_SHARDS)]


def statement_index(name: str, key: str, step: str, posted_at: str) -> Row:
    """Return an entry's place in an account's statement, which lists the oldest entry first."""
    partitions = statement_partitions(name)
    return {
        "gsi1pk": partitions[_shard(key, len(partitions))],
        "gsi1sk": f"{posted_at}#{key}:{step}",
    }


def limbo_index(since: str) -> Row:
    """Return the place of a settlement in LIMBO, listed by the start of its case."""
    return {"gsi1pk": LIMBO, "gsi1sk": since}


def in_flight_index(key: str, recover_at: str) -> Row:
    """Return the place of a settlement in flight, listed by the time at which recovery looks at it."""
    return {"gsi1pk": in_flight_partition(_shard(key, IN_FLIGHT_SHARDS)), "gsi1sk": recover_at}


def in_flight_partition(shard: int) -> str:
    """Return the index partition of one shard of the settlements in flight."""
    return f"{IN_FLIGHT}{shard}"


def _shard(key: str, shards: int) -> int:
    return zlib.crc32(key.encode()) % shards
