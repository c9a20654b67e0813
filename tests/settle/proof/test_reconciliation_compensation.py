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
    row,
)
from tests.settle.plants import settlement as settlement_row
from tests.settle.proof.test_reconciliation import names

NAMES = ("refunded", "reversed", "claimed", "half-way", "stuck", "written-off", "covered-fee")
COMPLETED = ("completed", "completed-late", "completed-with-its-fee", "tried-again")
KEYS = {name: f"order-{name}-000001" for name in (*NAMES, *COMPLETED)}
ELSEWHEN = "2026-11-20T23:00:00.000Z"
DECIDED = {"decision": "retry", "reason": "as agreed", "by": "olga", "decided_at": ELSEWHEN}


@pytest.fixture
def book() -> Book:
    """A settlement at each point of its reversal and at each end."""
    book = Book()
    book.open("alice", 50_000)
    book.open("bob", 0)
    for name, steps in {
        "refunded": 4,
        "reversed": 3,
        "claimed": 0,
        "half-way": 4,
        "stuck": 3,
        "written-off": 4,
        "covered-fee": 4,
        "completed": 3,
        "completed-late": 4,
        "completed-with-its-fee": 4,
        "tried-again": 4,
    }.items():
        book.settle(KEYS[name], "alice", "bob", 1000, 10, steps=steps)
    for name in ("refunded", "reversed", "claimed"):
        book.compensate(KEYS[name])
    book.compensate(KEYS["half-way"], last="release")
    book.compensate(KEYS["written-off"], written_off="release")
    book.compensate(KEYS["covered-fee"], written_off="fee")
    for name in ("stuck", "completed", "completed-late", "tried-again"):
        book.limbo(KEYS[name], "release")
    book.limbo(KEYS["completed-with-its-fee"], "fee")
    book.complete(KEYS["completed-with-its-fee"])
    book.complete(KEYS["completed"])
    book.complete(KEYS["completed-late"])
    book.retry(KEYS["tried-again"])
    book.limbo(KEYS["tried-again"], "release")
    book.complete(KEYS["tried-again"])
    return book


def test_reversals_are_conserved_and_a_write_off_is_a_loss(book: Book) -> None:
    findings = reconcile(book.rows, nothing_to_look_at)

    assert (findings.faults, findings.conserved) == ([], True)
    assert findings.settlements == len(KEYS)
    # Covered: a release and a fee. Completed: four, for a fee each. One holds its amount, one its fee.
    assert findings.totals == {
        "EUR": {
            "customers": 50_000 + 990 - 4 * 10 - 1000 - 10,
            "escrow": 1000 + 10,
            "fees": 4 * 10 + 10,
            "losses": -990 - 10,
            "external": -50_000,
        }
    }


def back(name: str, step: str) -> Find:
    return entry(KEYS[name], f"compensate:{step}")


def moved(name: str, case: int = 1) -> Find:
    return entry(KEYS[name], f"resolve:{case}")


def decided(name: str, case: int = 1) -> Find:
    return evidence(KEYS[name], f"resolve:{case}")


def settlement(name: str) -> Find:
    return settlement_row(KEYS[name])


def says(name: str, text: str) -> str:
    return f"SETTLEMENT#{KEYS[name]}: {text}"


def not_reversed(name: str, step: str) -> Plant:
    return lose(settlement(name), f"{step}_reversed_at")


def also_reversed(book: Book) -> None:
    """Also reclaim the written-off release."""
    book.post(KEYS["written-off"], "compensate:release", "bob", "debit", 990)


def written_off_for_nothing(book: Book) -> None:
    """Add a decision without a slot, with an entry that moves nothing."""
    name, at = KEYS["stuck"], book.record(KEYS["stuck"], "resolve:1", decision="write-off")
    book.post(name, "resolve:1", "losses:EUR", "debit", 0, at)
    book.row(f"SETTLEMENT#{name}").update(
        resolutions=1, resolution=DECIDED | {"decision": "write-off", "covered": "release"}
    )


