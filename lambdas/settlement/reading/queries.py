import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from settlement.core.ledger import keys
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.request import ACCOUNT, KEY
from settlement.core.model.status import Status
from settlement.core.model.timestamps import timestamp

WAIT_SECONDS_MAX = 20
"""Longest wait for an outcome. API Gateway gives a call 30 s."""

PAGE_ENTRIES, PAGE_ENTRIES_MAX = 50, 100
"""Default and maximum entries per page of a statement."""

PAGE_SETTLEMENTS, PAGE_SETTLEMENTS_MAX = 25, 50
"""Default and maximum settlements per page. Each costs a read."""

PAGE_JOURNAL, PAGE_JOURNAL_MAX = 100, 500

IN_FLIGHT = (Status.PROCESSING, Status.COMPENSATING)

LISTED = (*IN_FLIGHT, Status.LIMBO)

BEGINNING, END = "0", keys.END_OF_TIME
"""Bounds that sort before and after every timestamp."""

INTERNAL = re.compile(r"(?:fees|losses|external):[A-Z0-9]{1,32}", re.ASCII)
"""Internal accounts with entries. Each has one currency or asset."""

_SEQUENCE = re.compile(r"0|[1-9][0-9]{0,14}", re.ASCII)
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?Z)?", re.ASCII)
_STORED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", re.ASCII)
_ENTRY = re.compile(rf"({_STORED.pattern})#[A-Za-z0-9_-]{{1,64}}:[a-z0-9:_-]{{1,40}}", re.ASCII)
_OBJECT = re.compile(r"journal/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{4}/[0-9a-f]{64}\.jsonl\.gz", re.ASCII)
_CURSOR_LENGTH_MAX = 400
_FIELD_LENGTH_MAX = 40


@dataclass(frozen=True, kw_only=True)
class OutcomeQuery:
    """A query for an outcome. It waits up to `wait` seconds for a sequence above `after`."""

    key: str
    after: int | None
    wait: int


@dataclass(frozen=True, kw_only=True)
class EntriesQuery:
    """Entries from `since` to `before`, which is excluded.

    `position` is the sort key of the last entry that the client has.
    """

    account: str
    since: str
    before: str
    limit: int
    position: str | None

    def cursor(self, position: str) -> str:
        return _cursor(_of_entries(self.account, self.since, self.before), position)


@dataclass(frozen=True, kw_only=True)
class StatusQuery:
    """Settlements in a status. `position` is the client's last place in the index."""

    status: Status
    since: str
    limit: int
    position: tuple[int, str, str] | None

    def cursor(self, position: tuple[int, str, str]) -> str:
        return _cursor(_of_status(self.status, self.since), *position)


@dataclass(frozen=True, kw_only=True)
class JournalQuery:
    """A query of the journal. `position` is the client's last object and line. Line 0: the whole object."""

    since: str
    limit: int
    position: tuple[str, int] | None

    def cursor(self, position: tuple[str, int]) -> str:
        return _cursor(_of_journal(self.since), *position)


def parse_outcome_query(key: object, raw: Mapping[str, str]) -> OutcomeQuery:
    """Parse a query for an outcome. Raises InvalidRequest."""
    checks = _Checks(raw, ("wait", "after"))
    if not (isinstance(key, str) and KEY.fullmatch(key)):
        checks.wrong("key", f"must match {KEY.pattern}")
    after = checks.number("after", 0, None)
    wait = checks.number("wait", 0, WAIT_SECONDS_MAX)
    if wait and "after" not in raw:
        checks.wrong("after", "must be given with wait: the sequence that the caller has, or 0")
    checks.end()
    return OutcomeQuery(key=str(key), after=after, wait=wait or 0)


def parse_entries_query(account: object, raw: Mapping[str, str]) -> EntriesQuery:
    """Parse a query for a statement. Raises InvalidRequest."""
    checks = _Checks(raw, ("from", "to", "limit", "cursor"))
    if not _is_account(account):
        checks.wrong("id", "must be an account's id, or an internal account such as fees:EUR")
    since, before = checks.instant("from", BEGINNING), checks.instant("to", END)
    limit = checks.number("limit", 1, PAGE_ENTRIES_MAX)
    checks.end()
    if since >= before:
        raise InvalidRequest("to: must be after from")
    return _entries(str(account), since, before, limit or PAGE_ENTRIES, raw)


def parse_list_query(raw: Mapping[str, str]) -> EntriesQuery | StatusQuery:
    """Parse a query. Raises InvalidRequest.

    A query by account lists entries. Their settlements are read afterwards.
    """
    checks = _Checks(raw, ("account", "status", "since", "limit", "cursor"))
    if "account" in raw and not _is_account(raw["account"]):
        checks.wrong("account", "must be an account's id, or an internal account such as fees:EUR")
    if "status" in raw and raw["status"] not in LISTED:
        checks.wrong("status", f"must be {', '.join(LISTED)}: no index lists another")
    since = checks.instant("since", BEGINNING)
    limit = checks.number("limit", 1, PAGE_SETTLEMENTS_MAX) or PAGE_SETTLEMENTS
    checks.end()
    if "account" in raw and "status" in raw:
        raise InvalidRequest("status: must be left out with account: no index serves both")
    if "account" in raw:
        return _entries(raw["account"], since, END, limit, raw)
    if "status" not in raw:
        raise InvalidRequest("account, status: name one of them: no index lists every settlement")
    status = Status(raw["status"])
    if "since" in raw and status in IN_FLIGHT:
        raise InvalidRequest(f"since: must be left out with {status}: its index has no time of a claim")
    position = None
    if "cursor" in raw:
        position = _place(status, since, _position(raw["cursor"], _of_status(status, since)))
    return StatusQuery(status=status, since=since, limit=limit, position=position)


