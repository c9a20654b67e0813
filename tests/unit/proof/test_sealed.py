import gzip
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from settlement.core.ledger.keys import Row
from settlement.core.model.status import Status
from settlement.journal import copy as journal_copy
from settlement.journal import lines, objects, seals
from settlement.journal.copy import Bucket, Directory
from settlement.proof import sealed
from tests.world.environment import NOW
from tests.world.saga import ALICE, CLAIMED, ENTRIES, FINISHED
from tests.world.sealed import AT, Sealed, inserted

ROWS: list[Row] = [ALICE, CLAIMED, *ENTRIES.values()]
ENTRY, EVIDENCE = list(ENTRIES.values())[:2]
NAME = f"{ENTRY['pk']} {ENTRY['sk']}"
LATER: Row = {"pk": "ENTRIES#bob", "sk": "later", "posted_at": "2026-11-20T15:00:00.000Z"}


@pytest.fixture
def journal() -> Sealed:
    """Return three sealed hours: rows in the first, none in the second, one more in the third."""
    made = Sealed()
    made.copy(ROWS)
    made.seal()
    made.seal()
    made.copy([LATER])
    made.seal()
    return made


EVERY = [*ROWS, LATER]


def without(row: Row) -> list[Row]:
    return [one for one in EVERY if one is not row]


def faults_of(journal: Sealed, name: str) -> list[str]:
    found = journal.compare(EVERY).faults
    return [fault.removeprefix(f"{name}: ") for fault in found if fault.startswith(f"{name}: ")]


def test_an_unchanged_table_agrees_with_its_journal(journal: Sealed) -> None:
    found = journal.compare(EVERY)

    assert (found.faults, found.restored, found.young, found.before) == ([], [], 0, 0)
    assert (found.seals, found.objects, found.rows) == (3, 2, len(EVERY))


def test_lawful_changes_and_unsealed_kinds_of_rows_are_no_faults(journal: Sealed) -> None:
    rows = [FINISHED if one is CLAIMED else one for one in EVERY]
    rows = [one | {"available": 0} if one is ALICE else one for one in rows]
    others = [{"pk": "CIRCUIT", "sk": "kyc"}, {"pk": "WAITING#k", "sk": "WAITING", "token": "t"}]

    assert journal.compare([*rows, *others]).faults == []


@pytest.mark.parametrize("row", EVERY, ids=lambda row: row["sk"])
def test_each_row_that_is_missing_is_named(journal: Sealed, row: Row) -> None:
    (fault,) = journal.compare(without(row)).faults

    assert fault == f"{row['pk']} {row['sk']}: is in the sealed journal, and not in the table"


@pytest.mark.parametrize(
    ("row", "attribute"),
    [(row, name) for row in (ENTRY, EVIDENCE) for name in row if name not in ("pk", "sk")],
)
@pytest.mark.parametrize("change", ["changed", "removed"])
def test_each_immutable_attribute_that_differs_from_its_seal_is_found(
    journal: Sealed, row: Row, attribute: str, change: str
) -> None:
    forged = {name: value for name, value in row.items() if name != attribute}
    if change == "changed":
        forged[attribute] = row[attribute] + 1 if isinstance(row[attribute], int) else "forged"

    (fault,) = journal.compare([*without(row), forged]).faults

    assert fault == f"{row['pk']} {row['sk']}: is not as it was sealed"


@pytest.mark.parametrize(
    "attribute", ["payer", "payee", "amount", "fee", "currency", "request_hash", "claimed_at"]
)
def test_a_changed_attribute_of_a_claim_is_found(journal: Sealed, attribute: str) -> None:
    forged = FINISHED | {attribute: "forged"}

    assert journal.compare([*without(CLAIMED), forged]).faults == [
        f"{CLAIMED['pk']} SETTLEMENT: is not as it was sealed"
    ]


def test_a_row_that_was_never_sealed_is_named(journal: Sealed) -> None:
    forged = ENTRY | {"sk": "forged"}

    assert journal.compare([*EVERY, forged]).faults == [
        f"{ENTRY['pk']} forged: is not in the sealed journal, which should have it"
    ]


