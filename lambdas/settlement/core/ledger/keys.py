import hashlib
import zlib
from collections.abc import Iterator
from typing import Any

from settlement.core.model.accounts import is_customer, is_merchant

Row = dict[str, Any]
"""A row's attributes. A value is a str, an int, a set of str or a dict."""

INDEX = "gsi1"
"""The table's only index. It lists settlements in flight or in LIMBO, and people's orders."""

IN_FLIGHT_SHARDS = 8
"""Index partitions of settlements in flight. Each is queried once a minute.

A partition takes 1,000 writes a second, and a settlement costs two. So eight carry 4,000 settlements a
second.
"""

IN_FLIGHT = "IN_FLIGHT#"

LIMBO = "LIMBO"
"""Index partition of LIMBO. One is enough: cases are few."""

ORDERS = "ORDERS#"
"""Prefix of the orders' index partitions, one a month (UTC).

The orders' API takes only ten orders a second.
"""

BANK_LINES, BANK_FILES = "BANK_LINES#", "BANK_FILES#"
"""Prefixes of the monthly index partitions of bank lines and files."""

PAYOUTS, PAYOUT_SHARDS = "PAYOUTS#", 8
"""Index partitions of payouts. They are sorted by the payout's next look."""

PAYOUT_CASES, PAYOUT_LINES, PAYOUT_LINE_FAULTS = "PAYOUT_CASES", "PAYOUT_LINES", "PAYOUT_LINE_FAULTS"
"""Index partitions of open payout cases, lines to book, and refused lines."""

PAYOUT_ORDERS = "PAYOUT_ORDERS#"
"""Prefix of the index partitions of orders on payees and of decisions about payouts, one a month."""

PAYRUNS, PAYRUNS_RUNNING = "PAYRUNS", "PAYRUNS_RUNNING"
"""Index partitions of pay runs. RUNNING runs are in the second."""

MONTH = len("2026-11")

_FIRST_MONTH = "2026-01"
"""The earliest month of an order: no stage is older."""

END_OF_TIME = "9999"

ENTRY_SHARDS = 16
"""Partitions for each internal account or merchant. One partition takes only 1,000 write units a second."""

MINUTE = len("2026-11-22T06:04")


def subject(row: Row) -> tuple[str, str]:
    kind, _, name = row["pk"].partition("#")
    return kind, name


def is_settlement(row: Row) -> bool:
    return bool(row["sk"] == "SETTLEMENT")


def is_account(row: Row) -> bool:
    return bool(row["sk"] == "BALANCE")


def is_entry(row: Row) -> bool:
    return bool(row["pk"].startswith("ENTRIES#"))


def is_swept(row: Row) -> bool:
    return bool(row["pk"].startswith("SWEPT#"))


def is_evidence(row: Row) -> bool:
    return bool(row["pk"].startswith("EVIDENCE#"))


def account(name: str) -> Row:
    return {"pk": f"ACCOUNT#{name}", "sk": "BALANCE"}


def settlement(key: str) -> Row:
    return {"pk": f"SETTLEMENT#{key}", "sk": "SETTLEMENT"}


def entry_partitions(account: str) -> list[str]:
    if is_customer(account) and not is_merchant(account):
        return [f"ENTRIES#{account}"]
    return [f"ENTRIES#{account}#{shard}" for shard in range(ENTRY_SHARDS)]


def entry(account: str, posted_at: str, key: str, step: str) -> Row:
    """Key of a journal entry. It sorts entries oldest first.

    A retry has another time and key, but finds the step on the settlement's row.
    """
    is_sharded = is_merchant(account) or not is_customer(account)
    shard = f"#{_shard(key, ENTRY_SHARDS)}" if is_sharded else ""
    return {"pk": f"ENTRIES#{account}{shard}", "sk": f"{posted_at}#{key}:{step}"}


def swept(partition: str, minute: str) -> Row:
    return {"pk": f"SWEPT#{partition}", "sk": minute}


def evidence(key: str, step: str) -> Row:
    """Key of evidence. It is also the idempotency key of the write."""
    return {"pk": f"EVIDENCE#{key}", "sk": f"{key}:{step}"}


def order(key: str) -> Row:
    """Key of the row that makes an order's effect happen once.

    An order and a settlement can share an idempotency key, because their rows' keys differ.
    """
    return {"pk": f"ORDER#{key}", "sk": "ORDER"}


def waiting(key: str) -> Row:
    return {"pk": f"WAITING#{key}", "sk": "WAITING"}


def proposal(key: str) -> Row:
    return {"pk": f"PROPOSAL#{key}", "sk": "PROPOSAL"}


def migration(name: str) -> Row:
    return {"pk": f"MIGRATION#{name}", "sk": "MIGRATION"}


def bank_line(identity: str) -> Row:
    return {"pk": f"BANK_LINE#{identity}", "sk": "LINE"}


def bank_match(identity: str) -> Row:
    """Key of the row that matches a bank line to one order. The `banked` row matches an order to one line."""
    return {"pk": f"BANK_LINE#{identity}", "sk": "MATCH"}


def banked(order: str) -> Row:
    return {"pk": f"BANKED#{order}", "sk": "BANKED"}


def bank_file(digest: str) -> Row:
    return {"pk": f"BANK_FILE#{digest}", "sk": "FILE"}


def bank_statement(digest: str, number: int) -> Row:
    return {"pk": f"BANK_FILE#{digest}", "sk": f"STATEMENT#{number:06}"}


def bank_proposed(key: str) -> Row:
    return {"pk": f"BANK_ORDER#{key}", "sk": "PROPOSED"}


def bank_approved(key: str) -> Row:
    return {"pk": f"BANK_ORDER#{key}", "sk": "APPROVED"}


