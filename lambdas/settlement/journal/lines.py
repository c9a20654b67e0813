"""Lines of the sealed journal: what is copied of a row, and the digest that covers the rest."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from settlement.core.ledger.keys import Row
from settlement.core.model.settlement import LABELS
from settlement.retention import expiry
from settlement.retention.expiry import EXPIRES

IMMUTABLE = ("ENTRIES#", "EVIDENCE#", "ORDER#")
"""How the partition keys of rows begin that no function may change. Each is sealed as a whole."""

CREATED: Mapping[str, tuple[str, ...]] = {
    "SETTLEMENT#": (
        *("pk", "sk", "payer", "payee", "amount", "fee", "currency", "deadline_seconds"),
        *("request_hash", "claimed_at"),
    ),
    "ACCOUNT#": ("pk", "sk", "currency", "opened_at"),
}
"""The same of rows that change, and the attributes that stay as they were when the row was put. The names of
the parties are not among them: the request's hash covers them, until they are erased. `worded` adds the
caller's words.
"""

KINDS = (*IMMUTABLE, *CREATED)
"""How the partition keys of all rows begin that are sealed."""

PUTS = ("INSERT", "FILL")
"""The events of a row that was put: by a function, or as a person has copied it from the table."""

WORDED = "worded_sha256"
"""The member of a settlement's image that covers the caller's words. Lines of earlier releases lack it."""

TIMES = ("posted_at", "claimed_at", "opened_at")
"""The attributes with the time of a row. Each kind has one."""

_OPEN = frozenset(
    (
        *("pk", "sk", "step", "posted_at", "request_hash", "debit", "credit", "side", "amount", "currency"),
        *("decision", "provider", "account", "order"),
        *("payer", "payee", "fee", "deadline_seconds", "claimed_at", "opened_at"),
        *("status", "release_at", "fee_at", EXPIRES),
    )
)
"""The attributes that are copied as they are. No other is, as a locked object cannot be erased: reasons,
causes and references are free text, and `by` is a person. The digest covers them.
"""


_TIME_TO_LIVE = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
"""Who has deleted a row, in a record of DynamoDB's time to live; the records of others do not say it."""


def _listed(value: Any) -> Any:
    """Return a set as a sorted list, as it has no order, and what else JSON does not know as text."""
    return sorted(value) if isinstance(value, set | frozenset) else str(value)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_listed)


def is_sealed(row: Row) -> bool:
    """Return whether a row is of a kind that is sealed."""
    return bool(row["pk"].startswith(KINDS))


def digest(row: Row) -> str:
    """Return the SHA-256 of the attributes of a plain row that no function may change."""
    return hashlib.sha256(canonical(row)).hexdigest()


def canonical(row: Row, but: str = "") -> bytes:
    """Return the attributes of a plain row that no function may change, `but` one, in canonical form."""
    return _CANONICAL.encode(_kept(row, but)).encode()


def worded(row: Row) -> bytes | None:
    """Return a settlement's `canonical` form with the caller's words; None for a row of another kind.

    A word that is absent is null, so no form without words equals one with them.
    """
    if not row["pk"].startswith("SETTLEMENT#"):
        return None
    return _CANONICAL.encode(_kept(row) | {name: row.get(name) for name in LABELS}).encode()


def worded_digest(row: Row) -> str | None:
    """Return the SHA-256 of a settlement's attributes with the caller's words; None for another row."""
    form = worded(row)
    return None if form is None else hashlib.sha256(form).hexdigest()


def image(row: Row) -> dict[str, Any]:
    """Return what is sealed of a plain row: some attributes as they are, and the digests of all."""
    found = {"row": {name: row[name] for name in sorted(_OPEN & row.keys())}, "sha256": digest(row)}
    words = worded_digest(row)
    return found if words is None else found | {WORDED: words}


def is_as_sealed(row: Row, sealed: Mapping[str, Any]) -> bool:
    """Return whether a row has the digests of its image; an image of an earlier release has one."""
    return digest(row) == sealed["sha256"] and sealed.get(WORDED) in (None, worded_digest(row))


def line(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line of a record of the table's stream. Equal records have equal lines."""
    change = record["dynamodb"]
    images = {
        name: image(plain_row(change[of]))
        for name, of in (("new", "NewImage"), ("old", "OldImage"))
        if of in change
    }
    at = int(change["ApproximateCreationDateTime"])
    return {"event": record["eventName"], "at": at, "number": change["SequenceNumber"], **images}


def filled(row: Row, at: int) -> dict[str, Any]:
    """Return the line of a row that a person has copied from the table, for one that the stream has lost."""
    return {"event": "FILL", "at": at, "new": image(row)}


def has_expired(record: Mapping[str, Any], least_days: int | None) -> bool:
    """Return whether a record of the stream is DynamoDB's own deletion of an entry whose time was over.

    A row that a function never lets expire, or one with another end of its time, is not among them.
    """
    identity, change = record.get("userIdentity") or {}, record["dynamodb"]
    if (
        record["eventName"] != "REMOVE"
        or {name: identity.get(name) for name in _TIME_TO_LIVE} != _TIME_TO_LIVE
    ):
        return False
    row = plain_row(change.get("OldImage", {}))
    if not {"pk", "sk"} <= row.keys() or not expiry.may_expire(row, least_days):
        return False
    return bool(row[EXPIRES] <= int(change["ApproximateCreationDateTime"]))


def is_tampering(told: Mapping[str, Any]) -> bool:
    """Return whether a line tells of a change that no function makes: no other passes the stream's filter."""
    return told["event"] in ("MODIFY", "REMOVE")


def subject(told: Mapping[str, Any]) -> tuple[str, str]:
    """Return the key of a line's row."""
    row = told["new" if "new" in told else "old"]["row"]
    return row["pk"], row["sk"]


def _kept(row: Row, but: str = "") -> Row:
    kept = CREATED.get(row["pk"].partition("#")[0] + "#", row)
    return {name: row[name] for name in kept if name in row and name != but}


def content(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the content of an object: JSON lines, in canonical form."""
    return b"".join(_CANONICAL.encode(one).encode() + b"\n" for one in lines)


def plain_row(image_of: Mapping[str, Any], fraction: Callable[[str], Any] = str) -> Row:
    """Return a row of DynamoDB's wire format as a scan reads it. It may hold anything: it may be forged.

    `fraction` makes a value of a number that is no integer.
    """
    return {name: _plain(value, fraction) for name, value in image_of.items()}


def _plain(value: Mapping[str, Any], fraction: Callable[[str], Any]) -> Any:
    ((kind, held),) = value.items()
    if kind == "N":
        return int(held) if held.lstrip("-").isdecimal() else fraction(held)
    if kind == "SS":
        return set(held)
    if kind == "M":
        return plain_row(held, fraction)
    if kind == "L":
        return {"L": [_plain(one, fraction) for one in held]}
    return held if kind in ("S", "BOOL") else {kind: held}