def parse_journal_query(raw: Mapping[str, str]) -> JournalQuery:
    """Parse a query of the journal. Raises InvalidRequest."""
    checks = _Checks(raw, ("since", "limit", "cursor"))
    since = checks.instant("since", BEGINNING)
    limit = checks.number("limit", 1, PAGE_JOURNAL_MAX) or PAGE_JOURNAL
    checks.end()
    position = None
    if "cursor" in raw:
        position = _line(_position(raw["cursor"], _of_journal(since)))
    return JournalQuery(since=since, limit=limit, position=position)


class _Checks:
    def __init__(self, raw: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._raw = raw
        self._problems: list[str] = []
        for name in sorted(raw.keys() - {*known})[:5]:
            shown = name[:_FIELD_LENGTH_MAX].encode("unicode_escape").decode()
            self.wrong(shown, "unknown parameter")

    def wrong(self, name: str, problem: str) -> None:
        self._problems.append(f"{name}: {problem}")

    def number(self, name: str, least: int, most: int | None) -> int | None:
        text = self._raw.get(name)
        if text is None:
            return None
        number = int(text) if _SEQUENCE.fullmatch(text) else -1
        if number < least or (most is not None and number > most):
            bounds = f"at least {least}" if most is None else f"from {least} to {most}"
            self.wrong(name, f"must be a whole number, {bounds}")
        return number

    def instant(self, name: str, otherwise: str) -> str:
        """Return the field `name` as a time in the table's format."""
        text = self._raw.get(name)
        if text is None:
            return otherwise
        try:
            if not _INSTANT.fullmatch(text):
                raise ValueError(name)
            return timestamp(datetime.fromisoformat(text if "T" in text else f"{text}T00:00:00Z"))
        except ValueError:
            self.wrong(name, "must be a day such as 2026-11-20, or an instant in UTC: 2026-11-20T12:00:00Z")
            return otherwise

    def end(self) -> None:
        if self._problems:
            raise InvalidRequest("; ".join(self._problems))


def _is_account(account: object) -> bool:
    return isinstance(account, str) and bool(ACCOUNT.fullmatch(account) or INTERNAL.fullmatch(account))


def _entries(account: str, since: str, before: str, limit: int, raw: Mapping[str, str]) -> EntriesQuery:
    position = None
    if "cursor" in raw:
        found = _position(raw["cursor"], _of_entries(account, since, before))
        position = found[0] if len(found) == 1 and isinstance(found[0], str) else ""
        if not (_ENTRY.fullmatch(position) and since <= position < before):
            raise _foreign()
    return EntriesQuery(account=account, since=since, before=before, limit=limit, position=position)


def _place(status: Status, since: str, found: list[Any]) -> tuple[int, str, str]:
    """Check a cursor's place. It must be in the query's part of the index: DynamoDB refuses others."""
    if len(found) != 3 or [type(one) for one in found] != [int, str, str]:
        raise _foreign()
    number, listed_at, key = found
    partitions = keys.IN_FLIGHT_SHARDS if status in IN_FLIGHT else 1
    if not (0 <= number < partitions and KEY.fullmatch(key)):
        raise _foreign()
    if not (_STORED.fullmatch(listed_at) and listed_at >= since):
        raise _foreign()
    return number, listed_at, key


def _line(found: list[Any]) -> tuple[str, int]:
    if [type(one) for one in found] != [str, int]:
        raise _foreign()
    name, line = found
    if not (_OBJECT.fullmatch(name) and line >= 0):
        raise _foreign()
    return name, line


def _of_entries(account: str, since: str, before: str) -> list[str]:
    return ["entries", account, since, before]


def _of_status(status: Status, since: str) -> list[str]:
    return ["status", status.value, since]


def _of_journal(since: str) -> list[str]:
    return ["journal", since]


def _cursor(query: list[str], *position: object) -> str:
    """A cursor: a position, and the digest of its query.

    A cursor gives no rights: each page repeats the query. A forged cursor only begins the page elsewhere.
    """
    content = json.dumps([_digest(query), *position], separators=(",", ":"))
    return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")


def _position(cursor: str, query: list[str]) -> list[Any]:
    try:
        if len(cursor) > _CURSOR_LENGTH_MAX:
            raise ValueError("too long")
        padded = cursor + "=" * (-len(cursor) % 4)
        content = json.loads(base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        raise _foreign() from None
    if not (isinstance(content, list) and content and content[0] == _digest(query)):
        raise _foreign()
    return content[1:]


def _digest(query: list[str]) -> str:
    return hashlib.sha256(json.dumps(query).encode()).hexdigest()[:16]


def _foreign() -> InvalidRequest:
    return InvalidRequest("cursor: must be the one of the page before, with the same other parameters")