def payout(key: str) -> Row:
    return {"pk": f"PAYOUT#{key}", "sk": "PAYOUT"}


def payout_reference(reference: str) -> Row:
    return {"pk": f"PAYOUT_REFERENCE#{reference}", "sk": "REFERENCE"}


def payout_day(account: str, day: str) -> Row:
    return {"pk": f"PAYOUT_DAY#{account}", "sk": day}


def destination(name: str) -> Row:
    return {"pk": f"DESTINATION#{name}", "sk": "DESTINATION"}


def destination_confirmed(name: str) -> Row:
    return {"pk": f"DESTINATION#{name}", "sk": "CONFIRMED"}


def destination_frozen(name: str, at: str) -> Row:
    return {"pk": f"DESTINATION#{name}", "sk": f"FROZEN#{at}"}


def payout_proposed(
    key: str, case: int, digest: str, verdict: str, account: str | None = None, *, contradicts: bool = False
) -> Row:
    """Key of a proposed verdict. It differs by account, and if the verdict contradicts the bank."""
    named = verdict if account is None else f"{verdict}#{account}"
    named = f"contradicts#{named}" if contradicts else named
    return {"pk": f"PAYOUT_CASE#{key}", "sk": f"{case:06}#{digest[:16]}#PROPOSED#{named}"}


def payout_approved(key: str, case: int, digest: str) -> Row:
    """Key of the only approval of a payout case as shown (`digest`)."""
    return {"pk": f"PAYOUT_CASE#{key}", "sk": f"{case:06}#{digest[:16]}#APPROVED"}


def payout_line(identity: str) -> Row:
    """Key of the row that lists a payout's bank line for booking."""
    return {"pk": f"PAYOUT_LINE#{identity}", "sk": "LINE"}


def payrun(run: str) -> Row:
    return {"pk": f"PAYRUN#{run}", "sk": "RUN"}


def payrun_proposed(run: str) -> Row:
    return {"pk": f"PAYRUN_DECISION#{run}", "sk": "PROPOSED"}


def payrun_approved(run: str, person: str) -> Row:
    """Key of a person's only approval of a run. It has a digest of the name, which can be any text."""
    digest = hashlib.sha256(person.encode()).hexdigest()
    return {"pk": f"PAYRUN_DECISION#{run}", "sk": f"APPROVED#{digest[:32]}"}


def payrun_ordered(run: str, sequence: int) -> Row:
    """Key of the order that moved a pay run to this sequence."""
    return {"pk": f"PAYRUN_DECISION#{run}", "sk": f"ORDERED#{sequence:06}"}


def payrun_line(run: str, number: int) -> Row:
    return {"pk": f"PAYRUN_LINE#{run}", "sk": f"{number:06}"}


def payruns_index(proposed_at: str, *, is_running: bool) -> Row:
    return {"gsi1pk": PAYRUNS_RUNNING if is_running else PAYRUNS, "gsi1sk": proposed_at}


def event(event_id: str) -> Row:
    """Key of a webhook event's marker row: the event takes effect once."""
    return {"pk": f"KYC_EVENT#{event_id}", "sk": "EVENT"}


def circuit(name: str) -> Row:
    return {"pk": "CIRCUIT", "sk": name}


def limbo_index(since: str) -> Row:
    return {"gsi1pk": LIMBO, "gsi1sk": since}


def in_flight_index(key: str, recover_at: str) -> Row:
    return {"gsi1pk": in_flight_partition(_shard(key, IN_FLIGHT_SHARDS)), "gsi1sk": recover_at}


def in_flight_partition(shard: int) -> str:
    return f"{IN_FLIGHT}{shard}"


def orders_index(posted_at: str) -> Row:
    """An order's index keys, written once, with the row. The proof compares them with the row."""
    return {"gsi1pk": orders_partition(posted_at[:MONTH]), "gsi1sk": posted_at}


def order_months(first: str, last: str) -> Iterator[str]:
    month = max(first, _FIRST_MONTH)
    year, number = map(int, month.split("-"))
    while f"{year:04}-{number:02}" <= last:
        yield f"{year:04}-{number:02}"
        year, number = (year, number + 1) if number < 12 else (year + 1, 1)


def bank_lines_index(booked: str) -> Row:
    return {"gsi1pk": bank_lines_partition(booked[:MONTH]), "gsi1sk": booked}


def bank_lines_partition(month: str) -> str:
    return f"{BANK_LINES}{month}"


def bank_files_index(read_at: str) -> Row:
    return {"gsi1pk": bank_files_partition(read_at[:MONTH]), "gsi1sk": read_at}


def bank_files_partition(month: str) -> str:
    return f"{BANK_FILES}{month}"


def payouts_index(key: str, look_at: str) -> Row:
    return {"gsi1pk": payouts_partition(_shard(key, PAYOUT_SHARDS)), "gsi1sk": look_at}


def payouts_partition(shard: int) -> str:
    return f"{PAYOUTS}{shard}"


def payout_cases_index(since: str) -> Row:
    return {"gsi1pk": PAYOUT_CASES, "gsi1sk": since}


def payout_orders_index(posted_at: str) -> Row:
    return {"gsi1pk": payout_orders_partition(posted_at[:MONTH]), "gsi1sk": posted_at}


def payout_orders_partition(month: str) -> str:
    return f"{PAYOUT_ORDERS}{month}"


def payout_lines_index(booked: str, *, is_refused: bool = False) -> Row:
    return {"gsi1pk": PAYOUT_LINE_FAULTS if is_refused else PAYOUT_LINES, "gsi1sk": booked}


def orders_partition(month: str) -> str:
    return f"{ORDERS}{month}"


def _shard(key: str, shards: int) -> int:
    return zlib.crc32(key.encode()) % shards