FAULTS: dict[str, tuple[Plant, str]] = {
    **{
        f"a reversed {step} has no entry": (drop(back("refunded", step)), says("refunded", "the row says"))
        for step in ("fee", "release", "hold")
    },
    "a reversed step has no entry, though the sums agree": (
        all_of(drop(back("half-way", "release")), add(settlement("half-way"), "escrow", -990)),
        says("half-way", "has no entry compensate:release of 990 EUR (minor units) from bob at"),
    ),
    "a reversal of another time than its slot": (
        change(settlement("half-way"), release_reversed_at=ELSEWHEN),
        says("half-way", "has no entry compensate:release of 990 EUR"),
    ),
    "the entry of a write-off is gone": (drop(moved("written-off")), says("written-off", "the row says")),
    "the evidence of a write-off is gone": (
        drop(decided("written-off")),
        says("written-off", "has no entry compensate:release of 990 EUR"),
    ),
    "the evidence of a write-off is a retry": (
        change(decided("written-off"), decision="retry"),
        says("written-off", "has no entry compensate:release of 990 EUR"),
    ),
    "a write-off of the wrong amount": (
        all_of(add(moved("written-off"), "amount", 1), add(settlement("written-off"), "escrow", 1)),
        says("written-off", "has no entry resolve:1 of 990 EUR (minor units) from losses:EUR"),
    ),
    "a write-off of another time than its slot": (
        change(decided("written-off"), posted_at=ELSEWHEN, **keys.orders_index(ELSEWHEN)),
        says("written-off", "its write-off resolve:1 covers no reversal"),
    ),
    "a write-off that covers nothing": (
        written_off_for_nothing,
        says(
            "stuck", "its write-off resolve:1 covers no reversal; nothing explains its entry resolve:1 of 0"
        ),
    ),
    "a decision that covered nothing in the place of a reversal": (
        all_of(drop(moved("written-off")), add(settlement("written-off"), "escrow", -990)),
        says("written-off", "has no entry resolve:1 of 990 EUR"),
    ),
    **{
        f"a {step} was reversed by too little": (
            all_of(add(back("half-way", step), "amount", -1), add(settlement("half-way"), "escrow", -1)),
            says("half-way", f"has no entry compensate:{step} of"),
        )
        for step in ("fee", "release")
    },
    "a hold was voided by too little": (
        all_of(add(back("refunded", "hold"), "amount", -1), add(settlement("refunded"), "escrow", 1)),
        says("refunded", "has no entry compensate:hold of 1000 EUR (minor units) to alice"),
    ),
    **{
        f"a {step} moved back, but is not reversed": (
            not_reversed("half-way", step),
            says("half-way", f"nothing explains its entry compensate:{step} of"),
        )
        for step in ("fee", "release")
    },
    "a step was written off and reversed too": (also_reversed, says("written-off", "the row says")),
    "what never committed is reversed": (
        change(settlement("claimed"), hold_reversed_at=ELSEWHEN),
        says("claimed", "is COMPENSATED, but of [] only ['hold'] is reversed"),
    ),
    "what never committed has moved back": (
        lambda book: book.post(KEYS["reversed"], "compensate:fee", "fees:EUR", "debit", 0),
        says("reversed", "nothing explains its entry compensate:fee of 0 EUR"),
    ),
    "COMPENSATED with a step that is not reversed": (
        all_of(
            drop(back("reversed", "release")),
            drop(back("reversed", "hold")),
            not_reversed("reversed", "release"),
            not_reversed("reversed", "hold"),
            change(settlement("reversed"), escrow=10),
            add(row("ACCOUNT#alice"), "available", -1000),
            add(row("ACCOUNT#bob"), "available", 990),
        ),
        says(
            "reversed",
            "is COMPENSATED, but of ['hold', 'release', 'verify'] only [] is reversed",
        ),
    ),
    "COMPENSATED with escrow": (
        change(settlement("stuck"), status="COMPENSATED"),
        says("stuck", "is COMPENSATED, but holds 10 EUR"),
    ),
    "COMPENSATED half way": (
        change(settlement("half-way"), status="COMPENSATED"),
        says(
            "half-way", "is COMPENSATED, but of ['fee', 'hold', 'release', 'verify'] only ['fee', 'release']"
        ),
    ),
    "SETTLED though its release is reversed": (
        change(settlement("refunded"), status="SETTLED"),
        says("refunded", "is SETTLED, but only ['verify'] committed"),
    ),
    "SETTLED as if completed, though its release was covered": (
        change(settlement("written-off"), status="SETTLED", resolution=DECIDED | {"decision": "complete"}),
        says("written-off", "is SETTLED, but only ['verify'] committed"),
    ),
    "SETTLED without a fee, and not completed by a person": (
        lose(settlement("completed"), "resolution"),
        says("completed", "is SETTLED, but only ['hold', 'release', 'verify'] committed"),
    ),
    **{
        f"SETTLED without a fee after a {decision}": (
            change(settlement("completed"), resolution=DECIDED | {"decision": decision}),
            says("completed", "is SETTLED, but only ['hold', 'release', 'verify'] committed"),
        )
        for decision in ("retry", "write-off")
    },
    "completed, but nothing was released": (
        lose(settlement("completed"), "release_at"),
        says("completed", "is SETTLED, but only ['hold', 'verify'] committed"),
    ),
    "completed, but the escrow was kept": (
        change(settlement("completed"), escrow=10),
        says("completed", "is SETTLED, but holds 10 EUR"),
    ),
    "completed, but the rest went nowhere": (
        drop(moved("completed")),
        says("completed", "the row says 0 EUR, its entries 10 (minor units); has no entry resolve:1 of 10"),
    ),
    "completed, but not by what is on record": (
        change(decided("tried-again", 2), decision="retry"),
        says("tried-again", "nothing explains its entry resolve:2 of 10 EUR"),
    ),
    "the latest decision is another than the one on record": (
        change(settlement("tried-again"), resolution=DECIDED | {"decision": "retry"}),
        says("tried-again", "its latest decision is retry, its evidence has another"),
    ),
    "the evidence of an earlier decision is gone": (
        drop(decided("tried-again", 1)),
        says("tried-again", "has 2 closed cases, its evidence ['resolve:2']"),
    ),
    "a decision is on record that the row does not know": (
        lambda book: book.record(KEYS["refunded"], "resolve:1", decision="retry"),
        says("refunded", "has 0 closed cases, its evidence ['resolve:1']"),
    ),
    "in LIMBO with less in escrow than its entries": (
        add(settlement("stuck"), "escrow", -1),
        says("stuck", "the row says 9 EUR, its entries 10"),
    ),
}


