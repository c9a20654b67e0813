import os
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from settlement.proof import CutOff, Look, reconcile
from settlement.proof.facts import BalanceFacts, EntryFacts, EvidenceFacts, OrderFacts, SettlementFacts
from settlement.proof.spool import Spool, accounts, settlements
from tests.settle.book import Book, Row
from tests.settle.plants import always
from tests.world.picture import after

SETTLEMENTS = 2_200
"""Number of settlements, enough to fill each batch twice."""


def entry(key: str, posted_at: str = "2026-11-20T12:00:00.000Z") -> EntryFacts:
    return EntryFacts(key, "hold", posted_at, "alice", "debit", 1, "EUR", "a-hash")


@pytest.fixture(params=[1, 1_000, 100_000], ids=["all on disk", "some on disk", "all in memory"])
def spool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spool]:
    monkeypatch.setattr("settlement.proof.spool._BATCH", request.param)
    with Spool() as spool:
        yield spool


def test_the_spool_groups_a_settlements_rows_in_key_order(spool: Spool) -> None:
    numbers = list(range(2_500))  # more than a batch
    random.Random(1).shuffle(numbers)
    for number in numbers:
        spool.add(entry(f"order-{number:04}"))
    for number in reversed(numbers):
        spool.add(EvidenceFacts(f"order-{number:04}", "verify", "an instant", "a-hash", None))
        spool.add(entry(f"order-{number:04}", "another instant"))

    journals = list(settlements([spool]))

    assert [journal.key for journal in journals] == [f"order-{number:04}" for number in range(2_500)]
    assert {(len(one.entries), len(one.evidence), one.row) for one in journals} == {(2, 1, None)}
    assert journals[7].entries == [entry("order-0007"), entry("order-0007", "another instant")]


def test_the_spool_returns_facts_unchanged(spool: Spool) -> None:
    parties = ("order-1", "LIMBO", "alice", "bob", "EUR", "a-hash")
    slots = ("1", "2", None, None, None, None, None)
    row = SettlementFacts(*parties, 2**63 - 1, 0, -(2**63 - 1), *slots, "APPROVED", 3, None)
    spool.add(row)
    spool.add(BalanceFacts("alice", "EUR", 2**63 - 1))

    (journal,), (account,) = settlements([spool]), accounts([spool])

    assert (journal.row, account.row) == (row, BalanceFacts("alice", "EUR", 2**63 - 1))


def test_an_accounts_order_met_twice_ends_the_proof(spool: Spool) -> None:
    orders = [OrderFacts("alice", f"order-{n}", "deposit", "an instant", "EUR", n, "a-hash") for n in (1, 2)]
    for one in orders:
        spool.add(one)
    (account,) = accounts([spool])
    assert account.orders == orders

    spool.add(orders[0])
    with pytest.raises(CutOff, match=r"^the scan has met a row of alice twice$"):
        list(accounts([spool]))


def test_the_spool_sums_changes_by_account_without_overflow(spool: Spool) -> None:
    for number in range(5_000):
        spool.post(f"customer-{number % 1500:04}", "EUR", 2**62)
        spool.post("external:EUR", "EUR", -(2**62))
    spool.post("external:EUR", "USD", 1)

    found = {account.name: dict(account.sums) for account in accounts([spool])}

    assert found.pop("external:EUR") == {"EUR": -5_000 * 2**62, "USD": 1}
    assert set(found) == {f"customer-{number:04}" for number in range(1500)}
    assert found["customer-0499"] == {"EUR": 4 * 2**62}
    assert found["customer-0500"] == {"EUR": 3 * 2**62}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc to see the open files")
def test_the_spools_file_is_unnamed_and_gone_afterwards() -> None:
    """Even a killed process leaves no file, and other processes cannot open it."""

    def files() -> list[str]:
        """Return SQLite's open temporary files."""
        found = []
        for fd in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # the listing itself
                found.append(os.readlink(f"/proc/self/fd/{fd}"))
        return [link for link in found if "/etilqs_" in link]

    with Spool() as spool:
        for number in range(30_000):
            spool.add(entry(f"order-{number * 7919 % 30_000:06}-{'x' * 50}"))
        journals = settlements([spool])
        next(journals)
        in_use = files()
        del journals

    assert in_use
    assert all(link.endswith(" (deleted)") for link in in_use)
    assert files() == []


def table(settlements: int) -> Iterator[Row]:
    """Yield a busy table's rows one at a time."""
    for number in range(settlements):
        book = Book()
        book.open(f"payer-{number}", 10_000)
        book.open(f"payee-{number}", 0)
        book.settle(f"order-{number:012}", f"payer-{number}", f"payee-{number}", 4820, 48, steps=after("fee"))
        yield from book.rows


@pytest.mark.long
def test_memory_does_not_grow_with_the_table() -> None:
    """Only Python's memory is measured, because a cache limit bounds SQLite's."""

    def peak(settlements: int) -> int:
        tracemalloc.start()
        findings = reconcile(table(settlements), always(Look.DISAGREES))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (findings.conserved, findings.settlements) == (True, settlements)
        return most

    assert peak(SETTLEMENTS) < 1.2 * peak(SETTLEMENTS // 2)
