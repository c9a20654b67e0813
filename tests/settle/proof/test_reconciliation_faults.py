"""Each kind of fault is found in hand-made books, and its row is named."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.core.ledger import keys
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

Make = Callable[[], Book]
ELSEWHEN = "2026-11-20T23:00:00.000Z"
DECIDED = {"decision": "retry", "reason": "as agreed", "by": "olga", "decided_at": ELSEWHEN}


def key_of(name: str) -> str:
    return f"order-{name}-000001"


def says(key: str, text: str) -> str:
    return f"SETTLEMENT#{key}: {text}"


def later(find: Find) -> Plant:
    """Add the same entry at another time, under an equally valid key."""

    def plant(book: Book) -> None:
        found = find(book)
        place = {"sk": found["sk"].replace(found["posted_at"], ELSEWHEN), "posted_at": ELSEWHEN}
        book.rows.append(found | place)

    return plant


FORWARD: dict[str, tuple[Plant, str]] = {
    "a balance is one too low": (add(ALICE, "available", -1), "ACCOUNT#alice: the row says 44179 EUR"),
    "an escrow is one too high": (
        add(settlement(HELD), "escrow", 1),
        says(HELD, "the row says 1001 EUR, its entries 1000 (minor units)"),
    ),
    "an escrow is below zero": (
        change(settlement(HELD), escrow=-10),
        says(HELD, "is below zero: -10 EUR (minor units)"),
    ),
    **{
        f"the entry of {step} is missing": (
            drop(entry(SETTLED, step)),
            says(SETTLED, f"the row says 0 EUR, its entries {left} (minor units); has no entry {step} of"),
        )
        for step, left in (("hold", -4820), ("release", 4772), ("fee", 48))
    },
    "an entry is there twice": (later(entry(SETTLED, "release")), says(SETTLED, "the row says 0 EUR")),
    "the evidence of the verdict is missing": (
        drop(evidence(SETTLED, "verify")),
        says(SETTLED, "its verdict is APPROVED, its evidence None"),
    ),
    "REJECTED holds escrow": (
        change(settlement(REJECTED), escrow=7),
        says(REJECTED, "is REJECTED, but holds 7 EUR"),
    ),
    "REJECTED after its hold": (
        change(settlement(HELD), status="REJECTED"),
        says(HELD, "is REJECTED, but ['hold'] committed"),
    ),
    "SETTLED before its fee": (
        change(settlement(RELEASED), status="SETTLED"),
        says(RELEASED, "is SETTLED, but only ['hold', 'release', 'verify'] committed"),
    ),
    "a slot is empty, though its entry is there": (
        lose(settlement(SETTLED), "fee_at"),
        says(SETTLED, "nothing explains its entry fee of 48 EUR (minor units) to fees:EUR at"),
    ),
    "a slot of another time than its entry": (
        change(settlement(HELD), hold_at="2026-11-20T11:00:00.000Z"),
        says(HELD, "has no entry hold of 1000 EUR (minor units) from alice at 2026-11-20T11:00:00.000Z"),
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
        says(HELD, "the row says 1000 EUR, its entries 0 (minor units); has no entry hold of 1000 EUR"),
    ),
}


def given_back() -> Book:
    """A settlement at each point of its reversal and at each end."""
    book = Book()
    book.open("alice", 50_000)
    book.open("bob", 0)
    for name, steps in REVERSED.items():
        book.settle(key_of(name), "alice", "bob", 1000, 10, steps=steps)
    for name in ("refunded", "reversed", "claimed"):
        book.compensate(key_of(name))
    book.compensate(key_of("half-way"), last="release")
    book.compensate(key_of("written-off"), written_off="release")
    book.compensate(key_of("covered-fee"), written_off="fee")
    for name in ("stuck", "completed", "completed-late", "tried-again"):
        book.limbo(key_of(name), "release")
    book.limbo(key_of("completed-with-its-fee"), "fee")
    book.retry(key_of("tried-again"))
    book.limbo(key_of("tried-again"), "release")
    for name in ("completed", "completed-late", "completed-with-its-fee", "tried-again"):
        book.complete(key_of(name))
    return book


REVERSED = {
    **{"refunded": 4, "reversed": 3, "claimed": 0, "half-way": 4, "stuck": 3},
    **{"written-off": 4, "covered-fee": 4, "completed": 3, "completed-late": 4},
    **{"completed-with-its-fee": 4, "tried-again": 4},
}
"""Settlements of `given_back`, with their numbers of committed steps."""


def decided(name: str, case: int = 1) -> Find:
    return evidence(key_of(name), f"resolve:{case}")


def moved(name: str) -> Find:
    return entry(key_of(name), "resolve:1")


def row(name: str) -> Find:
    return settlement(key_of(name))


def written_off_for_nothing(book: Book) -> None:
    """Forge a write-off that moves no money and sets no slot."""
    key, resolution = key_of("stuck"), DECIDED | {"decision": "write-off", "covered": "release"}
    at = book.record(key, "resolve:1", decision="write-off")
    book.post(key, "resolve:1", "losses:EUR", "debit", 0, at)
    book.row(f"SETTLEMENT#{key}").update(resolutions=1, resolution=resolution)


BACK: dict[str, tuple[Plant, str]] = {
    "a reversed step has no entry, though the sums agree": (
        all_of(drop(entry(key_of("half-way"), "compensate:release")), add(row("half-way"), "escrow", -990)),
        says(key_of("half-way"), "has no entry compensate:release of 990 EUR (minor units) from bob at"),
    ),
    "the evidence of a write-off is a retry": (
        change(decided("written-off"), decision="retry"),
        says(key_of("written-off"), "has no entry compensate:release of 990 EUR"),
    ),
    "a write-off of the wrong amount": (
        all_of(add(moved("written-off"), "amount", 1), add(row("written-off"), "escrow", 1)),
        says(key_of("written-off"), "has no entry resolve:1 of 990 EUR (minor units) from losses:EUR"),
    ),
    "a write-off of another time than its slot": (
        change(decided("written-off"), posted_at=ELSEWHEN, **keys.orders_index(ELSEWHEN)),
        says(key_of("written-off"), "its write-off resolve:1 covers no reversal"),
    ),
    "a write-off that covers nothing": (
        written_off_for_nothing,
        says(
            key_of("stuck"),
            "its write-off resolve:1 covers no reversal; nothing explains its entry resolve:1 of 0",
        ),
    ),
    "what never committed is reversed": (
        change(row("claimed"), hold_reversed_at=ELSEWHEN),
        says(key_of("claimed"), "is COMPENSATED, but of [] only ['hold'] is reversed"),
    ),
    "COMPENSATED half way": (
        change(row("half-way"), status="COMPENSATED"),
        says(
            key_of("half-way"),
            "is COMPENSATED, but of ['fee', 'hold', 'release', 'verify'] only ['fee', 'release']",
        ),
    ),
    "SETTLED though its release is reversed": (
        change(row("refunded"), status="SETTLED"),
        says(key_of("refunded"), "is SETTLED, but only ['verify'] committed"),
    ),
    "SETTLED without a fee, and not completed by a person": (
        lose(row("completed"), "resolution"),
        says(key_of("completed"), "is SETTLED, but only ['hold', 'release', 'verify'] committed"),
    ),
    "completed, but nothing was released": (
        lose(row("completed"), "release_at"),
        says(key_of("completed"), "is SETTLED, but only ['hold', 'verify'] committed"),
    ),
    "completed, but the rest went nowhere": (
        drop(moved("completed")),
        says(
            key_of("completed"),
            "the row says 0 EUR, its entries 10 (minor units); has no entry resolve:1 of 10",
        ),
    ),
    "completed, but not by what is on record": (
        change(decided("tried-again", 2), decision="retry"),
        says(key_of("tried-again"), "nothing explains its entry resolve:2 of 10 EUR"),
    ),
    "the latest decision is another than the one on record": (
        change(row("tried-again"), resolution=DECIDED | {"decision": "retry"}),
        says(key_of("tried-again"), "its latest decision is retry, its evidence has another"),
    ),
    "the evidence of an earlier decision is gone": (
        drop(decided("tried-again")),
        says(key_of("tried-again"), "has 2 closed cases, its evidence ['resolve:2']"),
    ),
}


def judged() -> Book:
    """A settlement at each point where a verdict may leave it."""
    book = Book()
    book.open("alice", 50_000)
    book.open("bob", 0)
    for name, steps in JUDGED.items():
        book.settle(key_of(name), "alice", "bob", 1000, 10, steps=steps)
    book.review(key_of("in-review"))
    for name in ("rejected", "rejected-and-voided"):
        book.reject(key_of(name))
    book.reject(key_of("reviewed"), by="review")
    book.compensate(key_of("rejected-and-voided"))
    return book


JUDGED = {"in-review": 1, "approved": 2, "rejected": 1, "rejected-and-voided": 1, "reviewed": 1, "paid": 4}


def unproven(name: str, by: str = "verify") -> Plant:
    return drop(evidence(key_of(name), by))


def recorded(name: str, step: str, decision: str) -> Plant:
    return lambda book: book.record(key_of(name), step, decision=decision)


def answered(name: str, by: str, decision: str) -> Plant:
    return change(evidence(key_of(name), by), decision=decision)


VERDICTS: dict[str, tuple[Plant, str]] = {
    what: (plant, says(key_of(name), ""))
    for what, plant, name in (
        ("REJECTED without its evidence", unproven("rejected"), "rejected"),
        ("voided without its evidence", unproven("rejected-and-voided"), "rejected-and-voided"),
        ("REJECTED, but committed", change(row("rejected"), verify_at=ELSEWHEN), "rejected"),
        ("REJECTED, but settled", change(row("paid"), verdict="REJECTED"), "paid"),
        ("REJECTED, but approved by its evidence", answered("rejected", "verify", "APPROVED"), "rejected"),
        ("REJECTED without its webhook's evidence", unproven("reviewed", "review"), "reviewed"),
        ("REJECTED, but approved by its webhook", answered("reviewed", "review", "APPROVED"), "reviewed"),
        ("REJECTED as answered, but approved later", recorded("rejected", "review", "APPROVED"), "rejected"),
        (
            "REJECTED, with an answer that approves for its only evidence",
            all_of(unproven("reviewed", "review"), recorded("reviewed", "verify", "APPROVED")),
            "reviewed",
        ),
        ("APPROVED as answered, but rejected later", recorded("paid", "review", "REJECTED"), "paid"),
        ("APPROVED, but rejected by its evidence", answered("approved", "verify", "REJECTED"), "approved"),
        ("APPROVED without its step", lose(row("approved"), "verify_at"), "approved"),
        ("APPROVED in review", change(row("in-review"), verdict="APPROVED"), "in-review"),
        ("committed without a verdict", lose(row("approved"), "verdict"), "approved"),
    )
}
FAULTS = [
    pytest.param(make, plant, fault, id=what)
    for make, faults in ((at_work, FORWARD), (given_back, BACK), (judged, VERDICTS))
    for what, (plant, fault) in faults.items()
]


@pytest.mark.parametrize(("make", "plant", "fault"), FAULTS)
def test_a_fault_is_found_and_its_row_named(make: Make, plant: Plant, fault: str) -> None:
    book = make()
    plant(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert not findings.conserved
    assert any(one.startswith(fault) for one in findings.faults), findings.faults
    assert make is not judged or {*names(findings.faults)} == {fault.partition(": ")[0]}


@pytest.mark.parametrize("make", [given_back, judged])
def test_every_lawful_end_is_conserved_with_its_totals(make: Make) -> None:
    findings = reconcile(make().rows, nothing_to_look_at)

    assert (findings.faults, findings.conserved) == ([], True)
    totals: dict[Make, dict[str, int]] = {
        # Covered: a release and a fee. Completed: four, for a fee each. One holds its amount, one its fee.
        given_back: {
            "customers": 50_000 + 990 - 4 * 10 - 1000 - 10,
            "escrow": 1000 + 10,
            "fees": 4 * 10 + 10,
            "losses": -990 - 10,
        },
        # Four hold their amounts, one is given back; of what settled, the fee is no longer a customer's.
        judged: {"customers": 50_000 - 4 * 1000 - 10, "escrow": 4 * 1000, "fees": 10},
    }
    assert findings.totals == {"EUR": totals[make] | {"external": -50_000}}


@pytest.mark.parametrize("step", ["fee", "bonus"])
def test_an_unexplained_entry_of_zero_is_a_fault(step: str) -> None:
    """All sums are right, but each entry must have its reason."""
    book = at_work()
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


@pytest.mark.parametrize(
    ("name", "stuck", "other"), [("covered-fee", "fee", "release"), ("written-off", "release", "fee")]
)
def test_a_write_off_covers_the_unreversed_slot_despite_equal_times(
    name: str, stuck: str, other: str
) -> None:
    """The functions' clocks differ, so two slots may have the same time."""
    book, key = given_back(), key_of(name)
    found, earlier = book.row(f"SETTLEMENT#{key}"), book.entry(key, f"compensate:{other}")
    at = found[f"{stuck}_reversed_at"]
    earlier["sk"] = earlier["sk"].replace(earlier["posted_at"], at)
    earlier["posted_at"] = found[f"{other}_reversed_at"] = at

    assert reconcile(book.rows, nothing_to_look_at).conserved


