import pytest

from settlement.bank.matching import Recorded
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire
from settlement.payouts import lines
from tests.unit.payouts.rows import PAYOUT
from tests.world.bank_rows import LINE
from tests.world.memory_dynamodb import MemoryDynamoDb

PLACE = (f"PAYOUT_LINE#{LINE.identity}", "LINE")
WHY = "line: a second debit of payout-2026-000101"


def recorded(*references: str) -> Recorded:
    return Recorded(LINE, 0, frozenset(references))


@pytest.fixture
def table() -> MemoryDynamoDb:
    return MemoryDynamoDb()


@pytest.fixture
def store(table: MemoryDynamoDb) -> Store:
    return Store(table, "payouts", pause=lambda tries: None)


@pytest.mark.parametrize("reference", [PAYOUT.reference, PAYOUT.reference.lower(), "A" * 32])
def test_a_line_that_may_name_a_payout_is_listed(reference: str) -> None:
    write = lines.listed(recorded("INV-7", reference))

    assert write
    row = write.parameters["Item"]
    assert (row["gsi1pk"], row["gsi1sk"], lines.identity_of(row)) == (
        *("PAYOUT_LINES", LINE.booked),
        LINE.identity,
    )


@pytest.mark.parametrize(
    "reference",
    [
        *("", "INV-7", "A" * 31, "A" * 33, f"{PAYOUT.reference[:-1]}1", f"{PAYOUT.reference}\n"),
        *(f" {PAYOUT.reference}", "\u017f" * 32, "\u0661" * 32),
    ],
)
def test_a_line_that_cannot_name_a_payout_is_not_listed(reference: str) -> None:
    assert lines.listed(recorded(reference)) is None


def test_a_line_without_a_reference_is_not_listed() -> None:
    assert lines.listed(recorded()) is None


def test_a_line_is_listed_once(table: MemoryDynamoDb, store: Store) -> None:
    write = lines.listed(recorded(PAYOUT.reference))
    assert write
    store.transact([write])
    store.transact([lines.booked(LINE.identity)])

    with pytest.raises(AlreadyApplied):
        store.transact([write])
    assert from_wire(table.items[PLACE]).keys() == {"pk", "sk", "booked"}


def test_a_refused_line_is_listed_apart_with_its_reason(table: MemoryDynamoDb, store: Store) -> None:
    write = lines.listed(recorded(PAYOUT.reference))
    assert write
    store.transact([write])
    for _ in range(2):
        store.transact([lines.refused(LINE.identity, LINE.booked, WHY)])

    row = from_wire(table.items[PLACE])
    assert (row["gsi1pk"], row["gsi1sk"], row["refused"]) == ("PAYOUT_LINE_FAULTS", LINE.booked, WHY)
    for _ in range(2):
        store.transact([lines.booked(LINE.identity)])
    assert from_wire(table.items[PLACE]).keys() == {"pk", "sk", "booked"}


def test_an_unlisted_line_gets_no_row_when_booked_or_refused(table: MemoryDynamoDb, store: Store) -> None:
    for write in (lines.booked(LINE.identity), lines.refused(LINE.identity, LINE.booked, WHY)):
        with pytest.raises(AlreadyApplied):
            store.transact([write])
    assert table.items == {}
