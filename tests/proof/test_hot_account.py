"""A busy account is proven during its moves, and its wrong balance found."""

import random
import threading
from datetime import timedelta

import pytest

from settlement.core.ledger import keys
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.proof import Difference, Findings, Retention, second_look, statement, table_scan
from settlement.proof.findings import Verdict
from tests.proof.client import readable
from tests.proof.town import Town
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

PRICE = 999
"""Amount of every move. Equal amounts make different errors look the same."""

HOT = [(5, 0.1), (50, 0.01)]
"""Moves per second and seconds per read, first for a remote reader, then within the region."""


class Traffic:
    def __init__(
        self, town: Town, per_second: float, call_seconds: float = 0, late_seconds: float = 0
    ) -> None:
        self._town, self._call_seconds = town, call_seconds
        self.moves = sum(key == "ORDER" for _, key in town.table.items)
        self._late = timedelta(seconds=late_seconds)
        self._random, self._per_second = random.Random(7), per_second
        self._left, self._lock = 0.0, threading.Lock()

    def __call__(self) -> None:
        """Let one call's time pass. The scan calls from several threads."""
        with self._lock:
            self._left -= self._call_seconds
            while self._left < 0:
                self._left += self._random.expovariate(self._per_second)
                self.move()
            self._town.tick(self._call_seconds)

    def move(self) -> None:
        """Commit one move; every tenth has a late clock."""
        self.moves += 1
        at = self._town.now - (self._late if self.moves % 10 == 0 else timedelta())
        self._town.deposit(f"move-of-alice-{self.moves:06}", "alice", PRICE, at=timestamp(at))


@pytest.fixture(scope="module")
def busy_town() -> Town:
    town = Town()
    town.open("alice", 1_000)
    traffic = Traffic(town, 5)
    for _ in range(5_500):
        town.tick(0.2)
        traffic.move()
    return town


@pytest.fixture
def town(busy_town: Town) -> Town:
    return Town(MemoryDynamoDb(items=busy_town.table.items), busy_town.now)


def during(traffic: Traffic, town: Town) -> Findings:
    before = traffic.moves
    findings = table_scan.check(readable(town.table, traffic))
    assert traffic.moves > before + 5
    return findings


@pytest.mark.parametrize(("per_second", "call_seconds"), HOT)
@pytest.mark.parametrize("late_seconds", [0, 3, 60])
def test_a_hot_account_is_proven(
    town: Town, per_second: float, call_seconds: float, late_seconds: float
) -> None:
    """Clocks differ, so some entries arrive behind others."""
    traffic = Traffic(town, per_second, call_seconds, late_seconds)
    traffic()  # the account's row is newer or older than the scanned statement

    findings = during(traffic, town)

    assert (findings.faults, findings.unproven, findings.in_flight) == ([], [], 1)
    assert findings.conserved


@pytest.mark.parametrize(("per_second", "call_seconds"), HOT)
@pytest.mark.parametrize("wrong", [1, -1, 10_001])
def test_a_wrong_balance_of_a_hot_account_is_found(
    town: Town, per_second: float, call_seconds: float, wrong: int
) -> None:
    row = town.row(keys.account("alice"))
    town.put(row | {"available": row["available"] + wrong})

    findings = during(Traffic(town, per_second, call_seconds), town)

    assert [fault.partition(":")[0] for fault in findings.faults] == ["ACCOUNT#alice"]
    assert findings.unproven == []


@pytest.mark.parametrize(("wrong", "verdict"), [(0, Verdict.AGREES), (PRICE, Verdict.DISAGREES)])
def test_an_entry_from_a_slow_clock_causes_no_fault(
    town: Town, wrong: int, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each read, an entry of equal price is added behind the tail."""
    row = town.row(keys.account("alice"))
    town.put(row | {"available": row["available"] + wrong})
    read, tails = statement.read, list[int | None]()

    def read_before_a_late_move(
        store: Store, account: str, tail: int | None, retention: Retention
    ) -> statement.Statement:
        found = read(store, account, tail, retention)
        tails.append(tail)
        late = timestamp(NOW + timedelta(seconds=len(tails)))
        town.deposit(f"late-move-of-alice-{len(tails)}", account, PRICE, at=late)
        return found

    monkeypatch.setattr(statement, "read", read_before_a_late_move)

    look = table_scan.look(readable(town.table), Difference(keys.account("alice")), town.now)

    assert look.verdict is verdict
    assert tuple(tails) == second_look.TAILS