@pytest.mark.parametrize(("plant", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_and_said(book: Book, plant: Plant, fault: str) -> None:
    plant(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert not findings.conserved
    assert any(one.startswith(fault) for one in findings.faults), findings.faults


@pytest.mark.parametrize("stuck", ["fee", "release"])
def test_a_write_off_covers_the_unreversed_slot_despite_equal_times(book: Book, stuck: str) -> None:
    """The functions' clocks differ: two slots may have the same time."""
    key, other = (
        KEYS["covered-fee" if stuck == "fee" else "written-off"],
        {"fee": "release", "release": "fee"},
    )
    found = book.row(f"SETTLEMENT#{key}")
    earlier, at = book.entry(key, f"compensate:{other[stuck]}"), found[f"{stuck}_reversed_at"]
    earlier["sk"] = earlier["sk"].replace(earlier["posted_at"], at)
    earlier["posted_at"] = found[f"{other[stuck]}_reversed_at"] = at

    assert reconcile(book.rows, nothing_to_look_at).conserved


def test_only_the_settlement_whose_journal_is_wrong_is_at_fault(book: Book) -> None:
    drop(moved("completed-late"))(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert names(findings.faults) == [f"SETTLEMENT#{KEYS['completed-late']}"]


def test_the_bar_on_an_account_is_no_money(book: Book) -> None:
    book.row("ACCOUNT#bob")["limbo_cases"] = 1

    findings = reconcile(book.rows, nothing_to_look_at)

    assert findings.conserved
