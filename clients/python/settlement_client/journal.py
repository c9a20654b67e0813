from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from settlement_client.errors import InvalidRequest, MalformedAnswer
from settlement_client.fields import Fields, object_of
from settlement_client.reading import Readers


@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    """One immutable movement of money. `key` and `step` identify it."""

    key: str
    step: str
    posted_at: datetime
    debit: str
    credit: str
    amount: Decimal
    currency: str
    request_hash: str


@dataclass(frozen=True)
class Skipped:
    """An unreadable line of a journal object. `line` is None if the whole object is unreadable."""

    object: str
    line: int | None
    reason: str


@dataclass(frozen=True)
class JournalPage:
    """Entries, and the cursor after them. Store both, to continue from there.

    `cursor` is None as long as nothing is sealed.
    """

    entries: tuple[JournalEntry, ...]
    skipped: tuple[Skipped, ...]
    more: bool
    cursor: str | None

    @classmethod
    def from_json(cls, given: str | bytes | Mapping[str, Any]) -> "JournalPage":
        """Return the page in a JSON text or object. Raises MalformedAnswer with the field."""
        told = Fields(object_of(given, "journal"), "journal")
        return cls(
            tuple(_entry(one) for one in told.objects("entries")),
            tuple(_skipped(one) for one in told.objects("skipped")),
            told.flag("more"),
            told.text("cursor") if told.is_set("cursor") else None,
        )


def pages(readers: Readers, since: datetime | None, cursor: str | None) -> Iterator[JournalPage]:
    """Yield the pages that exist now, from `cursor`. Raises Unavailable and InvalidRequest."""
    if since is not None and since.utcoffset() is None:
        raise InvalidRequest("since: must have a time zone")
    query: dict[str, str] = {}
    if since is not None:
        text = since.astimezone(UTC).isoformat(timespec="milliseconds")
        query["since"] = text.replace("+00:00", "Z")
    while True:
        place = {} if cursor is None else {"cursor": cursor}  # first: AWS signs them by their names
        page = JournalPage.from_json(readers.asked("journal", "/journal", place | query).text)
        if page.more and page.cursor in (None, cursor):
            raise MalformedAnswer("journal.cursor: does not go on")
        yield page
        if not page.more:
            return
        cursor = page.cursor


def _entry(told: Fields) -> JournalEntry:
    return JournalEntry(
        key=told.text("key"),
        step=told.text("step"),
        posted_at=told.instant("posted_at"),
        debit=told.text("debit"),
        credit=told.text("credit"),
        amount=told.amount("amount"),
        currency=told.text("currency"),
        request_hash=told.text("request_hash"),
    )


def _skipped(told: Fields) -> Skipped:
    line = told.count("line") if told.is_set("line") else None
    return Skipped(told.text("object"), line, told.text("reason"))
