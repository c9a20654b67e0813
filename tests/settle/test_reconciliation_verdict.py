"""The reconciliation of verdicts: a row and its journal must agree on whether there is one, and which."""

from collections.abc import Callable

import pytest

from settle.reconciliation import Look, reconcile
from tests.settle.book import Book
from tests.settle.test_reconciliation import always, drop, entry, nothing_to_look_at

KEYS = {
    name: f"order-{name}-000001" for name in ("in-review", "approved", "rejected", "given-back", "settled")
}
PK = {name: f"SETTLEMENT#{key}" for name, key in KEYS.items()}


@pytest.fixture
def book() -> Book:
    """A table with a settlement at each point where a verdict may leave it."""
    book = Book()
    book.open("alice", 50_000)
    book.open("bob", 0)
    for name, steps in {"in-review": 1, "approved": 2, "rejected": 1, "given-back": 1, "settled": 4}.items():
        book.settle(KEYS[name], "alice", "bob", 1000, 10, steps=steps)
    book.row(PK["in-review"], "SETTLEMENT")["review"] = "ver_1"
    for name in ("rejected", "given-back"):
        book.reject(KEYS[name])
    book.compensate(KEYS["given-back"])
    return book


def with_event(book: Book) -> None:
    """The marker of a webhook's event: it moves nothing, and is no entry."""
    book.rows.append({"pk": "KYC_EVENT#evt_1", "sk": "EVENT", "digest": "d", "key": KEYS["approved"]})


def with_circuit(book: Book) -> None:
    book.rows.append({"pk": "CIRCUIT", "sk": "kyc", "state": "OPEN", "failure_count": 5})


@pytest.mark.parametrize("add", [lambda book: None, with_event, with_circuit])
def test_every_verdict_that_is_on_record_is_conserved(book: Book, add: Callable[[Book], None]) -> None:
    add(book)

    findings = reconcile(book.rows, nothing_to_look_at)

    assert (findings.faults, findings.conserved) == ([], True)
    assert (findings.settlements, findings.accounts) == (len(KEYS), 2)
    entries = [row for row in book.rows if "step" in row]
    assert findings.entries == len(entries)


def forget(name: str) -> Callable[[Book], object]:
    """The row has lost its verdict."""
    return lambda book: book.row(PK[name], "SETTLEMENT").pop("verdict")


def says(name: str, verdict: str) -> Callable[[Book], object]:
    return lambda book: book.row(PK[name], "SETTLEMENT").update(verdict=verdict)


def commits(name: str, *steps: str) -> Callable[[Book], object]:
    return lambda book: book.row(PK[name], "SETTLEMENT").update(steps=set(steps))


def both(*plants: Callable[[Book], object]) -> Callable[[Book], object]:
    return lambda book: [plant(book) for plant in plants]


def unknown_entry(name: str) -> Callable[[Book], object]:
    """There is an entry of a verdict that the row does not know."""
    return lambda book: book.rows.append(
        {"pk": PK[name], "sk": f"{KEYS[name]}:verify", "step": "verify", "decision": "APPROVED"}
    )


FAULTS: dict[str, tuple[Callable[[Book], object], str]] = {
    "REJECTED without its entry": (drop(*entry(PK["rejected"], "verify")), "rejected"),
    "REJECTED and given back without its entry": (drop(*entry(PK["given-back"], "verify")), "given-back"),
    "REJECTED, but committed": (commits("rejected", "hold", "verify"), "rejected"),
    "REJECTED, but settled": (says("settled", "REJECTED"), "settled"),
    "APPROVED without its entry": (drop(*entry(PK["approved"], "verify")), "approved"),
    "APPROVED without its step": (commits("approved", "hold"), "approved"),
    "APPROVED without its step and entry": (
        both(commits("approved", "hold"), drop(*entry(PK["approved"], "verify"))),
        "approved",
    ),
    "APPROVED, but nothing of it is committed": (says("in-review", "APPROVED"), "in-review"),
    "an entry that a row in review does not know": (unknown_entry("in-review"), "in-review"),
    "a rejection that its row does not know": (forget("rejected"), "rejected"),
    "a rejection that its row, given back, does not know": (forget("given-back"), "given-back"),
}


@pytest.mark.parametrize(("plant", "name"), FAULTS.values(), ids=FAULTS)
def test_a_verdict_that_row_and_journal_do_not_agree_on_is_a_fault(
    book: Book, plant: Callable[[Book], object], name: str
) -> None:
    plant(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert [fault.partition(": ")[0] for fault in findings.faults] == [PK[name]]
    assert not findings.conserved


@pytest.mark.parametrize("name", ["rejected", "given-back", "approved"])
def test_a_verdict_that_came_between_two_reads_is_motion_and_no_fault(book: Book, name: str) -> None:
    drop(*entry(PK[name], "verify"))(book)

    findings = reconcile(book.rows, always(Look.AGREES))

    assert (findings.in_flight, findings.conserved) == (1, True)


def test_a_verdict_moves_no_money(book: Book) -> None:
    findings = reconcile(book.rows, nothing_to_look_at)

    # In review, approved and rejected hold their amounts; of what settled, the fee is no longer a customer's.
    assert findings.totals == {
        "EUR": {"customers": 50_000 - 3 * 1000 - 10, "escrow": 3 * 1000, "fees": 10, "external": -50_000}
    }
