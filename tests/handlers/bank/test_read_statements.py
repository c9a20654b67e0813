"""A bank's statement is recorded once, and each of its lines matches at most one order."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, repeat
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError

from handlers import _dependencies
from handlers.bank import read_statements
from settlement.bank import inbox, record
from settlement.bank.record import Match
from settlement.bank.statement import Side
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.errors import StoreUnavailable
from tests.handlers.accounts.test_take_account_order import DEPOSIT, OPEN, WITHDRAW
from tests.handlers.conftest import Calls
from tests.world.bank_files import camt, line
from tests.world.books import assert_conserved
from tests.world.constants import CLAIMED_AT
from tests.world.functions import Context
from tests.world.memory_s3 import MemoryS3

DAY = "2026-11-20"
KEY = DEPOSIT["key"]


def paid(reference: str = "bank-0001", amount: str = "48.20", **more: Any) -> dict[str, Any]:
    told = {"end_to_end": reference, "bank_reference": f"B-{reference}"} | more
    return line(amount, told.pop("side", Side.IN), **told)


def day(*lines: dict[str, Any], **more: Any) -> bytes:
    return camt(lines, **{"day": DAY, "opening": "0.00"} | more)


RIGHT = day(paid())


@pytest.fixture
def bank(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> MemoryS3:
    """A bucket for statements and journal; an account has a deposit."""
    client = MemoryS3(page=2)
    monkeypatch.setattr(inbox, "_client", client)
    for name in ("STATEMENTS_BUCKET", "JOURNAL_BUCKET"):
        monkeypatch.setenv(name, "bucket")
    calls.administer(OPEN)
    calls.administer(DEPOSIT)
    return client


def put(bank: MemoryS3, content: bytes, name: str = "day.xml") -> None:
    bank.put_object(Bucket="bucket", Key=f"incoming/{name}", Body=content)


def read(left_ms: Iterator[int] | None = None, **event: Any) -> dict[str, int]:
    told: dict[str, int] = read_statements.handler(event, Context(left_ms))
    return told


def waiting(bank: MemoryS3) -> list[str]:
    return [one for one in bank.objects if one.startswith("incoming/")]


def of_bank(calls: Calls) -> dict[tuple[str, str], Row]:
    return {(row["pk"], row["sk"]): row for row in calls.ledger.rows() if row["pk"].startswith("BANK")}


def matched(calls: Calls) -> dict[str, str]:
    """Return each order's line; check that both rows of a match agree."""
    found = of_bank(calls)
    lines = {row["line"]: row["order"] for (_, sk), row in found.items() if sk == "MATCH"}
    orders = {row["order"]: row["line"] for (_, sk), row in found.items() if sk == "BANKED"}
    assert lines == {of: order for order, of in orders.items()}
    return orders


def test_a_statement_is_recorded_with_each_lines_matching_order(calls: Calls, bank: MemoryS3) -> None:
    put(bank, RIGHT)

    told = read()

    assert told == {"files": 1, "refused": 0, "lines": 1, "matched": 1, "faults": 0, "missing": 0}
    digest = hashlib.sha256(RIGHT).hexdigest()
    assert bank.objects == {f"statements/{digest}": RIGHT}
    rows = of_bank(calls)
    assert {sk for _, sk in rows} == {"FILE", "STATEMENT#000000", "LINE", "MATCH", "BANKED"}
    assert rows[f"BANKED#{KEY}", "BANKED"]["account"] == "alice"
    assert {row["file"] for (_, sk), row in rows.items() if sk == "LINE"} == {digest}
    assert matched(calls).keys() == {KEY}
    assert_conserved(calls.ledger.rows())


def test_a_repeated_statement_adds_nothing(calls: Calls, bank: MemoryS3) -> None:
    put(bank, RIGHT)
    read()
    before = of_bank(calls)
    calls.later(seconds=3_600)
    put(bank, RIGHT, "again.xml")

    assert read()["lines"] == 0

    assert of_bank(calls) == before
    assert not waiting(bank)


def test_an_overlapping_statement_adds_only_its_new_lines(calls: Calls, bank: MemoryS3) -> None:
    put(bank, RIGHT)
    read()
    put(bank, day(paid(), paid("another", "1.00"), name="S-2", number=8))

    assert read()["lines"] == 1