@pytest.mark.parametrize(
    ("at", "young", "before", "faults"),
    [
        ("2026-11-20T11:44:59.999Z", 0, 1, 0),
        ("2026-11-20T11:45:00.000Z", 0, 0, 1),
        ("2026-11-20T14:44:59.999Z", 0, 0, 1),
        ("2026-11-20T14:45:00.000Z", 1, 0, 0),
        ("2026-11-20T15:25:00.000Z", 1, 0, 0),
        ("2026-11-20T15:25:00.001Z", 0, 0, 1),
    ],
)
def test_rows_too_young_or_old_for_the_journal_are_counted(
    journal: Sealed, at: str, young: int, before: int, faults: int
) -> None:
    found = journal.compare([*EVERY, ENTRY | {"sk": "another", "posted_at": at}])

    assert (found.young, found.before, len(found.faults)) == (young, before, faults)


SETTLEMENT = f"{CLAIMED['pk']} SETTLEMENT"


def change(old: Row, new: Row | None = None, at: int = AT, number: str = "2") -> dict[str, Any]:
    """Return the journal's line about a row's change or removal."""
    line = {"event": "MODIFY" if new else "REMOVE", "at": at, "number": number, "old": lines.image(old)}
    return line | ({"new": lines.image(new)} if new else {})


def with_status(status: Status | None, released_at: str | None = None) -> Row:
    slots = {
        name: value for name, value in FINISHED.items() if name not in ("status", "release_at", "fee_at")
    }
    given = {"status": status, "release_at": released_at}
    return slots | {name: value for name, value in given.items() if value}


EARLY, LATE = CLAIMED["claimed_at"], "2026-11-20T11:59:59.999Z"
"""Times of a release: before the change, and after the change but read from a slow clock."""


@pytest.mark.parametrize(
    ("left", "now", "released_at", "is_fault"),
    [
        (Status.REJECTED, Status.PROCESSING, None, True),
        (Status.REJECTED, Status.SETTLED, LATE, True),
        (Status.REJECTED, Status.COMPENSATED, LATE, True),
        (Status.REJECTED, None, None, True),
        (Status.REJECTED, Status.REJECTED, None, False),
        (Status.COMPENSATED, Status.PROCESSING, None, True),
        (Status.COMPENSATED, Status.COMPENSATED, EARLY, False),
        (Status.COMPENSATED, Status.COMPENSATED, LATE, True),
        (Status.COMPENSATING, Status.PROCESSING, EARLY, True),
        (Status.COMPENSATING, Status.SETTLED, LATE, True),
        (Status.COMPENSATING, Status.COMPENSATING, None, False),
        (Status.COMPENSATING, Status.COMPENSATED, EARLY, False),
        (Status.COMPENSATING, Status.LIMBO, EARLY, False),
        (Status.COMPENSATING, Status.LIMBO, LATE, True),
        (Status.LIMBO, Status.SETTLED, EARLY, False),
        (Status.LIMBO, Status.COMPENSATED, None, False),
        (Status.SETTLED, Status.PROCESSING, EARLY, True),
        (Status.SETTLED, Status.SETTLED, EARLY, False),
        (Status.SETTLED, Status.SETTLED, LATE, True),
        (Status.SETTLED, Status.COMPENSATED, EARLY, False),
        (Status.PROCESSING, Status.SETTLED, LATE, False),
    ],
)
@pytest.mark.parametrize("event", ["MODIFY", "REMOVE"])
def test_an_unlawful_status_change_is_named_until_undone(
    journal: Sealed, left: Status, now: Status | None, released_at: str | None, is_fault: bool, event: str
) -> None:
    """A change is undone if the row's status is lawful again, and no release came since.

    A change from COMPENSATING to SETTLED is not copied, so the proof examines changes that leave SETTLED.
    """
    before = with_status(left, EARLY if released_at == EARLY else None)
    journal.add(change(before, with_status(Status.PROCESSING) if event == "MODIFY" else None))
    journal.seal()

    found = journal.compare([*without(CLAIMED), with_status(now, released_at)])

    told = (
        f"{SETTLEMENT}: left {left}, as no function does, and is {now} ({event} at 2026-11-20T12:00:00.000Z)"
    )
    assert found.faults == ([told] if is_fault else [])
    assert found.restored == ([] if is_fault else [f"{SETTLEMENT}: {event} at 2026-11-20T12:00:00.000Z"])


def test_an_old_removal_is_harmless_once_the_row_is_back(journal: Sealed) -> None:
    journal.add(change(with_status(None)))
    journal.seal()

    assert journal.compare([*without(CLAIMED), with_status(Status.SETTLED, LATE)]).faults == []


