import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.request import ACCOUNT, KEY
from settlement.core.model.settlement import hash_of
from settlement.core.model.stored import MalformedRow, sound, subject_of
from settlement.payouts.iban import is_iban

_REFERENCE_BYTES = 20
REFERENCE_LENGTH = _REFERENCE_BYTES * 8 // 5
"""Characters of a reference, in base 32. ISO 20022 allows 35 in an end-to-end id."""

RETURN = "#RETURN"

CURRENCY = re.compile(r"[A-Z][A-Z0-9]{2,11}", re.ASCII)
DESTINATION = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
HOLDER_LENGTH_MAX = 70
"""Maximum characters of a name in a SEPA transfer."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
REFERENCE = re.compile(rf"[A-Z2-7]{{{REFERENCE_LENGTH}}}", re.ASCII)
_NAMED = re.compile(REFERENCE.pattern, re.ASCII | re.IGNORECASE)

_REQUEST = ("account", "amount", "currency", "destination")


class Status(StrEnum):
    RESERVED = "RESERVED"
    SENDING = "SENDING"
    UNKNOWN = "UNKNOWN"
    ACCEPTED = "ACCEPTED"
    PAID = "PAID"
    CONFIRMED = "CONFIRMED"
    REFUSED = "REFUSED"
    RETURNED = "RETURNED"
    LIMBO = "LIMBO"


class Word(StrEnum):
    """The bank's last word about a payout."""

    ACCEPTED = "accepted"
    PAID = "paid"
    REFUSED = "refused"
    RETURNED = "returned"
    NEVER_SEEN = "never seen"
    UNKNOWN = "unknown"


def reference_in(text: str) -> str | None:
    """The text in capitals if it has the form of a payout's reference, else None."""
    return text.upper() if _NAMED.fullmatch(text) else None


def reference_of(key: str) -> str:
    """The payout's permanent reference at the bank, derived from the key alone."""
    digest = hashlib.sha256(f"payout:{key}".encode()).digest()
    return base64.b32encode(digest[:_REFERENCE_BYTES]).decode()


@dataclass(frozen=True, kw_only=True)
class Payout:
    """A payout's request. `amount` is in minor units; `destination` is the id of a payee's account."""

    key: str
    account: str
    amount: int
    currency: str
    destination: str

    @cached_property
    def request_hash(self) -> str:
        return hash_of({"key": self.key, **self.content})

    @property
    def content(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _REQUEST}

    @cached_property
    def reference(self) -> str:
        return reference_of(self.key)

    def name_of(self, side: Side) -> str:
        """The name of the payout's debit or return, used as an order's key beside a bank's line."""
        return f"{keys.payout(self.key)['pk']}{'' if side is Side.OUT else RETURN}"


@dataclass(frozen=True, kw_only=True)
class State:
    """A payout's row. Times are UTC timestamps, as stored.

    `iban` and `holder` are copies: a send needs only the row. `sequence` counts and fences moves, lines and
    cases. `attempts` counts sends; `sent_sha256` is the digest of the bytes. `asked_from`: when persons
    decided "ask again". `said` is the bank's last word, `detail` the bank's reason or ours. `listed_at` is
    the next look, or the start of a case; None at rest. `trouble` is the open case's reason. `debit_line` and
    `return_line` are identities. `in_suspense` is 1 while suspense has the money; `given_back_at` and
    `given_back_to`: when suspense gave it back, and to whom. `decided` is two persons' last decision.
    """

    payout: Payout
    iban: str = field(repr=False)
    holder: str = field(repr=False)
    status: Status
    sequence: int
    reserved_at: str
    attempts: int = 0
    first_sent_at: str | None = None
    sent_at: str | None = None
    sent_sha256: str | None = None
    asked_from: str | None = None
    said: Word | None = None
    said_at: str | None = None
    detail: str | None = None
    paid_at: str | None = None
    ended_at: str | None = None
    listed_at: str | None = None
    trouble: str | None = None
    cases: int = 0
    debit_line: str | None = None
    return_line: str | None = None
    in_suspense: int | None = None
    given_back_at: str | None = None
    given_back_to: str | None = None
    decided: Mapping[str, str] | None = None

    @property
    def key(self) -> str:
        return self.payout.key

    @property
    def is_sent(self) -> bool:
        return self.first_sent_at is not None

    @property
    def lacks_return(self) -> bool:
        """Whether a returned payout's debit is on a statement, but its return is not."""
        return self.status is Status.RETURNED and bool(self.debit_line) and not self.return_line

    @property
    def is_at_rest(self) -> bool:
        return (self.status in AT_REST and not self.lacks_return) or self.is_closed

    @property
    def is_closed(self) -> bool:
        """Whether two persons closed the last case. A line may still come."""
        last = self.decided or {}
        return (last.get("case"), last.get("verdict")) == (str(self.cases), CLOSE)

    @property
    def digest(self) -> str:
        """SHA-256 of the payout as a person is shown it."""
        shown = {name: value for name, value in self.to_row().items() if name not in _NOT_SHOWN}
        return hash_of(shown)

    def to_row(self) -> Row:
        content = {name: value for name in _OWN if (value := getattr(self, name)) is not None}
        return {
            **keys.payout(self.key),
            **self.payout.content,
            "request_hash": self.payout.request_hash,
            "reference": self.payout.reference,
            **content,
            **self._listing(),
        }

    def _listing(self) -> Row:
        if self.listed_at is None:
            return {}
        if self.trouble is not None:
            return keys.payout_cases_index(self.listed_at)
        return keys.payouts_index(self.key, self.listed_at)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "State":
        """Raises MalformedRow."""
        row = sound(row)
        request = {name: row[name] for name in _REQUEST}
        found = cls(
            payout=Payout(key=keys.subject(row)[1], **request),
            status=_member(row, "status", Status),
            said=_member(row, "said", Word) if "said" in row else None,
            listed_at=row.get("gsi1sk"),
            **{name: row[name] for name in _REQUIRED},
            **{name: row[name] for name in _OPTIONAL if name in row},
        )
        for problem in _problems(found, row):
            raise MalformedRow(f"{subject_of(row)}: {problem}")
        return found