@pytest.mark.parametrize("dies_at", range(5))
def test_a_run_that_dies_is_completed_by_the_next(calls: Calls, bank: MemoryS3, dies_at: int) -> None:
    put(bank, day(paid(), paid("another", "1.00")))
    with calls.dies_at_write(dies_at), pytest.raises(StoreUnavailable):
        read()
    assert waiting(bank)

    read()

    assert not waiting(bank)
    assert {sk for _, sk in of_bank(calls)} == {"FILE", "STATEMENT#000000", "LINE", "MATCH", "BANKED"}
    assert len(of_bank(calls)) == 6
    assert matched(calls).keys() == {KEY}


@pytest.mark.parametrize("calls_in_time", range(1, 4))
def test_a_run_without_time_leaves_its_files_to_the_next(
    calls: Calls, bank: MemoryS3, calls_in_time: int
) -> None:
    put(bank, day(paid(), paid("another", "1.00")))

    told = read(chain(repeat(50_000, calls_in_time), repeat(0)))

    assert told["files"] == 0
    assert waiting(bank)
    assert read()["files"] == 1
    assert matched(calls).keys() == {KEY}


def test_two_concurrent_runs_record_each_row_once(calls: Calls, bank: MemoryS3) -> None:
    put(bank, RIGHT)
    calls.meanwhile(_dependencies.store, "transact", read)

    assert read()["matched"] == 0

    assert len(of_bank(calls)) == 5
    assert matched(calls).keys() == {KEY}


@pytest.mark.parametrize("changed", ["line", "order"])
def test_a_second_match_of_line_or_order_is_refused(calls: Calls, bank: MemoryS3, changed: str) -> None:
    first = Match("f" * 64, KEY, "alice", "EUR", 48_20, Side.IN, CLAIMED_AT)
    store = _dependencies.store
    store.transact(record.match(first))

    with pytest.raises(AlreadyApplied):
        store.transact(record.match(Match(**{**first._asdict(), changed: "another"})))

    assert matched(calls) == {KEY: "f" * 64}


def test_a_bank_line_is_matched_after_its_order_arrives(calls: Calls, bank: MemoryS3) -> None:
    put(bank, day(paid("later", "7.00", side=Side.OUT)))
    assert read()["matched"] == 0
    calls.administer(WITHDRAW | {"amount": "7.00", "reference": "LATER"})
    assert read()["matched"] == 0

    assert read(match=True)["matched"] == 1

    assert matched(calls).keys() == {WITHDRAW["key"]}


def test_only_one_of_two_equal_lines_matches_the_order(calls: Calls, bank: MemoryS3) -> None:
    put(bank, day(paid(), paid(bank_reference="B-2")))

    assert read() == {"files": 1, "refused": 0, "lines": 2, "matched": 1, "faults": 0, "missing": 0}
    assert read(match=True)["matched"] == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"amount": "48.21"},
        {"reference": "bank-0002"},
        {"side": Side.OUT},
        {"valued": "2026-11-24"},
    ],
    ids=str,
)
def test_a_line_that_differs_in_one_field_matches_no_order(
    calls: Calls, bank: MemoryS3, changed: dict[str, Any]
) -> None:
    put(bank, day(paid(**changed)))

    read()

    assert matched(calls) == {}


@pytest.mark.parametrize(
    "content",
    [
        RIGHT[:-20],
        b"%PDF-1.7",
        b"",
        camt([paid()], kind="camt.054", day=DAY),
        RIGHT.replace(b"EUR", b"XTS"),
    ],
    ids=["truncated", "pdf", "empty", "notification", "currency"],
)
def test_an_invalid_statement_file_is_counted_and_left_in_place(
    calls: Calls, bank: MemoryS3, content: bytes
) -> None:
    put(bank, content, "wrong.xml")
    put(bank, RIGHT)
    calls.counted()

    assert read()["refused"] == 1
    assert read()["refused"] == 1

    assert calls.counted()["StatementFaults"] == 2
    assert waiting(bank) == ["incoming/wrong.xml"]
    assert matched(calls).keys() == {KEY}
    assert len(bank.objects) == 2