def test_a_status_removed_and_set_again_is_named(journal: Sealed) -> None:
    """The journal lacks the second change, because the row had no status to leave."""
    journal.add(change(with_status(Status.REJECTED), with_status(None)))
    journal.seal()

    (fault,) = journal.compare([*without(CLAIMED), with_status(Status.SETTLED)]).faults

    assert fault.startswith(f"{SETTLEMENT}: left REJECTED, as no function does, and is SETTLED")


def test_an_undone_change_is_reported_as_restored(journal: Sealed) -> None:
    forged = ENTRY | {"amount": 1}
    journal.add(change(ENTRY, forged), change(forged, ENTRY, AT + 60, "3"))
    journal.seal()

    undone, standing = journal.compare(EVERY), journal.compare([*without(ENTRY), forged])

    assert undone.faults == []
    (told,) = undone.restored
    assert told == f"{NAME}: MODIFY at 2026-11-20T12:00:00.000Z, MODIFY at 2026-11-20T12:01:00.000Z"
    (fault,) = standing.faults
    assert fault.startswith(f"{NAME}: is not as it was sealed (MODIFY at 2026-11-20T12:00:00.000Z")


def test_a_changed_row_older_than_the_journal_is_found(journal: Sealed) -> None:
    old = ENTRY | {"sk": "old"}
    new = old | {"amount": 1}
    journal.add(change(old, new))
    journal.seal()

    assert len(journal.compare([*EVERY, new]).faults) == 1
    assert journal.compare([*EVERY, old]).faults == []


def test_a_row_deleted_and_put_again_differently_is_found(journal: Sealed) -> None:
    forged = ENTRY | {"amount": 1}
    journal.add(change(ENTRY, at=AT + 1))
    journal.add(inserted(forged, AT + 2))
    journal.seal()

    for row in (forged, ENTRY):
        (fault,) = journal.compare([*without(ENTRY), row]).faults
        assert fault.startswith(f"{NAME}: was put more than once, with different content (REMOVE at ")


def test_a_batch_that_was_copied_twice_is_not_a_fault(journal: Sealed) -> None:
    journal.copy(ROWS)
    journal.seal()

    assert journal.compare(EVERY).faults == []


Forge = Callable[[Sealed, str], None]
UNREADABLE = "cannot be read, so that its rows are not proven"
CHANGED = "its content is not what its name says: it was changed"


@pytest.mark.parametrize(
    ("forge", "says"),
    [
        (lambda journal, name: journal.lose(name), "is listed in seals/0.json, and missing"),
        (lambda journal, name: journal.overwrite(name, b"no gzip"), UNREADABLE),
        (lambda journal, name: journal.overwrite(name, b""), UNREADABLE),
        (lambda journal, name: journal.rewrite(name, lines.content([inserted(ENTRY)])), CHANGED),
        (lambda journal, name: journal.overwrite(name, journal.s3.objects[name][:-3]), UNREADABLE),
        (lambda journal, name: journal.s3.delete_object(Bucket="", Key=name), "was deleted, and its first"),
        (
            lambda journal, name: journal.s3.put_object(Bucket="", Key=name, Body=b""),
            "was put 2 times; its first",
        ),
    ],
    ids=["missing", "no gzip", "empty", "changed", "cut off", "deleted", "overwritten"],
)
def test_each_fault_of_an_object_is_named(journal: Sealed, forge: Forge, says: str) -> None:
    name = journal.names("journal/")[0]

    forge(journal, name)

    assert any(says in fault for fault in faults_of(journal, name))


@pytest.mark.parametrize(
    "content", [b"{}\n", b"null\n", b'{"event": "INSERT", "at": "x", "new": {}}\n', b"\xff"]
)
def test_an_object_with_foreign_content_does_not_stop_the_comparison(journal: Sealed, content: bytes) -> None:
    name = seals.object_name(content, journal.now)
    journal.rewrite(name, content)
    journal.seal()

    (fault,) = journal.compare(EVERY).faults

    assert fault.startswith(f"{name}: cannot be read")


