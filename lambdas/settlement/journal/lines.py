"""Lines of the sealed journal. A line copies some attributes of a row, and has digests of all."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from settlement.core.ledger.keys import Row
from settlement.core.model.settlement import LABELS
from settlement.retention import expiry
from settlement.retention.expiry import EXPIRES

IMMUTABLE = ("ENTRIES#", "EVIDENCE#", "ORDER#", "BANK_LINE#", "BANKED#", "BANK_FILE#", "BANK_ORDER#")
"""Key prefixes of rows that never change. Each is sealed whole."""

CREATED: Mapping[str, tuple[str, ...]] = {
    "SETTLEMENT#": (
        *("pk", "sk", "payer", "payee", "amount", "fee", "currency", "deadline_seconds"),
        *("request_hash", "claimed_at", "checks"),
    ),
    "ACCOUNT#": ("pk", "sk", "currency", "opened_at"),
}
"""The immutable attributes of rows that change, by key prefix.

The request's hash covers the parties' names, which may be erased. `worded` adds the caller's words.
"""

KINDS = (*IMMUTABLE, *CREATED)

PUTS = ("INSERT", "FILL")
"""Events of lines about put rows: put by a function (INSERT), or copied by a person (FILL)."""

WORDED = "worded_sha256"
"""Name of the digest that covers the caller's words. Lines of earlier releases lack it."""

TIMES = ("posted_at", "claimed_at", "opened_at")
"""Attributes with the time of a row's put. Each kind of row has one of them."""

_OPEN = frozenset(
    (
        *("pk", "sk", "step", "posted_at", "request_hash", "debit", "credit", "side", "amount", "currency"),
        *("decision", "provider", "account", "order"),
        *("payer", "payee", "fee", "deadline_seconds", "claimed_at", "opened_at"),
        *("status", "release_at", "fee_at", EXPIRES),
        *("line", "file", "bank_account", "bank_reference", "booked", "valued"),
    )
)
"""Attributes that a line copies. The digest covers the others.

The others may be personal (reasons, causes, references, `by`), and a locked object cannot be erased.
"""


_TIME_TO_LIVE = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
"""Identity of DynamoDB's time to live. A stream record has it if time to live deleted the row."""


def _listed(value: Any) -> Any:
    return sorted(value) if isinstance(value, set | frozenset) else str(value)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_listed)


def is_sealed(row: Row) -> bool:
    return bool(row["pk"].startswith(KINDS))


def digest(row: Row) -> str:
    return hashlib.sha256(canonical(row)).hexdigest()


def canonical(row: Row, but: str = "") -> bytes:
    """The immutable attributes in canonical form, without the attribute `but`."""
    return _CANONICAL.encode(_kept(row, but)).encode()


def worded(row: Row) -> bytes | None:
    """Return a settlement's canonical form with the caller's words; None for other rows.

    Absent words are null, so this form always differs from `canonical`.
    """
    if not row["pk"].startswith("SETTLEMENT#"):
        return None
    return _CANONICAL.encode(_kept(row) | {name: row.get(name) for name in LABELS}).encode()


def worded_digest(row: Row) -> str | None:
    form = worded(row)
    return None if form is None else hashlib.sha256(form).hexdigest()


def image(row: Row) -> dict[str, Any]:
    found = {"row": {name: row[name] for name in sorted(_OPEN & row.keys())}, "sha256": digest(row)}
    words = worded_digest(row)
    return found if words is None else found | {WORDED: words}


def is_as_sealed(row: Row, sealed: Mapping[str, Any]) -> bool:
    """Whether the row's digests agree with the sealed ones. Earlier releases sealed only one digest."""
    return digest(row) == sealed["sha256"] and sealed.get(WORDED) in (None, worded_digest(row))


def line(record: Mapping[str, Any]) -> dict[str, Any]:
    """The line of a stream record. Equal records have equal lines."""
    change = record["dynamodb"]
    images = {
        name: image(plain_row(change[of]))
        for name, of in (("new", "NewImage"), ("old", "OldImage"))
        if of in change
    }
    at = int(change["ApproximateCreationDateTime"])
    return {"event": record["eventName"], "at": at, "number": change["SequenceNumber"], **images}


def filled(row: Row, at: int) -> dict[str, Any]:
    """Build the line of a row that a person copied, because its stream record was lost."""
    return {"event": "FILL", "at": at, "new": image(row)}


def has_expired(record: Mapping[str, Any], least_days: int | None) -> bool:
    """Whether DynamoDB deleted an expired entry.

    False for a row that never expires or whose expiry is wrong.
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
    """Whether a line records tampering. The stream's filter drops lawful changes."""
    return told["event"] in ("MODIFY", "REMOVE")


def subject(told: Mapping[str, Any]) -> tuple[str, str]:
    row = told["new" if "new" in told else "old"]["row"]
    return row["pk"], row["sk"]


def _kept(row: Row, but: str = "") -> Row:
    kept = CREATED.get(row["pk"].partition("#")[0] + "#", row)
    return {name: row[name] for name in kept if name in row and name != but}


def content(lines: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(_CANONICAL.encode(one).encode() + b"\n" for one in lines)


def plain_row(image_of: Mapping[str, Any], fraction: Callable[[str], Any] = str) -> Row:
    """Convert a row from DynamoDB's wire format as a scan does.

    The row may be forged. `fraction` converts a non-integer number.
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
