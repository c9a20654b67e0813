"""A payout's calls and units on its shortest path: reserved, sent, accepted, paid, confirmed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from benchmarks.storage import row_bytes
from settlement.bank import record
from settlement.core.ledger import keys
from settlement.payouts import hints, lines
from settlement.payouts.follow import Follower
from settlement.payouts.payout import State, Status, Word
from settlement.payouts.port import Accepted, Declared, Found, NeverSeen, Unknown
from settlement.payouts.reservation import Reservations
from tests.store.payouts.costs import LINE, RECORDED, payee
from tests.store.test_cost import GET, TRANSACT, UNIT_BYTES, Sent, operations, reported, watched
from tests.unit.payouts.rows import ACCOUNTS, KEYS, LIMITS, PAYOUT
from tests.world.bank_rows import FILE
from tests.world.environment import NOW
from tests.world.ledger import signing
from tests.world.saga import Saga

pytestmark = pytest.mark.parametrize("engine", ["server"])

ONE_MILLION_UNITS = {"write": 0.625, "read": 0.125}
"""US dollars, on demand, by kind of unit."""


@dataclass
class Bank:
    found: Found | NeverSeen | Unknown = field(default_factory=lambda: Found(Word.PAID))
    declared: Declared = field(
        default_factory=lambda: Declared(name="a-bank", window_seconds=86_400, refusals=frozenset())
    )

    def request(self, state: State) -> bytes:
        return b"order"

    def submit(self, state: State, body: bytes) -> Accepted:
        return Accepted()

    def find(self, state: State) -> Found | NeverSeen | Unknown:
        return self.found


@dataclass
class Way:
    """One payout's steps. `cost` runs them a minute apart and returns their calls."""

    saga: Saga
    bank: Bank = field(default_factory=Bank)
    at: timedelta = timedelta()

    def now(self) -> datetime:
        """A clock that advances at each reading, so that the row's index key changes."""
        self.at += timedelta(milliseconds=100)
        return NOW + self.at

    @property
    def follower(self) -> Follower:
        store = signing(self.saga.ledger, KEYS).store
        return Follower(store, self.bank, self.now, KEYS.is_proven, ACCOUNTS)

    def reserve(self) -> None:
        store = self.follower.store
        Reservations(store, LIMITS, KEYS.is_proven, self.now).reserve(PAYOUT)

    def look(self) -> None:
        self.follower.look(PAYOUT.key)

    def statement(self) -> None:
        listed = lines.listed(RECORDED)
        assert listed
        self.follower.store.transact((record.line(RECORDED, FILE), listed))

    def book(self) -> None:
        self.follower.book_listed(LINE.identity)

    def hint(self) -> None:
        hints.bring_forward(self.follower.store, PAYOUT.reference, self.now())

    def cost(self, *steps: Callable[[], None]) -> list[Sent]:
        with watched(self.saga.ledger) as calls:
            for step in steps:
                step()
                self.at += timedelta(minutes=1)
        return calls


@pytest.fixture
def way(saga: Saga) -> Way:
    payee(saga)
    return Way(saga)


def dollars_of_a_million(calls: list[Sent]) -> float:
    reads = operations(calls).count(GET)
    return reported(calls) * ONE_MILLION_UNITS["write"] + reads * ONE_MILLION_UNITS["read"]


def test_the_shortest_payout_costs_the_listed_calls_and_units(
    way: Way, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--server") == "dynamodb-local":
        pytest.skip("DynamoDB Local counts the rows of a partition as one")
    steps: dict[str, tuple[Callable[[], None], list[str], float]] = {
        "reserve": (way.reserve, [GET, GET, TRANSACT], 11),
        "send, accepted": (way.look, [GET, GET, TRANSACT, TRANSACT], 10),
        "ask, paid": (way.look, [GET, TRANSACT], 6),
        "record and list the line": (way.statement, [TRANSACT], 6),
        "book the line": (way.book, [GET, GET, GET, TRANSACT, TRANSACT], 8),
    }

    costs = {name: way.cost(step) for name, (step, *_) in steps.items()}

    assert {name: operations(calls) for name, calls in costs.items()} == {
        name: expected for name, (_, expected, _) in steps.items()
    }
    assert {name: reported(calls) for name, calls in costs.items()} == {
        name: units for name, (*_, units) in steps.items()
    }
    assert way.follower.state(PAYOUT.key).status is Status.CONFIRMED
    together = [call for calls in costs.values() for call in calls]
    assert (reported(together), operations(together).count(GET)) == (41, 8)
    assert dollars_of_a_million(together) < 27


def test_a_hint_costs_two_reads_and_one_write_at_most(way: Way) -> None:
    way.bank.found = Found(Word.ACCEPTED)
    way.cost(way.reserve, way.look)
    way.saga.ledger.put(way.follower.state(PAYOUT.key).to_row() | {"gsi1sk": "2026-11-21T00:00:00.000Z"})

    assert operations(way.cost(way.hint)) == [GET, GET, TRANSACT]
    assert operations(way.cost(way.hint)) == [GET, GET]


def test_a_look_that_learns_nothing_reads_and_writes_once(way: Way) -> None:
    way.bank.found = Unknown("500")
    way.cost(way.reserve, way.look)

    for _ in range(3):
        assert operations(way.cost(way.look)) == [GET, TRANSACT]


def test_a_look_at_a_case_costs_two_reads(way: Way) -> None:
    way.bank.found = Unknown("500")
    way.cost(way.reserve, way.look)
    way.at = timedelta(days=4)
    way.cost(way.look)
    assert way.follower.state(PAYOUT.key).status is Status.LIMBO

    assert operations(way.cost(way.look)) == [GET, GET]


def test_a_confirmed_payouts_row_fits_into_one_write_unit(way: Way) -> None:
    way.cost(way.reserve, way.look, way.look, way.statement, way.book)
    row = way.saga.ledger.row(keys.payout(PAYOUT.key))
    assert row

    assert row_bytes(row) <= UNIT_BYTES
