import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from settlement_client import Client, InvalidRequest, MalformedAnswer, Skipped, Unavailable
from tests.client.conftest import DOWN, SIGNED, Api, Said

ENTRY = {
    "posted_at": "2026-11-20T12:00:00.123Z",
    "key": "order-2026-000101",
    "step": "hold",
    "debit": "alice",
    "credit": "escrow:order-2026-000101",
    "amount": "48.20",
    "currency": "EUR",
    "request_hash": "0" * 64,
}
MORE: dict[str, Any] = {"more": "yes"}
LINE = "journal.skipped[0].line"
SKIPPED = {"object": "journal/x", "line": None, "reason": "is gone"}


def page(*entries: dict[str, Any], more: bool = False, **changes: Any) -> Said:
    told = {"entries": [*entries], "skipped": [], "sealed_until": "2026-11-20T12:00:00.000Z"}
    return 200, {**told, "more": more, "cursor": "c", **changes}, None


def test_the_client_asks_for_the_journals_pages_by_signed_calls(api: Api, client: Client) -> None:
    api.answers = [page(ENTRY, more=True, cursor="a"), page(ENTRY, cursor="b", skipped=[SKIPPED])]
    since = datetime(2026, 11, 20, 13, 0, 0, 999, timezone(timedelta(hours=1)))

    first, last = client.journal(since)

    assert (first.entries[0].key, first.entries[0].amount) == ("order-2026-000101", Decimal("48.20"))
    assert first.entries[0].posted_at == datetime(2026, 11, 20, 12, 0, 0, 123_000, UTC)
    assert (last.cursor, last.skipped) == ("b", (Skipped("journal/x", None, "is gone"),))
    asked = {"path": "/journal", "since": "2026-11-20T12:00:00.000Z"}
    assert api.asked == [asked, {**asked, "cursor": "a"}]
    assert all(map(SIGNED.fullmatch, api.authorizations))


def test_a_stored_cursor_continues_and_can_return_an_empty_page(api: Api, client: Client) -> None:
    api.answers = [page(cursor=None)]

    (only,) = client.journal(cursor="kept")

    assert (only.entries, only.cursor) == ((), None)
    assert api.asked == [{"path": "/journal", "cursor": "kept"}]


def test_a_failed_page_ends_the_journal_walk_with_unavailable(api: Api, client: Client) -> None:
    api.answers = [page(ENTRY, more=True, cursor="a"), DOWN]
    walk = client.journal()

    assert next(walk).cursor == "a"
    with pytest.raises(Unavailable, match="journal: 503"):
        next(walk)


def test_a_time_without_a_timezone_is_refused_before_any_call(api: Api, client: Client) -> None:
    with pytest.raises(InvalidRequest, match=r"^since: must have a time zone$"):
        next(client.journal(datetime(2026, 11, 20)))

    assert api.asked == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (page({**ENTRY, "amount": 48}), "journal.entries[0].amount: must be a string"),
        (page(ENTRY, {"key": "x"}), "journal.entries[1].step: missing"),
        (page(entries={}), "journal.entries: must be a list of objects"),
        (
            page(skipped=[{**SKIPPED, "line": -1}]),
            "journal.skipped[0].line: must be a whole number, at least 0",
        ),
        (page(**MORE), "journal.more: must be true or false"),
        (page(more=True, cursor=None), "journal.cursor: does not go on"),
        (page(more=True, cursor="kept"), "journal.cursor: does not go on"),
    ],
)
def test_the_error_about_a_malformed_page_names_its_fault(
    api: Api, client: Client, answer: Said, words: str
) -> None:
    api.answers = [answer]

    with pytest.raises(MalformedAnswer, match=f"^{re.escape(words)}$"):
        next(client.journal(cursor="kept"))
