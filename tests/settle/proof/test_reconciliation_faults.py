from typing import Any

import pytest

from settlement.proof import Look, reconcile
from tests.settle.book import Book
from tests.settle.plants import (
    Find,
    Plant,
    add,
    all_of,
    always,
    change,
    drop,
    entry,
    evidence,
    lose,
    nothing_to_look_at,
    row,
    settlement,
)
from tests.settle.proof.test_reconciliation import (
    ALICE,
    BOB,
    CLAIMED,
    HELD,
    REJECTED,
    RELEASED,
    SETTLED,
    at_work,
    names,
)
from tests.world.picture import after


@pytest.fixture
def book() -> Book:
    return at_work()


def says(key: str, text: str) -> str:
    return f"SETTLEMENT#{key}: {text}"


def again(find: Find, **attributes: Any) -> Plant:
    return lambda book: book.rows.append(find(book) | attributes)


def later(find: Find, at: str = "2026-11-20T23:00:00.000Z") -> Plant:
    """Add the same entry at another time, under an equally valid key."""

    def plant(book: Book) -> None:
        found = find(book)
        book.rows.append(found | {"sk": found["sk"].replace(found["posted_at"], at), "posted_at": at})

    return plant


DEPOSIT: Find = lambda book: book.entry("first-deposit-of-alice", "deposit")  # noqa: E731

FAULTS: dict[str, tuple[Plant, str]] = {
    "a balance is one too high": (add(ALICE, "available", 1), "ACCOUNT#alice: the row says 44181 EUR"),
    "a balance is one too low": (add(ALICE, "available", -1), "ACCOUNT#alice: the row says 44179 EUR"),
    "an escrow is one too high": (
        add(settlement(HELD), "escrow", 1),
        says(HELD, "the row says 1001 EUR, its entries 1000 (minor units)"),
    ),
    "an escrow is one too low": (add(settlement(HELD), "escrow", -1), says(HELD, "the row says 999 EUR")),
    "a deposit is missing": (drop(DEPOSIT), "ACCOUNT#alice: the row says 44180 EUR, its entries -5820"),
    "a deposit is there twice": (later(DEPOSIT), "ACCOUNT#alice: the row says"),
    **{
        f"the entry of {step} is missing": (
            drop(entry(SETTLED, step)),
            says(SETTLED, f"the row says 0 EUR, its entries {left} (minor units); has no entry {step} of"),
        )
        for step, left in (("hold", -4820), ("release", 4772), ("fee", 48))
    },
    **{
        f"the entry of {step} is there twice": (
            later(entry(SETTLED, step)),
            says(SETTLED, "the row says 0 EUR"),
        )
        for step in ("hold", "release", "fee")
    },
    "the evidence of the verdict is missing": (
        drop(evidence(SETTLED, "verify")),
        says(SETTLED, "its verdict is APPROVED, its evidence None"),
    ),
    "SETTLED holds escrow": (
        change(settlement(SETTLED), escrow=7),
        says(SETTLED, "is SETTLED, but holds 7 EUR"),
    ),
    "REJECTED holds escrow": (
        change(settlement(REJECTED), escrow=7),
        says(REJECTED, "is REJECTED, but holds 7 EUR"),
    ),
    "COMPENSATED holds escrow": (
        change(settlement(HELD), status="COMPENSATED"),
        says(HELD, "is COMPENSATED, but holds 1000 EUR"),
    ),
    "REJECTED after its hold": (
        change(settlement(HELD), status="REJECTED"),
        says(HELD, "is REJECTED, but ['hold'] committed"),
    ),
    "SETTLED before its fee": (
        change(settlement(RELEASED), status="SETTLED"),
        says(RELEASED, "is SETTLED, but only ['hold', 'release', 'verify'] committed"),
    ),
    "SETTLED from nothing": (
        change(settlement(CLAIMED), status="SETTLED"),
        says(CLAIMED, "is SETTLED, but only [] committed"),
    ),
    "a slot is empty, though its entry is there": (
        lose(settlement(SETTLED), "fee_at"),
        says(SETTLED, "nothing explains its entry fee of 48 EUR (minor units) to fees:EUR at"),
    ),
    "a slot of a step that has no entry": (
        change(settlement(HELD), release_at="2026-11-20T11:00:00.000Z"),
        says(HELD, "has no entry release of 990 EUR (minor units) to bob at 2026-11-20T11:00:00.000Z"),
    ),
    "a slot of another time than its entry": (
        change(settlement(HELD), hold_at="2026-11-20T11:00:00.000Z"),
        says(HELD, "has no entry hold of 1000 EUR (minor units) from alice at 2026-11-20T11:00:00.000Z"),
    ),
    "another amount was held than the row's": (
        add(settlement(HELD), "amount", 1),
        says(HELD, "has no entry hold of 1001 EUR"),
    ),
    "another fee was charged than the row's": (
        add(settlement(SETTLED), "fee", 1),
        says(SETTLED, "has no entry release of 4771 EUR"),
    ),
    "another payer was debited than the row's": (
        change(settlement(HELD), payer="zoe"),
        says(HELD, "has no entry hold of 1000 EUR (minor units) from zoe"),
    ),
    "another payee was credited than the row's": (
        change(settlement(RELEASED), payee="zoe"),
        says(RELEASED, "has no entry release of 3446 JPY (minor units) to zoe"),
    ),
    "an entry of another request": (
        change(entry(HELD, "hold"), request_hash="of another request"),
        says(HELD, "has no entry hold of 1000 EUR"),
    ),
    "evidence of another request": (
        change(evidence(SETTLED, "verify"), request_hash="of another request"),
        says(SETTLED, "its evidence verify is of another request"),
    ),
    "a settlement is another request": (
        change(settlement(HELD), request_hash="of another request"),
        says(HELD, "has no entry hold of 1000 EUR"),
    ),
    "an account is gone": (drop(BOB), "ACCOUNT#bob: has entries, but no sound row"),
    "a settlement is gone": (drop(settlement(HELD)), says(HELD, "has entries, but no sound row")),
    "a settlement with evidence only is gone": (
        lambda book: book.record("order-gone-0000001", "verify", decision="APPROVED"),
        says("order-gone-0000001", "has entries, but no sound row"),
    ),
    "an account changed its currency": (
        change(ALICE, currency="USD"),
        "ACCOUNT#alice: the row says 44180 USD, its entries 0 (minor units); has entries, but no sound row",
    ),
    "an entry is in another currency": (
        change(entry(HELD, "hold"), currency="USD"),
        "ACCOUNT#alice: the row says 44180 EUR, its entries 45180 (minor units); has entries",
    ),
    "a settlement's entry is in another currency": (
        change(entry(HELD, "hold"), currency="USD"),
        says(HELD, "the row says 1000 EUR, its entries 0 (minor units); has no entry hold of 1000 EUR"),
    ),
    "a deposit is in another currency": (
        change(DEPOSIT, currency="USD", debit="external:USD"),
        "ACCOUNT#alice: the row says 44180 EUR, its entries -5820 (minor units); has entries, but no sound",
    ),
    "a settlement changed its currency": (
        change(settlement(HELD), currency="USD"),
        says(HELD, "the row says 1000 USD, its entries 0 (minor units)"),
    ),
}