CLOSE = "close"
"""The verdict that ends a case without more looks."""

AT_REST = frozenset({Status.CONFIRMED, Status.REFUSED, Status.RETURNED})
"""Final statuses, except that a CONFIRMED payout may still come back."""

UNDER_WAY = frozenset({Status.RESERVED, Status.SENDING, Status.UNKNOWN, Status.ACCEPTED, Status.LIMBO})
"""Statuses with the money in transit."""

_REQUIRED = ("iban", "holder", "sequence", "reserved_at")
_TIMES = ("first_sent_at", "sent_at", "asked_from", "said_at", "paid_at", "ended_at", "given_back_at")
_TEXTS = ("sent_sha256", "detail", "trouble", "debit_line", "return_line", "given_back_to")
_COUNTS = ("attempts", "cases")
_OPTIONAL = (*_TIMES, *_TEXTS, *_COUNTS, "in_suspense", "decided")
_OWN = (*_REQUIRED, *_OPTIONAL, "status", "said")
_NOT_SHOWN = ("sequence",)
_SENT = frozenset({Status.SENDING, Status.ACCEPTED, Status.PAID, Status.CONFIRMED, Status.RETURNED})


def _member(row: Row, name: str, kind: Any) -> Any:
    value = row[name]
    try:
        return kind(value)
    except ValueError:
        raise MalformedRow(f"{subject_of(row)}: {name} must be one of {', '.join(kind)}") from None


def _problems(state: State, row: Row) -> Iterator[str]:
    payout = state.payout
    for name, pattern in (("account", ACCOUNT), ("currency", CURRENCY), ("destination", DESTINATION)):
        if not _matches(pattern, getattr(payout, name)):
            yield f"{name} must match ^{pattern.pattern}$"
    if not KEY.fullmatch(payout.key):
        yield f"its key must match ^{KEY.pattern}$"
    yield from _wrong_values(state, row)
    yield from _contradictions(state, row)


def _wrong_values(state: State, row: Row) -> Iterator[str]:
    for name, lowest in (("amount", 1), ("sequence", 1), *dict.fromkeys(_COUNTS, 0).items()):
        value = row.get(name, lowest)
        if type(value) is not int or value < lowest:
            yield f"{name} must be a whole number from {lowest}"
    if not is_iban(state.iban):
        yield "iban must be an IBAN"
    if not is_holder(state.holder):
        yield f"holder must be printable text of 1 to {HOLDER_LENGTH_MAX} characters"
    for name in ("reserved_at", *_TIMES, "gsi1sk"):
        if (name in row or name == "reserved_at") and not is_time(row[name]):
            yield f"{name} must be a time in UTC with milliseconds"
    for name in _TEXTS:
        if not isinstance(row.get(name, ""), str):
            yield f"{name} must be a text"
    for name in ("sent_sha256", "debit_line", "return_line"):
        if name in row and not _matches(_SHA256, row[name]):
            yield f"{name} must be a SHA-256"
    decided = row.get("decided", {"verdict": "", "case": ""})
    if not (isinstance(decided, dict) and all(isinstance(one, str) for one in decided.values())):
        yield "decided must be a map of texts"
    elif not decided.keys() >= {"verdict", "case"}:
        yield "decided must have a verdict and a case"


def _contradictions(state: State, row: Row) -> Iterator[str]:
    if row["request_hash"] != state.payout.request_hash:
        yield "request_hash is not that of its request"
    if row["reference"] != state.payout.reference:
        yield "reference is not that of its key"
    sent = {name in row for name in ("first_sent_at", "sent_at", "sent_sha256")}
    if len(sent) != 1 or sent != {state.attempts > 0}:
        yield "first_sent_at, sent_at, sent_sha256 and attempts must be there together"
    elif state.status in _SENT and not state.is_sent:
        yield f"status is {state.status}, but nothing was sent"
    suspense = row.get("in_suspense", 1)
    if "in_suspense" in row and (type(suspense), suspense, state.status) != (int, 1, Status.RETURNED):
        yield "in_suspense must be 1, and only of a returned payout"
    if state.status is Status.CONFIRMED and state.debit_line is None:
        yield "status is CONFIRMED without a bank's line"
    if ("said" in row) != ("said_at" in row):
        yield "said and said_at must be there together"


def is_holder(text: object) -> bool:
    return (
        isinstance(text, str)
        and text.isprintable()
        and text == text.strip()
        and 1 <= len(text) <= HOLDER_LENGTH_MAX
    )


def is_time(text: object) -> bool:
    if not _matches(_TIME, text):
        return False
    try:
        datetime.fromisoformat(str(text))
    except ValueError:
        return False
    return True


def _matches(pattern: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and pattern.fullmatch(text) is not None
