"""A statement's line that names a payout gets one list row, in the line's own transaction."""

from itertools import chain, repeat

import pytest

from handlers import _dependencies
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import StoreUnavailable
from settlement.payouts.payout import Status
from tests.handlers.bank.test_read_statements import bank, day, matched, of_bank, paid, put, read, waiting
from tests.handlers.conftest import Calls
from tests.handlers.payouts.conftest import REFERENCE, Desk
from tests.world.memory_s3 import MemoryS3

__all__ = ["bank"]

OURS = day(paid(REFERENCE, side=Side.OUT), paid())
"""A statement with a payout's debit and the fixture's deposit."""


@pytest.fixture
def _wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES_FOR", "payouts")


def listed(calls: Calls) -> list[Row]:
    return [row for row in calls.ledger.rows() if row["pk"].startswith("PAYOUT_LINE#")]


def lines(calls: Calls) -> set[str]:
    return {pk.partition("#")[2] for pk, sk in of_bank(calls) if sk == "LINE"}


def named(row: Row) -> bool:
    return row["sk"] == "LINE" and REFERENCE in row["references"]


@pytest.mark.usefixtures("_wanted")
def test_a_line_with_a_payouts_reference_gets_its_own_row(calls: Calls, bank: MemoryS3) -> None:
    put(bank, OURS)

    assert read() == {"files": 1, "refused": 0, "lines": 2, "matched": 1, "faults": 0, "missing": 0}

    (row,) = listed(calls)
    identity = row["pk"].partition("#")[2]
    assert identity in lines(calls) - set(matched(calls).values())
    assert row == {
        **keys.payout_line(identity),
        "gsi1pk": keys.PAYOUT_LINES,
        "gsi1sk": "2026-11-20",
        "booked": "2026-11-20",
    }


@pytest.mark.usefixtures("_wanted")
@pytest.mark.parametrize(
    ("reference", "count"),
    [
        (REFERENCE.lower(), 1),
        (f"{REFERENCE[:-1]}1", 0),
        (REFERENCE[:-1], 0),
        (f"{REFERENCE}A", 0),
        ("payout-2026-000101", 0),
    ],
)
def test_only_a_line_with_a_valid_payout_reference_is_listed(
    calls: Calls, bank: MemoryS3, reference: str, count: int
) -> None:
    put(bank, day(paid(reference, side=Side.OUT)))

    read()

    assert len(listed(calls)) == count


@pytest.mark.parametrize("rooms", ["", "kyc signing"])
def test_no_line_is_listed_if_no_room_wants_lines(
    calls: Calls, bank: MemoryS3, monkeypatch: pytest.MonkeyPatch, rooms: str
) -> None:
    monkeypatch.setenv("LINES_FOR", rooms)
    put(bank, OURS)

    assert read()["lines"] == 2

    assert listed(calls) == []


@pytest.mark.usefixtures("_wanted")
def test_a_repeated_statement_does_not_list_its_lines_again(calls: Calls, bank: MemoryS3) -> None:
    put(bank, OURS)
    read()
    (row,) = listed(calls)
    calls.ledger.put({name: row[name] for name in row if not name.startswith("gsi1")})  # booked by now
    before = calls.ledger.rows()
    put(bank, OURS, "again.xml")

    assert read()["lines"] == 0

    assert calls.ledger.rows() == before


@pytest.mark.usefixtures("_wanted")
@pytest.mark.parametrize("dies_at", range(6))
def test_a_run_that_dies_has_listed_every_recorded_line(calls: Calls, bank: MemoryS3, dies_at: int) -> None:
    put(bank, day(paid(REFERENCE, side=Side.OUT), paid(), paid(REFERENCE, bank_reference="B-2")))
    with calls.dies_at_write(dies_at), pytest.raises(StoreUnavailable):
        read()
    names = {pk.partition("#")[2] for (pk, sk), row in of_bank(calls).items() if named(row)}
    assert {row["pk"].partition("#")[2] for row in listed(calls)} == names

    read()

    assert len(listed(calls)) == 2
    assert len(lines(calls)) == 3
    assert not waiting(bank)


@pytest.mark.usefixtures("_wanted")
@pytest.mark.parametrize("calls_in_time", range(1, 5))
def test_a_run_cut_short_is_completed_by_the_next(calls: Calls, bank: MemoryS3, calls_in_time: int) -> None:
    put(bank, OURS)

    read(chain(repeat(50_000, calls_in_time), repeat(0)))
    read()

    assert len(listed(calls)) == 1
    assert not waiting(bank)


@pytest.mark.usefixtures("_wanted")
def test_two_concurrent_runs_list_a_line_once(calls: Calls, bank: MemoryS3) -> None:
    put(bank, OURS)
    calls.meanwhile(_dependencies.store, "transact", read)

    read()

    assert len(listed(calls)) == 1
    assert len(lines(calls)) == 2


@pytest.mark.usefixtures("_wanted")
def test_a_statement_confirms_its_payout_in_the_next_run(bank: MemoryS3, desk: Desk) -> None:
    desk.reserve()
    desk.look()
    put(bank, OURS)
    read()

    assert desk.run()["lines"] == 1

    state = desk.state()
    assert (state.status, state.debit_line) == (
        Status.CONFIRMED,
        listed(desk.calls)[0]["pk"].partition("#")[2],
    )
    assert "gsi1pk" not in listed(desk.calls)[0]