@pytest.mark.parametrize("name", ["in-review", "rejected-and-voided"])
@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
def test_evidence_without_a_verdict_on_the_row_is_valid(name: str, decision: str) -> None:
    """The function that asked the provider died before its row write, or was fenced off."""
    book, key = judged(), key_of(name)
    book.row(f"SETTLEMENT#{key}").pop("verdict", None)
    book.rows = [one for one in book.rows if one["sk"] != f"{key}:verify"]
    book.record(key, "verify", decision=decision)

    assert reconcile(book.rows, nothing_to_look_at).conserved


@pytest.mark.parametrize("answer", ["APPROVED", "REJECTED", None])
@pytest.mark.parametrize("name", ["reviewed", "approved", "paid"])
def test_the_webhook_verdict_outranks_any_provider_answer(name: str, answer: str | None) -> None:
    """The function that got the answer died, or came too late to write the row."""
    book, key = judged(), key_of(name)
    book.rows = [one for one in book.rows if one["pk"] != f"EVIDENCE#{key}"]
    found: dict[str, Any] = book.row(f"SETTLEMENT#{key}")
    found["in_flight_since"] = book.record(key, "review", decision=found["verdict"])
    if found["verdict"] == "APPROVED":
        found["verify_at"] = found["in_flight_since"]
    if answer:
        book.record(key, "verify", decision=answer)

    assert reconcile(book.rows, nothing_to_look_at).conserved


@pytest.mark.parametrize(("name", "by"), [("rejected-and-voided", "verify"), ("reviewed", "review")])
def test_a_verdict_between_two_reads_is_not_a_fault(name: str, by: str) -> None:
    book = judged()
    unproven(name, by)(book)

    findings = reconcile(book.rows, always(Look.AGREES))

    assert (findings.in_flight, findings.conserved) == (1, True)