@pytest.mark.parametrize(
    ("module", "bound", "limit", "says"),
    [
        (objects, "OBJECT_BYTES_MAX", 100, "is cut off, or too large"),
        (journal_copy, "OBJECT_BYTES_MAX", 10, "is too large"),
        (objects, "LINE_BYTES_MAX", 100, "has a line that is too long"),
    ],
    ids=["unpacked object", "packed object", "line"],
)
def test_an_oversized_forged_object_is_refused_without_using_memory(
    journal: Sealed, monkeypatch: pytest.MonkeyPatch, module: ModuleType, bound: str, limit: int, says: str
) -> None:
    monkeypatch.setattr(module, bound, limit)

    assert says in journal.compare(EVERY).faults[0]


def test_the_largest_rows_line_is_within_the_limit() -> None:
    """DynamoDB rows have up to 400 KB, and JSON takes six bytes for a control character."""
    row = ENTRY | {"debit": "\x01" * 400 * 2**10}
    content = lines.content([{**inserted(row), "old": inserted(row)["new"]}])
    name = seals.object_name(content, NOW)

    (line,) = objects.lines_of(name, gzip.compress(content))

    assert line["old"]["row"]["debit"] == row["debit"]


def test_the_lines_of_an_object_are_read_one_by_one() -> None:
    content = b"{}\n" * 3 + b"no JSON"
    found = objects.lines_of(seals.object_name(content, NOW), gzip.compress(content))

    assert [next(found), next(found), next(found)] == [{}, {}, {}]
    with pytest.raises(ValueError, match="Expecting value"):
        next(found)


def test_an_object_that_came_after_its_seal_is_named(journal: Sealed) -> None:
    content = lines.content([inserted(ENTRY | {"sk": "forged"})])
    name = seals.object_name(content, NOW)
    journal.rewrite(name, content)

    faults = journal.compare(EVERY).faults

    assert f"{name}: is in no seal: it came after its period was sealed" in faults
    assert f"{ENTRY['pk']} forged: is in the sealed journal, and not in the table" in faults


def test_a_recent_object_awaiting_its_seal_is_not_a_fault(journal: Sealed) -> None:
    content = lines.content([inserted(LATER)])
    journal.rewrite(seals.object_name(content, journal.now - timedelta(minutes=30)), content)
    journal.copy([LATER])

    found = journal.compare(EVERY)

    assert (found.faults, found.young) == ([], 1)


def resealed(journal: Sealed, number: int, **changes: object) -> None:
    name = journal.names("seals/")[number]
    content = json.loads(journal.s3.objects[name]) | changes
    journal.overwrite(name, json.dumps(content, sort_keys=True, indent=1).encode() + b"\n")


def test_an_object_that_two_seals_list_is_named(journal: Sealed) -> None:
    name = journal.names("journal/")[0]
    resealed(journal, 2, late=[name])

    assert faults_of(journal, name) == ["is listed twice, in seals/0.json and seals/2026-11-20T1400.json"]


FIRST, SECOND, THIRD = "seals/0.json", "seals/2026-11-20T1300.json", "seals/2026-11-20T1400.json"

LATER_START = "2026-11-20T13:30:00.000Z"


@pytest.mark.parametrize(
    ("forge", "name", "says"),
    [
        (lambda journal: resealed(journal, 0, objects=[]), SECOND, "does not follow from"),
        (lambda journal: journal.lose(SECOND), THIRD, "are missing"),
        (lambda journal: journal.lose(FIRST), SECOND, "follows a seal that is missing"),
        (lambda journal: journal.overwrite(SECOND, b"x"), SECOND, "read"),
        (
            lambda journal: resealed(journal, 2, sealed_at="2026-11-20T14:59:00.000Z"),
            THIRD,
            "before its end: a clock was wrong",
        ),
        (
            lambda journal: resealed(journal, 1, sealed_at="2026-11-20T17:00:00.000Z"),
            THIRD,
            f"before {SECOND}: a clock went back",
        ),
        (lambda journal: resealed(journal, 2, start=LATER_START), THIRD, "within the seal before it"),
        (
            lambda journal: resealed(journal, 2, start=LATER_START),
            THIRD,
            "is the seal seals/2026-11-20T1330.json",
        ),
        (lambda journal: journal.s3.delete_object(Bucket="", Key=SECOND), SECOND, "was deleted"),
    ],
)
def test_each_fault_of_a_seal_is_named(
    journal: Sealed, forge: Callable[[Sealed], None], name: str, says: str
) -> None:
    forge(journal)

    assert any(says in fault for fault in faults_of(journal, name))


