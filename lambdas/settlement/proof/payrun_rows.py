"""Checks of pay runs' rows, which hold no money. Each raises MalformedRow for a row that no function puts."""

import re

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.stored import MalformedRow
from settlement.proof import values

_RUN = re.compile(r"[0-9a-f]{32}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{6}", re.ASCII)
_APPROVED = re.compile(r"APPROVED#[0-9a-f]{32}", re.ASCII)
_ORDERED = re.compile(r"ORDERED#[0-9]{6}", re.ASCII)
_ORDERS = frozenset({"run", "pause", "cancel"})
_WRONG_KEY = "no row of its kind has such a key"
_COUNTS = ("ended", "started", "begun")
_STATUSES = frozenset({"PROPOSED", "APPROVED", "RUNNING", "PAUSED", "FINISHED", "CANCELLED"})
_BEFORE = frozenset({"PROPOSED", "APPROVED"})
_DECISION = values.texts("digest", "by", "posted_at")
_PROPOSED = values.texts("name", "kind", "payer", "reason")


def run(row: Row) -> None:
    _name(row)
    if row["sk"] != keys.payrun("")["sk"]:
        raise MalformedRow(_WRONG_KEY)
    status, proposed_at = values.text(row, "status"), values.instant(row, "proposed_at")
    if status not in _STATUSES:
        raise MalformedRow(f"status is {status!r}")
    values.instants(row, ("changed_at",))
    values.count(row, "sequence", 1)
    values.count(row, "approvals")
    lines = values.count(row, "lines", 1)
    last = values.count(row, "cut") if "cut" in row else lines
    counts = [*(values.count(row, name) for name in _COUNTS), last, lines]
    if counts != sorted(counts):
        raise MalformedRow(f"its counts contradict each other: {', '.join(map(str, counts))}")
    outcomes = values.optional(row, "outcomes", dict) or {}
    if not all(type(count) is int for count in outcomes.values()) or sum(outcomes.values()) != counts[0]:
        raise MalformedRow("its outcomes are not those of its ended lines")
    if status in _BEFORE and any(counts[:3]):
        raise MalformedRow(f"is {status}, but lines have begun")
    if status in ("FINISHED", "CANCELLED") and counts[0] != last:
        raise MalformedRow(f"is {status}, but lines have not ended")
    listed = keys.payruns_index(proposed_at, is_running=status == "RUNNING")
    if {name: row.get(name) for name in listed} != listed:
        raise MalformedRow(f"is listed in {row.get('gsi1pk')}, but should be in {listed['gsi1pk']}")


def decision(row: Row) -> None:
    """Check a proposal, an approval or an order."""
    name = _name(row)
    digest, by, posted_at = _DECISION(row)
    if not (_DIGEST.fullmatch(digest) and digest.startswith(name) and by and values.is_instant(posted_at)):
        raise MalformedRow("digest, by and posted_at are none of a decision about this run")
    _check_unlisted(row)
    if row["sk"] == keys.payrun_proposed(name)["sk"]:
        _PROPOSED(row)
        values.count(row, "lines", 1)
        values.count(row, "needed", 1)
        sums = values.optional(row, "sums", dict)
        if not sums or not all(type(sum_) is int and sum_ > 0 for sum_ in sums.values()):
            raise MalformedRow("sums are none of a proposal")
    elif _ORDERED.fullmatch(row["sk"]):
        if (order := values.text(row, "order")) not in _ORDERS:
            raise MalformedRow(f"order is {order!r}")
    elif not _APPROVED.fullmatch(row["sk"]):
        raise MalformedRow(_WRONG_KEY)


def line(row: Row) -> None:
    """Check a line that was refused, or whose payout was reserved."""
    _name(row)
    if not _NUMBER.fullmatch(row["sk"]):
        raise MalformedRow(_WRONG_KEY)
    values.instant(row, "posted_at")
    if ("refused" in row) != ("why" in row):
        raise MalformedRow("refused and why are not there together")
    values.optionals(row, ("refused", "why"))
    _check_unlisted(row)


def _name(row: Row) -> str:
    name = keys.subject(row)[1]
    if not _RUN.fullmatch(name):
        raise MalformedRow(_WRONG_KEY)
    return name


def _check_unlisted(row: Row) -> None:
    if not row.keys().isdisjoint(("gsi1pk", "gsi1sk")):
        raise MalformedRow("is listed in the index")
