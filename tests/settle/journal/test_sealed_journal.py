import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from settle import stack
from settle.exit_codes import CommandFailed
from settle.journal import sealed
from settle.journal.fill_journal import fill
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import timestamp
from settlement.journal import lines
from settlement.journal.sealed_journal import SealedJournal
from settlement.proof.sealed_spool import SealedSpool
from tests.settle.conftest import Command
from tests.world.ledger import Ledger
from tests.world.memory_s3 import MemoryS3
from tests.world.sealed import GRACE, HOUR, inserted

NOW = datetime.now(UTC)
EARLIER = NOW - timedelta(hours=3)
"""Between the first and the newest seal."""


def entry(sk: str, at: datetime = EARLIER) -> Row:
    return {"pk": "ENTRIES#alice", "sk": sk, "posted_at": timestamp(at), "amount": 1}


def address(sk: str) -> Row:
    return {"pk": "ENTRIES#alice", "sk": sk}


@pytest.fixture
def s3() -> MemoryS3:
    return MemoryS3()


@pytest.fixture
def found(ledger: Ledger, s3: MemoryS3) -> Any:
    """A stack whose table has one sealed entry."""
    journal = SealedJournal(s3, "journal")
    ledger.put(entry("sealed"))
    journal.add([inserted(entry("sealed"), int(EARLIER.timestamp()))], EARLIER)
    journal.seal(NOW, period=HOUR, grace=GRACE)
    return SimpleNamespace(
        name="settlement-test",
        store=ledger.store,
        outputs={"JournalBucket": "journal", "TableName": ledger.table_name},
        client=lambda service: s3 if service == "s3" else ledger.client,
        config=SimpleNamespace(currencies={"EUR": 2}, shortest_retention_days=None),
        row_keys=None,
    )


def faults(found: Any) -> list[str]:
    told: list[str] = sealed.compare(found, "stack", None)["faults"]
    return told


def test_the_comparison_counts_only_sealed_kinds_of_rows(found: Any, ledger: Ledger) -> None:
    ledger.put(keys.circuit("kyc"))
    ledger.put(keys.waiting("k") | {"token": "t"})

    told = sealed.compare(found, "stack", None)

    assert (told["agrees"], told["rows"], told["young"]) == (True, 1, 0)


def test_fill_copies_rows_missing_from_the_journal_once(found: Any, ledger: Ledger, s3: MemoryS3) -> None:
    ledger.put(entry("lost"))
    ledger.put(entry("older", NOW - timedelta(days=400)))
    assert len(faults(found)) == 1

    answer = fill(found)
    again = fill(found)

    assert (answer["rows"], len(answer["objects"])) == (2, 1)
    assert (again["rows"], again["objects"]) == (0, [])
    filled = [json.loads(line) for line in gzip.decompress(s3.objects[answer["objects"][0]]).splitlines()]
    assert {line["event"] for line in filled} == {"FILL"}
    assert lines.image(entry("lost")) in [line["new"] for line in filled]
    assert faults(found) == []
    ledger.delete(address("older"))
    assert faults(found) == ["ENTRIES#alice older: is in the sealed journal, and not in the table"]


def test_fill_skips_a_row_that_is_too_young(found: Any, ledger: Ledger) -> None:
    ledger.put(entry("young", NOW))

    assert fill(found)["rows"] == 0


def test_a_fill_does_not_hide_a_row_changed_after_sealing(found: Any, ledger: Ledger) -> None:
    ledger.put(entry("sealed") | {"amount": 2})

    assert fill(found)["rows"] == 0
    assert faults(found) == ["ENTRIES#alice sealed: is not as it was sealed"]


@pytest.mark.parametrize("against", ["nowhere", "s3:/journal", ""])
def test_comparing_against_something_other_than_a_journal_is_refused(found: Any, against: str) -> None:
    with pytest.raises(CommandFailed, match=r"^against: "):
        sealed.copy(found, against or "no such directory")


def test_comparing_a_stack_without_a_journal_is_refused(found: Any) -> None:
    found.outputs.clear()

    with pytest.raises(CommandFailed, match="has no sealed journal yet"):
        sealed.compare(found, "stack", None)


@pytest.mark.parametrize("act", [fill, lambda found: sealed.compare(found, "stack", None)])
def test_a_full_disk_ends_a_comparison_with_one_line(
    found: Any, act: Any, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Small(SealedSpool):
        def __init__(self) -> None:
            super().__init__()
            self._database.execute("PRAGMA max_page_count = 1")

    monkeypatch.setattr("settlement.proof.sealed.SealedSpool", Small)
    for number in range(200):
        ledger.put(entry(f"lost-{number:03}-{'x' * 200}"))

    with pytest.raises(CommandFailed, match="not compared: the spool in TMPDIR: database or disk is full"):
        act(found)


@pytest.fixture
def command(found: Any, settle: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setattr(stack, "find", lambda name: found)
    return settle


@pytest.fixture
def books(ledger: Ledger, found: Any) -> None:
    """Delete the sealed entry, because the proof would report it."""
    ledger.delete(address("sealed"))


@pytest.mark.usefixtures("books")
def test_reconcile_against_the_journal_finds_an_otherwise_undetected_deletion(command: Command) -> None:
    code, proof, _ = command("reconcile")
    assert (code, "conserved" in proof) == (0, True)

    code, told, _ = command("reconcile", "--against", "stack")

    assert code == 1
    lines_told = told.splitlines()
    assert lines_told[0].startswith("conserved: ")
    assert lines_told[1] == "TAMPERED ENTRIES#alice sealed: is in the sealed journal, and not in the table"
    assert lines_told[2].startswith("NOT AS SEALED: 1 rows, 1 objects, ")
    assert lines_told[3].startswith("head: ")


@pytest.mark.usefixtures("books")
def test_a_remembered_head_digest_must_be_in_the_seal_chain(command: Command) -> None:
    def told(*head: str) -> Any:
        _, proof, _ = command("reconcile", "--against", "stack", *head, "--json")
        return json.loads(proof)["sealed_journal"]

    kept, other = told("--head", told()["head"]), told("--head", "x")

    assert not any("no seal has" in fault for fault in kept["faults"])
    assert "no seal has the digest x: the journal is not the one that it was" in other["faults"]


def test_a_directory_copy_of_the_bucket_can_be_compared(
    found: Any, s3: MemoryS3, tmp_path: Path, ledger: Ledger
) -> None:
    for name, content in s3.objects.items():
        file = tmp_path / "copy" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    assert sealed.compare(found, str(tmp_path / "copy"), None)["agrees"]
    ledger.delete(address("sealed"))
    assert not sealed.compare(found, str(tmp_path / "copy"), None)["agrees"]