def test_missing_newest_seals_are_noticed_after_a_while(journal: Sealed) -> None:
    """A digest that a person has kept reveals their absence at once."""
    kept = journal.compare(EVERY).head
    journal.lose("seals/2026-11-20T1400.json")

    soon = journal.compare(EVERY, kept)
    late = journal.compare(EVERY, now=journal.now + timedelta(hours=2))

    assert f"no seal has the digest {kept}: the journal is not the one that it was" in soon.faults
    assert any("is the newest seal and ends at 2026-11-20T14:00:00.000Z" in fault for fault in late.faults)


def test_a_remembered_digest_of_any_age_is_found(journal: Sealed) -> None:
    kept = [seals.digest(journal.s3.objects[name]) for name in journal.names("seals/")]

    assert [journal.compare(EVERY, one).faults for one in kept] == [[], [], []]
    assert journal.compare(EVERY).head == kept[-1]


def test_without_a_seal_nothing_is_proven() -> None:
    journal = Sealed()
    journal.copy(ROWS)

    assert journal.compare(ROWS).faults == ["the sealed journal has no seal: nothing is proven"]


def test_a_remembered_digest_reveals_a_rewritten_chain(journal: Sealed) -> None:
    kept = journal.compare(EVERY).head
    forger = Sealed()
    forger.copy(without(ENTRY))
    for _ in range(3):
        forger.seal()

    assert forger.compare(without(ENTRY)).faults == []
    assert len(forger.compare(without(ENTRY), kept).faults) == 1


def test_comparing_with_a_directory_copy_gives_the_same_result(journal: Sealed, tmp_path: Path) -> None:
    for name, content in journal.s3.objects.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    for rows in (EVERY, without(ENTRY)):
        assert sealed.compare(Directory(tmp_path), rows, journal.now) == journal.compare(rows)


def test_comparing_with_a_copy_under_a_prefix_works(journal: Sealed) -> None:
    journal.s3.versions = {f"backup/{name}": content for name, content in journal.s3.versions.items()}

    found = sealed.compare(Bucket(journal.s3, "copies", "backup/"), EVERY, journal.now)

    assert (found.faults, found.rows) == ([], len(EVERY))


def test_equal_lines_give_byte_identical_objects(journal: Sealed) -> None:
    first = journal.copy(ROWS)
    content = journal.s3.objects[first]

    assert gzip.compress(gzip.decompress(content), mtime=0) == content


def without_words(told: dict[str, Any]) -> dict[str, Any]:
    """Return a line in an earlier release's format, without the digest of references."""
    del told["new"][lines.WORDED]
    return told


@pytest.fixture
def empty() -> Sealed:
    return Sealed()


OTHER_WORDS = ({"reference": "invoice 8"}, {"metadata": {"shop": "till"}})


@pytest.mark.parametrize("words", OTHER_WORDS)
def test_a_changed_reference_or_metadata_is_found(empty: Sealed, words: Row) -> None:
    empty.copy([CLAIMED])
    empty.seal()

    assert empty.compare([CLAIMED]).faults == []
    assert empty.compare([CLAIMED | words]).faults == [f"{SETTLEMENT}: is not as it was sealed"]


@pytest.mark.parametrize("again", [False, True])
def test_a_line_of_an_earlier_release_proves_everything_but_references(empty: Sealed, *, again: bool) -> None:
    """DynamoDB may send a row's record twice: once to the previous release and once to this one."""
    empty.add(without_words(inserted(CLAIMED)), *([inserted(CLAIMED)] if again else []))
    empty.seal()

    assert empty.compare([CLAIMED]).faults == []
    assert bool(empty.compare([CLAIMED | OTHER_WORDS[0]]).faults) is again
    assert empty.compare([CLAIMED | {"payee": "mallory"}]).faults


def test_references_are_compared_with_the_first_of_several_changes(empty: Sealed) -> None:
    """A row older than the journal has no line of its put, so its first change has the first content."""
    empty.add(change(with_status(None)))
    empty.add(change(with_status(None) | OTHER_WORDS[0], at=AT + 60, number="3"))
    empty.seal()

    again = empty.compare([with_status(None)])
    assert (again.faults, len(again.restored)) == ([], 1)
    assert empty.compare([with_status(None) | OTHER_WORDS[0]]).faults
