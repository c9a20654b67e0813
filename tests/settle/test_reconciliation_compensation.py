"""The reconciliation of what was reversed, written off, completed, or is stuck."""

from collections.abc import Callable

import pytest

from settle.reconciliation import Look, reconcile
from tests.settle.book import Book, Row
from tests.settle.test_reconciliation import add, always, change, copied, drop, entry, nothing_to_look_at

NAMES = ("refunded", "reversed", "claimed", "half-way", "stuck", "written-off", "covered-fee")
KEYS = {name: f"order-{name}-000001" for name in (*NAMES, "completed", "completed-late")}
PK = {name: f"SETTLEMENT#{key}" for name, key in KEYS.items()}


@pytest.fixture
def book() -> Book:
    """A table with a settlement at each point of its way back, and at each of its ends."""
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
    }.items():
        book.settle(KEYS[name], "alice", "bob", 1000, 10, steps=steps)
    for name in ("refunded", "reversed", "claimed"):
        book.compensate(KEYS[name])
    book.compensate(KEYS["half-way"], last="release")
    book.compensate(KEYS["written-off"], written_off="release")
    book.compensate(KEYS["covered-fee"], written_off="fee")
    for name in ("stuck", "completed", "completed-late"):
        book.limbo(KEYS[name], "release")
    book.complete(KEYS["completed"])
    book.complete(KEYS["completed-late"])
    return book


def test_all_that_was_reversed_written_off_completed_or_is_stuck_is_conserved(book: Book) -> None:
    findings = reconcile(book.rows, nothing_to_look_at)

    assert findings.faults == []
    assert findings.conserved
    assert findings.settlements == len(KEYS)


def test_a_write_off_is_a_loss_in_the_sums_which_stay_zero(book: Book) -> None:
    findings = reconcile(book.rows, nothing_to_look_at)

    # Covered were a release and a fee. Completed were two, for a fee each. One holds its amount, one its fee.
    assert findings.totals == {
        "EUR": {
            "customers": 50_000 + 990 - 2 * 10 - 1000 - 10,
            "escrow": 1000 + 10,
            "fees": 2 * 10 + 10,
            "losses": -990 - 10,
            "external": -50_000,
        }
    }
    assert sum(findings.totals["EUR"].values()) == 0


def back(name: str, step: str) -> tuple[str, str]:
    """The key of the entry that reverses a step."""
    return entry(PK[name], f"compensate:{step}")


def decided(name: str) -> tuple[str, str]:
    return entry(PK[name], "resolve:1")


def row(name: str) -> tuple[str, str]:
    return PK[name], "SETTLEMENT"


def says(name: str, text: str) -> str:
    return f"{PK[name]}: {text}"


Plant = Callable[[Book], object]


def all_of(*plants: Plant) -> Plant:
    """Several changes, which together keep the sums as they were."""
    return lambda book: [plant(book) for plant in plants]


def not_reversed(name: str, step: str) -> Plant:
    return lambda book: book.row(*row(name))["reversed"].remove(step)