@pytest.mark.parametrize(("plant", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_and_its_row_named(book: Book, plant: Plant, fault: str) -> None:
    plant(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert not findings.conserved
    assert any(one.startswith(fault) for one in findings.faults), findings.faults


def test_a_settlement_must_have_released_its_amount_less_its_fee(book: Book) -> None:
    """All rows agree about the money, but the payee got too little."""
    all_of(
        add(entry(RELEASED, "release"), "amount", -10),
        add(settlement(RELEASED), "escrow", 10),
        add(row("ACCOUNT#tea-house"), "available", -10),
    )(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert {*names(findings.faults)} == {f"SETTLEMENT#{RELEASED}"}


@pytest.mark.parametrize("step", ["hold", "release", "fee", "compensate:fee", "bonus"])
def test_an_unexplained_entry_of_zero_is_a_fault(book: Book, step: str) -> None:
    """All sums are right, but each entry must have its reason."""
    book.post(CLAIMED, step, "fees:EUR", "credit", 0)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    (fault,) = findings.faults
    assert fault.startswith(says(CLAIMED, f"nothing explains its entry {step} of 0 EUR"))


@pytest.mark.parametrize(
    ("amount", "faults"), [(100, []), (101, ["ACCOUNT#alice: is below zero: -1 EUR (minor units)"])]
)
def test_a_negative_balance_is_a_fault_even_with_matching_entries(amount: int, faults: list[str]) -> None:
    book = Book()
    book.open("alice", 100)
    book.open("bob", 0)
    book.settle("order-of-it-all-1", "alice", "bob", amount, 0, steps=after("fee"))

    findings = reconcile(book.rows, nothing_to_look_at)

    assert (findings.faults, findings.conserved) == (faults, not faults)


def test_a_negative_escrow_is_a_fault_even_with_matching_entries(book: Book) -> None:
    all_of(drop(entry(HELD, "hold")), lose(settlement(HELD), "hold_at"))(book)
    book.row("ACCOUNT#alice")["available"] += 1000
    book.row(f"SETTLEMENT#{HELD}")["escrow"] = -10
    book.row(f"SETTLEMENT#{HELD}")["fee_at"] = book.post(HELD, "fee", "fees:EUR", "credit", 10)

    findings = reconcile(book.rows, nothing_to_look_at)

    assert says(HELD, "is below zero: -10 EUR (minor units)") in findings.faults
