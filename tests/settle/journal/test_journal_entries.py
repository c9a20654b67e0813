import csv
import gzip
import io
import json
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from settle import instants, stack
from settle.exit_codes import Exit
from settlement.core.model import money
from settlement.core.model.timestamps import timestamp
from settlement.journal import lines, seals
from tests.proof import sealed_town as towns
from tests.proof.town import CONFIG, Town
from tests.settle.conftest import Command
from tests.world.memory_s3 import MemoryS3
from tests.world.sealed import inserted

SINCE = "2000-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def town() -> Town:
    return towns.new_town()


@pytest.fixture
def journal(town: Town, monkeypatch: pytest.MonkeyPatch) -> MemoryS3:
    journal = MemoryS3()
    for name, content in towns.objects(town).items():
        journal.put_object(Bucket="journal", Key=name, Body=content)
    found = SimpleNamespace(
        name="under-test", config=CONFIG, outputs={"JournalBucket": "journal"}, client=lambda service: journal
    )
    monkeypatch.setattr(stack, "find", lambda name: found)
    monkeypatch.setattr(instants, "now", lambda: town.now + timedelta(hours=1))
    return journal


def put(journal: MemoryS3, at: datetime, *told: Any) -> str:
    content = lines.content(told)
    name = seals.object_name(content, at)
    journal.put_object(Bucket="journal", Key=name, Body=gzip.compress(content))
    return name


def expected(town: Town) -> list[tuple[str, ...]]:
    return sorted(
        (
            row["posted_at"],
            row["sk"].removeprefix(f"{row['posted_at']}#").removesuffix(f":{row['step']}"),
            row["step"],
            row["debit"],
            row["credit"],
            money.render(row["amount"], CONFIG.currencies[row["currency"]]),
        )
        for row in towns.entries(town)
    )


def values(entry: dict[str, str]) -> tuple[str, ...]:
    return tuple(entry[name] for name in ("posted_at", "key", "step", "debit", "credit", "amount"))


def test_each_entry_is_exported_once_as_json_and_as_csv(
    journal: MemoryS3, settle: Command, town: Town
) -> None:
    code, as_json, _ = settle("journal", "entries", "--since", SINCE)
    _, as_csv, _ = settle("journal", "entries", "--since", SINCE, "--csv")

    assert code == 0
    assert sorted(values(json.loads(line)) for line in as_json.splitlines()) == expected(town)
    assert sorted(values(line) for line in csv.DictReader(io.StringIO(as_csv))) == expected(town)


def test_objects_older_than_since_are_not_read(journal: MemoryS3, settle: Command, town: Town) -> None:
    old = seals.object_name(b"", town.now - timedelta(days=3))
    journal.put_object(Bucket="journal", Key=old, Body=b"no gzip")
    since = timestamp(town.now - timedelta(days=1))

    code, _, _ = settle("journal", "entries", "--since", since)
    failed, _, said = settle("journal", "entries", "--since", SINCE)

    assert code == 0
    assert (failed, said.startswith(f"settle: {old}: ")) == (Exit.FAILED, True)


def test_adjacent_time_ranges_export_each_entry_once(journal: MemoryS3, settle: Command, town: Town) -> None:
    times = sorted(row["posted_at"] for row in towns.entries(town))
    first, last = times[3], times[-4]

    _, out, _ = settle("journal", "entries", "--since", first, "--until", last)
    _, rest, _ = settle("journal", "entries", "--since", last)
    none = settle("journal", "entries", "--since", "1m")

    assert len(out.splitlines()) == sum(first <= one < last for one in times)
    assert len(rest.splitlines()) == sum(last <= one for one in times)
    assert none == (0, "", "no entry was sealed in this time\n")


def test_a_deleted_entry_is_exported_as_it_was_posted(journal: MemoryS3, settle: Command, town: Town) -> None:
    put(journal, town.now, {"event": "REMOVE", "at": 1, "old": lines.image(towns.entries(town)[0])})

    code, out, _ = settle("journal", "entries", "--since", SINCE)

    assert (code, len(out.splitlines())) == (0, len(towns.entries(town)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"amount": 4_821}, "another entry of "),
        ({"amount": "4820"}, "no entry: amount: must be a whole number, at least 0"),
        ({"currency": "XXX", "sk": "2026-11-20T12:00:00.000Z#x:hold"}, "no entry: "),
    ],
)
def test_an_invalid_line_ends_the_export_and_names_its_object(
    journal: MemoryS3, settle: Command, town: Town, change: dict[str, Any], reason: str
) -> None:
    name = put(journal, town.now, inserted({**towns.entries(town)[0], **change}))

    code, _, said = settle("journal", "entries", "--since", SINCE)

    assert code == Exit.FAILED
    assert reason in said
    assert len(said.splitlines()) == 1
    assert name in said or towns.entries(town)[0]["sk"].partition("#")[2].partition(":")[0] in said


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (("--since", "yesterday"), "since: "),
        (("--since", "2h", "--until", "3h"), "until: "),
        (("--since", "2h", "--from", "no-such-folder"), "from: "),
    ],
)
def test_a_wrong_option_is_named(
    journal: MemoryS3, settle: Command, options: tuple[str, ...], field: str
) -> None:
    code, out, said = settle("journal", "entries", *options)

    assert (code, out) == (Exit.USAGE, "")
    assert said.startswith(f"settle: {field}")