FAULTS: dict[str, tuple[Plant, str]] = {
    **{
        f"a reversed {step} has no entry": (drop(*back("refunded", step)), says("refunded", "the row says"))
        for step in ("fee", "release", "hold")
    },
    "a reversed step has no entry, though the sums agree": (
        all_of(drop(*back("half-way", "release")), add(*row("half-way"), "escrow", -990)),
        says("half-way", "the row says 10 EUR, its entries 10"),
    ),
    "a write-off is gone": (drop(*decided("written-off")), says("written-off", "the row says")),
    "a write-off of the wrong amount": (
        all_of(add(*decided("written-off"), "amount", 1), add(*row("written-off"), "escrow", 1)),
        says("written-off", "the row says 1 EUR, its entries 1"),
    ),
    "a decision that covered nothing in the place of a reversal": (
        all_of(
            lambda book: [
                book.row(*decided("written-off")).pop(name) for name in ("debit", "credit", "amount")
            ],
            add(*row("written-off"), "escrow", -990),
        ),
        says("written-off", "the row says -990 EUR, its entries -990"),
    ),
    **{
        f"a {step} was reversed by too little": (
            all_of(add(*back("half-way", step), "amount", -1), add(*row("half-way"), "escrow", -1)),
            says("half-way", "the row says 999 EUR, its entries 999"),
        )
        for step in ("fee", "release")
    },
    "a hold was voided by too little": (
        all_of(add(*back("refunded", "hold"), "amount", -1), add(*row("refunded"), "escrow", 1)),
        says("refunded", "the row says 1 EUR, its entries 1"),
    ),
    **{
        f"a {step} moved back, but is not reversed": (
            not_reversed("half-way", step),
            says("half-way", "the row says 1000 EUR, its entries 1000"),
        )
        for step in ("fee", "release")
    },
    "a step was written off and reversed too": (
        copied(
            *back("refunded", "release"),
            pk=PK["written-off"],
            sk=back("written-off", "release")[1],
            credit=f"escrow:{KEYS['written-off']}",
        ),
        says("written-off", "the row says"),
    ),
    "what never committed is reversed": (change(*row("claimed"), reversed={"hold"}), says("claimed", "")),
    "what never committed has moved back": (
        all_of(
            change(*back("reversed", "fee"), debit="fees:EUR", credit="alice", amount=10, currency="EUR"),
            add("ACCOUNT#alice", "BALANCE", "available", 10),
        ),
        says("reversed", "the row says 0 EUR, its entries 0"),
    ),
    "COMPENSATED with a step that is not reversed": (
        all_of(
            drop(*back("reversed", "release")),
            drop(*back("reversed", "hold")),
            change(*row("reversed"), reversed=set(), escrow=10),
            add("ACCOUNT#alice", "BALANCE", "available", -1000),
            add("ACCOUNT#bob", "BALANCE", "available", 990),
        ),
        says(
            "reversed",
            "is COMPENSATED, but of ['hold', 'release', 'verify'] only [] is reversed",
        ),
    ),
    "COMPENSATED with escrow": (
        change(*row("stuck"), status="COMPENSATED"),
        says("stuck", "is COMPENSATED, but holds 10 EUR"),
    ),
    "COMPENSATED half way": (
        change(*row("half-way"), status="COMPENSATED"),
        says(
            "half-way", "is COMPENSATED, but of ['fee', 'hold', 'release', 'verify'] only ['fee', 'release']"
        ),
    ),
    "SETTLED though its release is reversed": (
        change(*row("refunded"), status="SETTLED"),
        says("refunded", "is SETTLED, but only ['verify'] committed"),
    ),
    "SETTLED as if completed, though its release was covered": (
        change(*row("written-off"), status="SETTLED", resolution={"decision": "complete"}),
        says("written-off", "is SETTLED, but only ['verify'] committed"),
    ),
    "SETTLED without a fee, and not completed by a person": (
        lambda book: book.row(*row("completed")).pop("resolution"),
        says("completed", "is SETTLED, but only ['hold', 'release', 'verify'] committed"),
    ),
    **{
        f"SETTLED without a fee after a {decision}": (
            change(*row("completed"), resolution={"decision": decision}),
            says("completed", "is SETTLED, but only ['hold', 'release', 'verify'] committed"),
        )
        for decision in ("retry", "write-off")
    },
    "completed, but nothing was released": (
        change(*row("completed"), steps={"hold", "verify"}),
        says("completed", "is SETTLED, but only ['hold', 'verify'] committed"),
    ),
    "completed, but the escrow was kept": (
        change(*row("completed"), escrow=10),
        says("completed", "is SETTLED, but holds 10 EUR"),
    ),
    "in LIMBO with less in escrow than its entries": (
        add(*row("stuck"), "escrow", -1),
        says("stuck", "the row says 9 EUR, its entries 10"),
    ),
}


@pytest.mark.parametrize(("plant", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_and_said(book: Book, plant: Plant, fault: str) -> None:
    plant(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert not findings.conserved
    assert any(one.startswith(fault) for one in findings.faults), findings.faults


def test_a_retry_on_record_changes_nothing_of_what_must_agree(book: Book) -> None:
    pk = PK["refunded"]
    evidence: Row = {"pk": pk, "sk": entry(pk, "resolve:1")[1], "step": "resolve:1", "decision": "retry"}
    book.rows.append(evidence)
    book.row(*row("refunded"))["resolution"] = {"decision": "retry"}

    assert reconcile(book.rows, nothing_to_look_at).conserved


def test_the_bar_on_an_account_is_no_money(book: Book) -> None:
    book.row("ACCOUNT#bob")["limbo_keys"] = {KEYS["stuck"]}

    findings = reconcile(book.rows, nothing_to_look_at)

    assert findings.conserved
