from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from settlement.proof import Look, reconcile
from tests.settle.book import Book, Row
from tests.settle.plants import Find, Plant, always, change, entry, evidence, lose, settlement
from tests.settle.proof.test_reconciliation import ALICE, HELD, SETTLED, at_work

DEPOSIT: Find = lambda book: book.entry("first-deposit-of-alice", "deposit")  # noqa: E731
HOLD, FEE, VERDICT = entry(HELD, "hold"), entry(SETTLED, "fee"), evidence(SETTLED, "verify")


@pytest.fixture
def book() -> Book:
    return at_work()


def malformed(book: Book, find: Find, plant: Plant) -> tuple[Row, list[str]]:
    """Plant a fault in a row; return the row and its reported faults."""
    found = find(book)
    plant(book)
    findings = reconcile(book.rows, always(Look.DISAGREES))
    assert not findings.conserved
    name = f"{found['pk']}: {found['sk']} is malformed: "
    return found, [fault.removeprefix(name) for fault in findings.faults if fault.startswith(name)]


KINDS: dict[str, tuple[Find, list[str]]] = {
    "balance": (ALICE, ["available", "currency"]),
    "settlement": (
        settlement(SETTLED),
        [*("status", "payer", "payee", "amount", "fee", "currency", "escrow", "request_hash")],
    ),
    "entry": (
        HOLD,
        [*("step", "posted_at", "side", "debit", "credit", "amount", "currency", "request_hash")],
    ),
    "deposit": (DEPOSIT, [*("step", "posted_at", "side", "debit", "credit", "amount", "currency")]),
    "evidence": (VERDICT, ["step", "posted_at", "request_hash"]),
}
NEEDED = [(find, name) for find, needed in KINDS.values() for name in needed]
NEEDED_IDS = [f"{kind}: {name}" for kind, (_, needed) in KINDS.items() for name in needed]


@pytest.mark.parametrize(
    "value", [None, Decimal("1.5"), 2**63, -(10**37), True, {"a": 1}, {"a set"}, b"bytes"]
)
@pytest.mark.parametrize(("find", "name"), NEEDED, ids=NEEDED_IDS)
def test_a_missing_or_invalid_attribute_is_named(book: Book, find: Find, name: str, value: Any) -> None:
    plant = lose(find, name) if value is None else change(find, **{name: value})

    _, (told,) = malformed(book, find, plant)

    assert told.startswith(f"{name} is ")
    assert (told == f"{name} is missing") is (value is None)


ELSEWHERE = "its key is not that of its account, time, settlement and step"
WRONG: dict[str, tuple[Find, Row, str]] = {
    "an entry debits another account": (HOLD, {"debit": "bob"}, ELSEWHERE),
    "an entry has no side": (HOLD, {"side": "left"}, "side is 'left'"),
    "an entry moves the money of another settlement": (
        HOLD,
        {"credit": f"escrow:{SETTLED}"},
        f"moves money from alice to escrow:{SETTLED}",
    ),
    "an entry moves money past the escrow": (HOLD, {"credit": "bob"}, "moves money from alice to bob"),
    "an entry moves less than nothing": (HOLD, {"amount": -1000}, "moves less than nothing"),
    "a deposit comes from another customer": (DEPOSIT, {"debit": "bob"}, "a deposit moves money from bob to"),
    "there is no such status": (settlement(SETTLED), {"status": "DONE"}, "status is 'DONE'"),
    "evidence is of another step": (VERDICT, {"step": "reverse"}, "its key is not that of its settlement"),
}


@pytest.mark.parametrize(("find", "wrong", "why"), WRONG.values(), ids=WRONG)
def test_a_row_with_content_unlike_its_key_is_malformed(book: Book, find: Find, wrong: Row, why: str) -> None:
    _, (told,) = malformed(book, find, change(find, **wrong))

    assert told.startswith(why)


MOVED: dict[str, tuple[Find, Callable[[Row], Row], str]] = {
    "an entry in another shard": (
        FEE,
        lambda found: {"pk": f"ENTRIES#fees:EUR#{(int(found['pk'].rpartition('#')[2]) + 1) % 16}"},
        ELSEWHERE,
    ),
    "a customer's entry in a shard": (HOLD, lambda found: {"pk": f"{found['pk']}#0"}, ELSEWHERE),
    "an entry beside its settlement": (
        HOLD,
        lambda found: {"pk": f"SETTLEMENT#{HELD}", "sk": f"{HELD}:hold"},
        "no row of its kind has such a key",
    ),
    "a balance beside another": (
        ALICE,
        lambda found: {"sk": "BALANCE-2"},
        "no row of its kind has such a key",
    ),
    "a balance with a settlement's key": (
        ALICE,
        lambda found: {"pk": "SETTLEMENT#alice"},
        "no row of its kind has such a key",
    ),
}


@pytest.mark.parametrize(("find", "move", "why"), MOVED.values(), ids=MOVED)
def test_a_row_stored_under_another_rows_key_is_malformed(
    book: Book, find: Find, move: Callable[[Row], Row], why: str
) -> None:
    copied = find(book) | move(find(book))
    book.rows.append(copied)

    _, (told,) = malformed(book, lambda book: copied, lambda book: None)

    assert told.startswith(why)


@pytest.mark.parametrize(
    ("find", "also"),
    [
        (HOLD, [f"SETTLEMENT#{HELD}: the row says 1000 EUR", "ACCOUNT#alice: the row says 44180 EUR"]),
        (settlement(HELD), [f"SETTLEMENT#{HELD}: has entries, but no sound row"]),
        (ALICE, ["ACCOUNT#alice: has entries, but no sound row"]),
    ],
)
def test_rows_that_depend_on_a_malformed_row_are_faulty(book: Book, find: Find, also: list[str]) -> None:
    change(find, currency=1)(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    for start in also:
        assert any(fault.startswith(start) for fault in findings.faults), findings.faults


def test_sums_beyond_64_bits_are_exact(book: Book) -> None:
    """SQLite's own sums have 64 bits: enough for each balance, too few for their total."""
    for number in range(20):
        book.open(f"carla-{number}", 2**62)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert findings.totals["EUR"]["customers"] - 20 * 2**62 == 50_000 - 1000 - 48
    assert findings.totals["EUR"]["external"] == -50_000 - 20 * 2**62
    assert findings.conserved


def test_entries_of_a_missing_account_are_a_fault(book: Book) -> None:
    book.deposit("carla", 700)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert findings.totals["EUR"]["customers"] == 50_000 - 1000 - 48
    assert sum(findings.totals["EUR"].values()) == -700
    assert findings.faults == ["ACCOUNT#carla: has entries, but no sound row in their currency"]