def test_a_file_that_is_too_large_is_refused_unread(
    calls: Calls, bank: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "_BYTES_MAX", 10)
    put(bank, RIGHT)

    assert read()["refused"] == 1
    assert of_bank(calls) == {}


@pytest.mark.parametrize("codes", [("ITBD", "CLAV"), ("XPCD", "CLBD")])
def test_a_statement_without_both_balances_is_refused(
    calls: Calls, bank: MemoryS3, codes: tuple[str, str]
) -> None:
    put(bank, day(paid(), codes=codes))

    assert read()["refused"] == 1
    assert of_bank(calls) == {}


def test_both_files_of_one_name_are_read(calls: Calls, bank: MemoryS3) -> None:
    put(bank, RIGHT)
    put(bank, day(paid("another", "1.00"), name="S-2", number=8, opening="48.20"))

    assert read()["files"] == 2
    assert not waiting(bank)


def test_a_statement_that_contradicts_another_is_a_fault(calls: Calls, bank: MemoryS3) -> None:
    put(bank, RIGHT)
    read()
    put(bank, day(paid(amount="48.30"), name="S-2", number=8))

    assert read()["faults"] > 0


def test_a_hole_between_statements_is_a_fault_until_filled(calls: Calls, bank: MemoryS3) -> None:
    put(bank, RIGHT)
    put(bank, day(name="S-3", number=9, opening="50.00", day="2026-11-22"), "later.xml")

    assert read()["faults"] == 1
    assert read()["faults"] == 1

    filling = paid("another", "1.80", booked="2026-11-21", valued="2026-11-21")
    put(bank, day(filling, name="S-2", number=8, opening="48.20", day="2026-11-21"))
    assert read()["faults"] == 0


@pytest.mark.parametrize(
    ("now", "missing"),
    [
        ("2026-11-23T11:59", 0),  # a Monday: Friday's is due at noon
        ("2026-11-24T11:59", 0),
        ("2026-11-24T12:00", 1),
        ("2026-11-29T12:00", 1),
    ],
)
def test_an_account_without_yesterdays_statement_is_reported_missing(
    calls: Calls, bank: MemoryS3, monkeypatch: pytest.MonkeyPatch, now: str, missing: int
) -> None:
    put(bank, RIGHT)
    read()
    monkeypatch.setattr(_dependencies, "now", lambda: datetime.fromisoformat(now).replace(tzinfo=UTC))

    assert read()["missing"] == missing


def test_an_unreadable_row_is_counted_and_the_rest_read(calls: Calls, bank: MemoryS3) -> None:
    put(bank, RIGHT)
    read()
    spoilt = next(row for (_, sk), row in of_bank(calls).items() if sk == "LINE")
    calls.ledger.put(spoilt | {"amount": "none"})
    put(bank, day(paid("another", "1.00"), name="S-2", number=8, opening="48.20"))

    told = read()

    assert (told["files"], told["lines"]) == (1, 1)
    assert told["faults"] > 0


def test_no_log_line_shows_the_files_name_or_content(
    calls: Calls, bank: MemoryS3, caplog: pytest.LogCaptureFixture
) -> None:
    put(bank, RIGHT.replace(b"EUR", b"canary-currency"), "canary-name.xml")

    read()

    assert caplog.messages == ["statement refused"]
    assert "canary" not in str([vars(one) for one in caplog.records])


def test_no_file_is_lost_if_s3_gives_no_answer(
    calls: Calls, bank: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(bank, RIGHT)
    with monkeypatch.context() as silent:
        silent.setattr(bank, "delete_object", _silent)
        with pytest.raises(ConnectTimeoutError):
            read()

    assert read()["files"] == 1
    assert len(of_bank(calls)) == 5


def _silent(**_: Any) -> None:
    raise ConnectTimeoutError(endpoint_url="s3")


def test_a_file_that_a_concurrent_run_took_is_skipped(
    calls: Calls, bank: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(bank, RIGHT)
    seen = inbox.waiting()
    read()
    put(bank, RIGHT, "again.xml")
    monkeypatch.setattr(inbox, "waiting", lambda real=inbox.waiting: [*seen, *real()])

    assert read() == {"files": 1, "refused": 0, "lines": 0, "matched": 0, "faults": 0, "missing": 0}
