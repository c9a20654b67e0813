import base64
import gzip
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from handlers import _dependencies
from handlers.reading import _journal_page
from settlement.core.model.errors import JournalUnavailable
from settlement.journal import bucket as _journal
from settlement.journal import lines, seals
from settlement.reading import queries
from tests.proof import sealed_town as towns
from tests.proof.town import Town
from tests.world import reading
from tests.world.functions import HANDLERS, Context
from tests.world.memory_s3 import MemoryS3
from tests.world.reading import Answer
from tests.world.sealed import inserted

NAMES = ("posted_at", "key", "step")


@pytest.fixture(scope="module")
def town() -> Town:
    return towns.new_town()


@pytest.fixture
def journal(s3: MemoryS3, town: Town, monkeypatch: pytest.MonkeyPatch) -> MemoryS3:
    """A test stage's sealed journal, read an hour later by a function without a table."""
    for name, content in towns.objects(town).items():
        s3.put_object(Bucket="journal", Key=name, Body=content)
    monkeypatch.setattr(_dependencies, "store", None)
    at(monkeypatch, town.now + timedelta(hours=1))
    return s3


def at(monkeypatch: pytest.MonkeyPatch, now: datetime) -> None:
    monkeypatch.setattr(_dependencies, "now", lambda: now)


def put(s3: MemoryS3, at: datetime, *told: Any) -> str:
    content = lines.content(told)
    name = seals.object_name(content, at)
    s3.put_object(Bucket="journal", Key=name, Body=gzip.compress(content))
    return name


def ask(**query: str) -> Answer:
    return reading.answer(HANDLERS["ReadSettlements"](reading.journal(**query), Context()))


