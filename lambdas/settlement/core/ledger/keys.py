"""Keys of the table's rows, and their places in its index."""

import zlib
from typing import Any

from settlement.core.model.accounts import is_customer, is_merchant

Row = dict[str, Any]
"""A row as plain Python: str, int, set of str, dict."""

INDEX = "gsi1"
"""The one index: settlements in flight, settlements in LIMBO, and people's orders."""

IN_FLIGHT_SHARDS = 8
"""Index partitions of settlements in flight. One partition takes 1,000 writes a second and a settlement
costs two, so eight carry 4,000 settlements a second; recovery queries each of them once a minute.
"""

IN_FLIGHT = "IN_FLIGHT#"
"""The prefix of the index partitions of settlements in flight."""

LIMBO = "LIMBO"
"""The single index partition of settlements in LIMBO, of which there are few."""

ORDERS = "ORDERS#"
"""The prefix of the index partitions of people's orders, one for each month (UTC). Orders are rare: the door
takes ten a second.
"""

MONTH = len("2026-11")
"""The length of the month in a timestamp."""

END_OF_TIME = "9999"
"""A sort key after every timestamp."""

ENTRY_SHARDS = 16
"""Partitions of the entries of an internal account or a merchant: many settlements post to it at once, and
one partition takes 1,000 write units a second.
"""

MINUTE = len("2026-11-22T06:04")
"""The length of the minute in a timestamp."""


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


def is_entry(row: Row) -> bool:
    """Return whether a row is a journal entry, which moves money."""
    return bool(row["pk"].startswith("ENTRIES#"))


def is_swept(row: Row) -> bool:
    """Return whether a row says what is folded of a merchant's entries."""
    return bool(row["pk"].startswith("SWEPT#"))


def is_evidence(row: Row) -> bool:
    """Return whether a row is a fact on record that moves no money."""
    return bool(row["pk"].startswith("EVIDENCE#"))


def account(name: str) -> Row:
    """Return the key of a customer's balance row."""
    return {"pk": f"ACCOUNT#{name}", "sk": "BALANCE"}


def settlement(key: str) -> Row:
    """Return the key of a settlement's row: its state, its escrow balance and its fence."""
    return {"pk": f"SETTLEMENT#{key}", "sk": "SETTLEMENT"}


def entry_partitions(account: str) -> list[str]:
    """Return the partitions that together hold an account's entries."""
    if is_customer(account) and not is_merchant(account):
        return [f"ENTRIES#{account}"]
    return [f"ENTRIES#{account}#{shard}" for shard in range(ENTRY_SHARDS)]


def entry(account: str, posted_at: str, key: str, step: str) -> Row:
    """Return the key of a journal entry in its account's statement, which lists the oldest entry first.

    Its account, time and step follow from the settlement's row, which is the record that a step was taken:
    a second try, whose entry would have another time, finds it there.
    """
    is_sharded = is_merchant(account) or not is_customer(account)
    shard = f"#{_shard(key, ENTRY_SHARDS)}" if is_sharded else ""
    return {"pk": f"ENTRIES#{account}{shard}", "sk": f"{posted_at}#{key}:{step}"}


def swept(partition: str, minute: str) -> Row:
    """Return the key of the row with what is folded of a minute of a partition of a merchant's entries."""
    return {"pk": f"SWEPT#{partition}", "sk": minute}


def evidence(key: str, step: str) -> Row:
    """Return the key of a fact that moves no money: it is also the idempotency key of its write."""
    return {"pk": f"EVIDENCE#{key}", "sk": f"{key}:{step}"}


def order(key: str) -> Row:
    """Return the key of a person's order on an account, which makes its effect happen once.

    An order and a settlement of the same key do not meet: their rows are of two kinds, and no step of a
    settlement has the name of an order, so that their entries have two names.
    """
    return {"pk": f"ORDER#{key}", "sk": "ORDER"}


def waiting(key: str) -> Row:
    """Return the key of the row with the execution that waits in LIMBO, and its task token."""
    return {"pk": f"WAITING#{key}", "sk": "WAITING"}


def proposal(key: str) -> Row:
    """Return the key of the row with the latest proposal of a decision on a settlement."""
    return {"pk": f"PROPOSAL#{key}", "sk": "PROPOSAL"}


def migration(name: str) -> Row:
    """Return the key of the row with the progress of a migration."""
    return {"pk": f"MIGRATION#{name}", "sk": "MIGRATION"}


def event(event_id: str) -> Row:
    """Return the key of a webhook event's marker, which makes its effect happen once."""
    return {"pk": f"KYC_EVENT#{event_id}", "sk": "EVENT"}


def circuit(name: str) -> Row:
    """Return the key of a circuit breaker's row."""
    return {"pk": "CIRCUIT", "sk": name}


def limbo_index(since: str) -> Row:
    """Return the place of a settlement in LIMBO, listed by the start of its case."""
    return {"gsi1pk": LIMBO, "gsi1sk": since}


def in_flight_index(key: str, recover_at: str) -> Row:
    """Return the place of a settlement in flight, listed by the time at which recovery looks at it."""
    return {"gsi1pk": in_flight_partition(_shard(key, IN_FLIGHT_SHARDS)), "gsi1sk": recover_at}


def in_flight_partition(shard: int) -> str:
    """Return the index partition of one shard of the settlements in flight."""
    return f"{IN_FLIGHT}{shard}"


def orders_index(posted_at: str) -> Row:
    """Return the place of a person's order on a settlement or on an account, listed by its time.

    Written with the row, once: the proof holds it against the row's time.
    """
    return {"gsi1pk": orders_partition(posted_at[:MONTH]), "gsi1sk": posted_at}


def orders_partition(month: str) -> str:
    """Return the index partition of the orders of a month such as 2026-11."""
    return f"{ORDERS}{month}"


def _shard(key: str, shards: int) -> int:
    return zlib.crc32(key.encode()) % shards
