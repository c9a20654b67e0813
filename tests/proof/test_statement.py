"""Reads a statement while it grows: additions behind the tail are noticed, those within it are harmless."""

from datetime import timedelta

import pytest

from settlement.core.ledger import keys
from settlement.core.model.timestamps import timestamp
from settlement.proof import statement
from tests.proof.town import Town

SHOP = "merchant.shop"
PARTITION = keys.entry_partitions(SHOP)[3]
PRICE = 999
TAIL = 3


@pytest.fixture
def town() -> Town:
    """A table with twenty deposits of one price, and a merchant's twenty swept minutes."""
    town = Town()
    town.open("alice", 1_000)
    town.open(SHOP, 0)
    for number in range(20):
        town.deposit(f"deposit-of-alice-{number:04}", "alice", PRICE)
        swept(town, number, version=1)
    return town


def swept(town: Town, minute: int, version: int) -> None:
    """Record `version` sweeps of a minute, of equal amounts."""
    row = {"version": version, "folded": {"07": PRICE * version}}
    town.put({**keys.swept(PARTITION, f"2026-11-20T12:{minute:02}"), **row})


def deposit(town: Town, late: timedelta) -> None:
    town.deposit("deposit-by-a-late-clock", "alice", PRICE, at=timestamp(town.now - late))


@pytest.mark.parametrize(
    ("late", "is_complete"), [(timedelta(0), True), (timedelta(seconds=1), True), (timedelta(hours=1), False)]
)
def test_an_entry_added_behind_the_tail_makes_the_statement_incomplete(
    town: Town, late: timedelta, is_complete: bool
) -> None:
    read = statement.read(town.store, "alice", TAIL)
    assert read.is_complete(town.store)
    before = read.tail(town.store)

    deposit(town, late)

    assert read.is_complete(town.store) is is_complete
    assert read.tail(town.store).is_still(before) is not is_complete


@pytest.mark.parametrize(("minute", "is_complete"), [(19, True), (17, True), (16, False), (0, False)])
def test_a_sweep_behind_the_tail_makes_the_statement_incomplete(
    town: Town, minute: int, is_complete: bool
) -> None:
    read = statement.read(town.store, SHOP, TAIL)
    assert read.is_complete(town.store)

    swept(town, minute, version=2)

    assert read.is_complete(town.store) is is_complete


@pytest.mark.parametrize("late", [timedelta(0), timedelta(hours=1)])
@pytest.mark.parametrize("tail", [None, 100])
def test_a_tail_of_the_whole_statement_misses_no_entry(town: Town, tail: int | None, late: timedelta) -> None:
    read = statement.read(town.store, "alice", tail)
    before = read.tail(town.store)

    deposit(town, late)

    assert read.is_complete(town.store)
    assert not read.tail(town.store).is_still(before)