def walk(**query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        answer = ask(**query)
        assert answer.status == 200, answer
        found.append(answer.content)
        if not answer.content["more"]:
            return found
        query["cursor"] = answer.content["cursor"]


def entries(found: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [tuple(one[name] for name in NAMES) for page in found for one in page["entries"]]


def posted(town: Town) -> set[tuple[str, ...]]:
    return {
        (
            row["posted_at"],
            row["sk"].removeprefix(f"{row['posted_at']}#").removesuffix(f":{row['step']}"),
            row["step"],
        )
        for row in towns.entries(town)
    }


@pytest.mark.parametrize("limit", ["1", "3", "500"])
def test_walking_the_pages_gives_the_whole_journal(journal: MemoryS3, town: Town, limit: str) -> None:
    found = walk(limit=limit)

    assert set(entries(found)) == posted(town)
    assert entries(found) == entries(walk())
    assert {len(page["entries"]) for page in found[:-1]} <= {int(limit)}
    assert not any(page["skipped"] for page in found)


def test_the_api_shows_an_entry_as_the_command_does(journal: MemoryS3) -> None:
    one = next(
        one for one in walk()[0]["entries"] if (one["key"], one["step"]) == ("order-2026-000001", "release")
    )

    assert one.keys() == {*NAMES, "debit", "credit", "amount", "currency", "request_hash"}
    assert (one["debit"], one["credit"], one["amount"]) == ("escrow:order-2026-000001", "bob", "47.72")


def test_a_reader_at_the_end_later_gets_newly_sealed_entries(
    journal: MemoryS3, town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = walk()[-1]
    put(journal, town.now + timedelta(hours=2), *map(inserted, towns.entries(town)[:3]))
    at(monkeypatch, town.now + timedelta(hours=3))

    nothing = ask(cursor=ask(cursor=last["cursor"]).content["cursor"])
    new = walk(cursor=last["cursor"])

    assert len(entries(new)) == 3
    assert nothing.content["entries"] == []


def test_minutes_that_may_still_get_objects_are_held_back(
    s3: MemoryS3, town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, *others = towns.entries(town)
    put(s3, town.now, inserted(row))
    at(monkeypatch, town.now + _journal.GRACE)
    early = ask().content
    put(s3, town.now, *map(inserted, others))
    at(monkeypatch, town.now + _journal.GRACE + timedelta(minutes=1))

    assert (early["entries"], early["more"], early["cursor"]) == ([], False, None)
    assert early["sealed_until"] <= town.now.isoformat()
    assert set(entries(walk())) == posted(town)


def test_since_leaves_out_older_entries_without_reading_older_objects(journal: MemoryS3, town: Town) -> None:
    old = seals.object_name(b"", town.now - timedelta(days=30))
    journal.put_object(Bucket="journal", Key=old, Body=b"no gzip")
    times = sorted(row["posted_at"] for row in towns.entries(town))

    found = walk(since=times[3], limit="2")

    assert {one for one, _, _ in entries(found)} == {one for one in times if one >= times[3]}
    assert not any(page["skipped"] for page in found)
    assert walk()[0]["skipped"][0]["object"] == old
    assert entries(walk(since="0001-01-01")) == entries(walk())


def test_a_bad_entry_or_lost_object_is_named_and_skipped(journal: MemoryS3, town: Town) -> None:
    row = towns.entries(town)[0]
    bad = put(journal, town.now, inserted({**row, "amount": "4820"}), inserted(row))
    foreign = put(journal, town.now, inserted({**row, "currency": "XXX"}))
    lost = put(journal, town.now, {"event": "INSERT", "at": 1, "new": lines.image(row)})
    journal.versions[lost] = [None]

    found = walk(limit="3")

    told = {(one["object"], one["line"]): one["reason"] for page in found for one in page["skipped"]}
    assert told == {
        (bad, 1): "no entry: amount: must be a whole number, at least 0",
        (foreign, 1): "currency: the stage has no XXX",
        (lost, None): "cannot be read: NoSuchKey",
    }
    assert set(entries(found)) == posted(town)


def test_an_object_deleted_between_two_pages_is_named(journal: MemoryS3, town: Town) -> None:
    name = put(journal, town.now - timedelta(days=1), *map(inserted, towns.entries(town)[:2]))
    first = ask(limit="1").content
    del journal.versions[name]

    assert {"object": name, "line": None, "reason": "is gone"} in walk(cursor=first["cursor"])[0]["skipped"]


def test_a_page_is_limited_in_entries_objects_and_time(
    journal: MemoryS3, town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = Context(iter([_journal_page.RESERVED_MS] * 99))
    late = reading.answer(HANDLERS["ReadSettlements"](reading.journal(), over)).content
    monkeypatch.setattr(_journal_page, "OBJECTS_MAX", 2)
    few = walk()
    monkeypatch.setattr(_journal_page, "PAGE_BYTES_MAX", 1)
    small = walk()

    assert (late["more"], len(late["entries"]) <= 5) == (True, True)
    assert len(few) == len(journal.objects) / 2
    assert {len(page["entries"]) for page in small} <= {0, 1}
    assert set(entries(few)) == set(entries(small)) == posted(town)


@pytest.mark.parametrize("fault", ["AccessDenied", None])
def test_an_unavailable_journal_returns_503(
    journal: MemoryS3, monkeypatch: pytest.MonkeyPatch, fault: str | None
) -> None:
    def fails(**_: Any) -> Any:
        if fault:
            raise ClientError({"Error": {"Code": fault, "Message": ""}}, "GetObject")
        raise ReadTimeoutError(endpoint_url="s3")

    monkeypatch.setattr(journal, "get_object", fails)

    answer = ask()
    assert (answer.status, answer.content["error"]) == (503, JournalUnavailable.__name__)


def forged(*content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps([*content]).encode()).decode().rstrip("=")


DIGEST = queries._digest(queries._of_journal(queries.BEGINNING))
NAME = f"journal/2026-11-20T1200/{'0' * 64}.jsonl.gz"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"since": "yesterday"}, "since"),
        ({"limit": "501"}, "limit"),
        ({"limit": "0"}, "limit"),
        ({"until": "2026-11-20"}, "until"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "ä"}, "cursor"),
        ({"cursor": forged(DIGEST)}, "cursor"),
        ({"cursor": forged(DIGEST, NAME)}, "cursor"),
        ({"cursor": forged(DIGEST, NAME, -1)}, "cursor"),
        ({"cursor": forged(DIGEST, NAME, True)}, "cursor"),
        ({"cursor": forged(DIGEST, f"../{NAME}", 0)}, "cursor"),
        ({"cursor": forged(DIGEST, NAME.replace("journal", "seals"), 0)}, "cursor"),
        ({"cursor": forged("0" * 16, NAME, 0)}, "cursor"),
        ({"cursor": forged(DIGEST, NAME, 0), "since": "2026-11-20"}, "cursor"),
    ],
)
def test_a_bad_parameter_is_named(journal: MemoryS3, query: dict[str, str], field: str) -> None:
    answer = ask(**query)

    assert (answer.status, answer.content["error"]) == (400, "InvalidRequest")
    assert answer.content["message"].partition(":")[0] == field


def test_a_forged_cursor_only_changes_the_starting_place(journal: MemoryS3, town: Town) -> None:
    assert set(entries(walk(cursor=forged(DIGEST, NAME, 0)))) == posted(town)
