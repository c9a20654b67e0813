"""Reconciliation of verdicts: each needs evidence, which may stand without a verdict."""

import pytest

from settlement.proof import Look, reconcile
from tests.settle.book import Book
from tests.settle.plants import (
    Plant,
    all_of,
    always,
    change,
    drop,
    evidence,
    lose,
    nothing_to_look_at,
    settlement,
)
from tests.settle.proof.test_reconciliation import names

STEPS = {"in-review": 1, "approved": 2, "rejected": 1, "given-back": 1, "reviewed": 1, "settled": 4}
"""The book's settlements, with their numbers of committed steps."""

KEYS = {name: f"order-{name}-000001" for name in STEPS}


@pytest.fixture
def book() -> Book:
    """A settlement at each point where a verdict may leave it."""
    book = Book()
    book.open("alice", 50_000)
    book.open("bob", 0)
    for name, steps in STEPS.items():
        book.settle(KEYS[name], "alice", "bob", 1000, 10, steps=steps)
    book.review(KEYS["in-review"])
    for name in ("rejected", "given-back"):
        book.reject(KEYS[name])
    book.reject(KEYS["reviewed"], by="review")
    book.compensate(KEYS["given-back"])
    return book


def test_every_recorded_verdict_is_conserved_and_moves_no_money(book: Book) -> None:
    findings = reconcile(book.rows, nothing_to_look_at)

    assert (findings.faults, findings.conserved) == ([], True)
    assert (findings.settlements, findings.accounts) == (len(KEYS), 2)
    assert findings.entries == len([row for row in book.rows if "step" in row])
    # Four hold their amounts, one is given back; of what settled, the fee is no longer a customer's.
    assert findings.totals == {
        "EUR": {"customers": 50_000 - 4 * 1000 - 10, "escrow": 4 * 1000, "fees": 10, "external": -50_000}
    }


@pytest.mark.parametrize("name", ["in-review", "given-back"])
@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
def test_evidence_may_stand_without_a_verdict(book: Book, name: str, decision: str) -> None:
    """The function that asked the provider died before its row write, or was fenced off."""
    key = KEYS[name]
    book.row(f"SETTLEMENT#{key}").pop("verdict", None)
    book.rows = [row for row in book.rows if row["sk"] != f"{key}:verify"]
    book.record(key, "verify", decision=decision)

    assert reconcile(book.rows, nothing_to_look_at).conserved


@pytest.mark.parametrize("answered", ["APPROVED", "REJECTED", None])
@pytest.mark.parametrize(("name", "steps"), [("reviewed", 1), ("approved", 2), ("settled", 4)])
def test_a_webhook_verdict_is_the_rows_despite_any_provider_answer(
    book: Book, name: str, steps: int, answered: str | None
) -> None:
    """The answer's function died, or came too late, before it wrote to the row."""
    key = KEYS[name]
    book.rows = [row for row in book.rows if row["pk"] != f"EVIDENCE#{key}"]
    row = book.row(f"SETTLEMENT#{key}")
    row["in_flight_since"] = book.record(key, "review", decision=row["verdict"])
    if row["verdict"] == "APPROVED":
        row["verify_at"] = row["in_flight_since"]
    if answered:
        book.record(key, "verify", decision=answered)

    assert reconcile(book.rows, nothing_to_look_at).conserved


def says(name: str, verdict: str) -> Plant:
    return change(settlement(KEYS[name]), verdict=verdict)


def unproven(name: str, by: str = "verify") -> Plant:
    return drop(evidence(KEYS[name], by))


def recorded(name: str, step: str, decision: str) -> Plant:
    return lambda book: book.record(KEYS[name], step, decision=decision)


def uncommitted(name: str) -> Plant:
    return lose(settlement(KEYS[name]), "verify_at")


AT = "2026-11-20T11:00:00.000Z"
FAULTS: dict[str, tuple[Plant, str]] = {
    "REJECTED without its evidence": (unproven("rejected"), "rejected"),
    "REJECTED and given back without its evidence": (unproven("given-back"), "given-back"),
    "REJECTED, but committed": (change(settlement(KEYS["rejected"]), verify_at=AT), "rejected"),
    "REJECTED, but settled": (says("settled", "REJECTED"), "settled"),
    "REJECTED, but approved by its evidence": (
        change(evidence(KEYS["rejected"], "verify"), decision="APPROVED"),
        "rejected",
    ),
    "REJECTED without its webhook's evidence": (unproven("reviewed", "review"), "reviewed"),
    "REJECTED, but approved by its webhook": (
        change(evidence(KEYS["reviewed"], "review"), decision="APPROVED"),
        "reviewed",
    ),
    "REJECTED as answered, but approved by its webhook": (
        recorded("rejected", "review", "APPROVED"),
        "rejected",
    ),
    "REJECTED, with an answer that approves for its only evidence": (
        all_of(unproven("reviewed", "review"), recorded("reviewed", "verify", "APPROVED")),
        "reviewed",
    ),
    "APPROVED as answered, but rejected by its webhook": (
        recorded("settled", "review", "REJECTED"),
        "settled",
    ),
    "APPROVED, but rejected by its evidence": (
        change(evidence(KEYS["approved"], "verify"), decision="REJECTED"),
        "approved",
    ),
    "APPROVED by evidence that does not decide": (
        lose(evidence(KEYS["approved"], "verify"), "decision"),
        "approved",
    ),
    "APPROVED without its evidence": (unproven("approved"), "approved"),
    "APPROVED without its step": (uncommitted("approved"), "approved"),
    "APPROVED without its step and evidence": (
        all_of(uncommitted("approved"), unproven("approved")),
        "approved",
    ),
    "APPROVED, but nothing of it is committed": (says("in-review", "APPROVED"), "in-review"),
    "committed without a verdict": (lose(settlement(KEYS["approved"]), "verdict"), "approved"),
}


@pytest.mark.parametrize(("plant", "name"), FAULTS.values(), ids=FAULTS)
def test_a_verdict_unproven_by_its_evidence_is_a_fault(book: Book, plant: Plant, name: str) -> None:
    plant(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert {f"SETTLEMENT#{KEYS[name]}"} <= {*names(findings.faults)}
    assert all(KEYS[name] in fault for fault in findings.faults)
    assert not findings.conserved


@pytest.mark.parametrize(
    ("name", "by"),
    [("rejected", "verify"), ("given-back", "verify"), ("approved", "verify"), ("reviewed", "review")],
)
def test_a_verdict_between_two_reads_is_not_a_fault(book: Book, name: str, by: str) -> None:
    unproven(name, by)(book)

    findings = reconcile(book.rows, always(Look.AGREES))

    assert (findings.in_flight, findings.conserved) == (1, True)
