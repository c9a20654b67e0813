"""The handlers' DynamoDB calls and write units: five writes and two reads on the happy path.

Units follow AWS's rule. Refused writes cost units, too, and are counted apart.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmarks.storage import row_bytes
from handlers import _dependencies
from settlement.aws import step_functions as _step_functions
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import (
    AccountNotFound,
    AlreadyClaimed,
    InReview,
    InsufficientFunds,
    KycRejected,
)
from settlement.core.store.wire import from_wire
from tests.handlers.conftest import Calls
from tests.world.constants import (
    CLAIMED_AT,
    EXECUTION_ARN,
    ORDER,
    REJECTED_BY_KYC,
    REPLAYED,
    SPENT,
    STALLED_ORDER,
    WIRE,
)
from tests.world.functions import FORWARD
from tests.world.ledger import Ledger, adds, signing
from tests.world.memory_dynamodb import MemoryDynamoDb
from tests.world.provider import IN_REVIEW, REJECTED
from tests.world.rooms import needs, there
from tests.world.services import signed, text

GET, PUT, UPDATE, TRANSACT = "get_item", "put_item", "update_item", "transact_write_items"
QUERY = "query"
LAGGING_GET = "get_item, which may lag"
"""An eventually consistent read, at half the price of a consistent one."""

TO_SHOP = WIRE | {"payee": "merchant.shop"}
ORDERED = (GET, TRANSACT, GET)
"""Calls of a reversal order, which reads the row before and after."""

UNIT_BYTES = 1024


@dataclass
class Meter:
    """In-memory client that records calls and sums write units.

    `refused` are units of failed conditions and cancelled transactions.
    """

    client: MemoryDynamoDb
    operations: list[str] = field(default_factory=list)
    units: int = 0
    refused: int = 0

    def __getattr__(self, operation: str) -> Any:
        def call(**parameters: Any) -> Any:
            lags = operation == GET and not parameters["ConsistentRead"]
            self.operations.append(LAGGING_GET if lags else operation)
            writes = _writes(operation, parameters)
            before = [self._row(key) for key in writes]
            try:
                answer = getattr(self.client, operation)(**parameters)
            except Exception:
                self.refused += len(writes) * (2 if operation == TRANSACT else 1)
                raise
            for key, old in zip(writes, before, strict=True):
                self.units += _units(old, self._row(key), is_transaction=operation == TRANSACT)
            return answer

        return call

    def take(self) -> tuple[list[str], int, int]:
        """Return operations, committed units and refused units since the last call."""
        taken = self.operations, self.units, self.refused
        self.operations, self.units, self.refused = [], 0, 0
        return taken

    def _row(self, key: tuple[str, str]) -> Row:
        return from_wire(self.client.items.get(key, {}))


def _writes(operation: str, parameters: Any) -> list[tuple[str, str]]:
    if operation == TRANSACT:
        writes = [write for item in parameters["TransactItems"] for write in item.values()]
    else:
        writes = [parameters] if operation in (PUT, UPDATE) else []
    found = [write.get("Item") or write["Key"] for write in writes]
    return [(key["pk"]["S"], key["sk"]["S"]) for key in found]


def _units(before: Row, after: Row, *, is_transaction: bool) -> int:
    size = max(row_bytes(before), row_bytes(after))
    places = [(row.get("gsi1pk"), row.get("gsi1sk")) for row in (before, after)]
    moved = sum(place[0] is not None for place in places) if places[0] != places[1] else 0
    return -(-size // UNIT_BYTES) * (2 if is_transaction else 1) + moved


@pytest.fixture
def meter(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Meter:
    """The meter of all calls, on a stage whose entries expire: expiry costs no unit."""
    made = Meter(calls.ledger.client)
    metered = signing(Ledger(made, calls.ledger.table_name, calls.ledger.store))
    monkeypatch.setattr(metered.store, "client", made)
    monkeypatch.setattr(metered.store, "_adds", adds(days=400))
    monkeypatch.setattr(_dependencies, "store", metered.store)
    return made


def execute(calls: Calls, *states: str, settlement: Any = WIRE) -> None:
    for state in states:
        calls(state, settlement, claimed_at=CLAIMED_AT)


def open_shop(calls: Calls) -> None:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("merchant.shop", 0)


def pay_shop(calls: Calls, last: str = "CollectFee") -> None:
    open_shop(calls)
    execute(calls, *FORWARD[: FORWARD.index(last) + 1], settlement=TO_SHOP)


def sweep_shop(calls: Calls) -> None:
    pay_shop(calls)
    calls.sweep("merchant.shop")


def replayed(calls: Calls) -> None:
    with pytest.raises(AlreadyClaimed):
        calls("HoldFunds", execution="execution-2")
    calls.report(execution="execution-2", **REPLAYED)


def rejected(calls: Calls) -> None:
    with pytest.raises(InsufficientFunds):
        calls("HoldFunds")
    calls("RejectSettlement", error=SPENT)


def open_poor(calls: Calls) -> None:
    calls.ledger.open("alice", 4819)
    calls.ledger.open("bob", 500)


def refused_for_its_payee(calls: Calls) -> None:
    with pytest.raises(AccountNotFound):
        calls("HoldFunds")
    calls("RejectSettlement", error={"Error": "AccountNotFound", "Cause": "payee: there is no such account"})


def reversed_(calls: Calls, **cause: Any) -> None:
    calls.unwind(calls.begin(**cause))


def fall_and_await(calls: Calls, found: Any) -> None:
    _step_functions._client.machines.executions.clear()  # the nonce of the tests is always the same
    calls.limbo(found)
    calls.alert(found)
    calls("AwaitResolution", token="AQC" * 300, execution_arn=EXECUTION_ARN)
    calls.resolve("retry", case=found["case"])


def second_case(calls: Calls) -> None:
    calls.after("ReleaseFunds")
    fall_and_await(calls, calls.begin(error=REJECTED_BY_KYC))


def queued(calls: Calls) -> None:
    calls("HoldFunds", execution=calls.claimed())


FALL = [GET, TRANSACT, GET, GET, PUT, GET, TRANSACT, GET, GET]
CASES = [
    pytest.param(
        lambda calls: calls.before("HoldFunds"),
        lambda calls: execute(calls, *FORWARD),
        ([LAGGING_GET, TRANSACT, GET, PUT, UPDATE, TRANSACT, TRANSACT], 20, 0),
        id="the happy path: five writes, and reads before the hold and before the provider is asked",
    ),
    pytest.param(
        lambda calls: calls.after("HoldFunds"),
        lambda calls: calls("HoldFunds", WIRE | {"key": "order-2026-000102"}),
        ([TRANSACT], 7, 0),
        id="a hold for a payee whom the environment has just seen: no read",
    ),
    pytest.param(
        lambda calls: calls.ledger.open("alice", 10_000),
        refused_for_its_payee,
        ([LAGGING_GET, GET, GET, PUT], 1, 0),
        id="a rejection for the payee: three reads, and a tombstone",
    ),
    *there(
        "merchants",
        pytest.param(
            open_shop,
            lambda calls: execute(calls, *FORWARD, settlement=TO_SHOP),
            ([LAGGING_GET, TRANSACT, GET, PUT, UPDATE, GET, TRANSACT, TRANSACT], 18, 0),
            id="a settlement with a merchant: no balance of the payee, and a read of its account",
        ),
        pytest.param(
            pay_shop,
            lambda calls: calls.sweep("merchant.shop"),
            ([GET, GET, QUERY, TRANSACT], 4, 0),
            id="a sweep: the account, what is folded, the entries, one transaction for all of them",
        ),
        pytest.param(
            sweep_shop,
            lambda calls: calls.sweep("merchant.shop"),
            ([GET, GET, QUERY], 0, 0),
            id="a sweep that finds nothing new",
        ),
        pytest.param(
            lambda calls: pay_shop(calls, "ReleaseFunds"),
            lambda calls: calls.reverse(
                "ReclaimFunds", calls.begin(settlement=TO_SHOP, reversal=STALLED_ORDER), TO_SHOP
            ),
            ([*ORDERED, UPDATE, GET, GET, GET, QUERY, TRANSACT, TRANSACT], 6 + 4 + 6, 0),
            id="a merchant's refund, which sweeps first",
        ),
    ),
    pytest.param(
        lambda calls: calls.after("CollectFee"),
        lambda calls: execute(calls, *FORWARD[1:]),
        ([GET, TRANSACT, TRANSACT], 0, 10),
        id="replayed steps: one call each",
    ),
    pytest.param(
        lambda calls: calls.after("CollectFee"),
        replayed,
        ([TRANSACT, GET], 0, 6),
        id="a replay: a refused claim and a read",
    ),
    pytest.param(
        open_poor,
        rejected,
        ([LAGGING_GET, TRANSACT, PUT], 1, 6),
        id="a rejected settlement: a refused hold and a tombstone",
    ),
    pytest.param(
        lambda calls: calls("RejectSettlement", error=SPENT),
        lambda calls: calls("RejectSettlement", error=SPENT),
        ([PUT], 0, 1),
        id="a rejection that comes again: a refused tombstone",
    ),
    pytest.param(
        lambda calls: None,
        queued,
        ([PUT, GET, LAGGING_GET, TRANSACT], 2 + 6, 0),
        marks=needs("doors"),
        id="a hold that the queue has claimed: its claim, a read of it, the hold",
    ),
    pytest.param(
        lambda calls: calls.claimed(),
        lambda calls: calls.begin(error=REJECTED_BY_KYC),
        ([PUT, UPDATE], 2, 1),
        id="a claimed key of which nothing is held, and its failure: two writes for the fence",
    ),
    pytest.param(
        lambda calls: calls.claimed(),
        lambda calls: reversed_(calls, reversal=STALLED_ORDER),
        ([*ORDERED, UPDATE, UPDATE], 5 + 1 + 2, 0),
        id="a claimed key of which nothing is held, and a person's order",
    ),
    pytest.param(
        lambda calls: calls.after("HoldFunds"),
        lambda calls: reversed_(calls, error=REJECTED_BY_KYC),
        ([PUT, UPDATE, TRANSACT], 1 + 7, 1),
        id="a compensation after the hold: two writes for the fence, and the hold's reversal",
    ),
    pytest.param(
        lambda calls: calls.after("ReleaseFunds"),
        lambda calls: reversed_(calls, error=REJECTED_BY_KYC),
        ([PUT, UPDATE, TRANSACT, TRANSACT], 1 + 6 + 7, 1),
        id="a compensation after the release: one write more",
    ),
    pytest.param(
        lambda calls: calls.after("CollectFee"),
        lambda calls: reversed_(calls, reversal=ORDER),
        ([*ORDERED, UPDATE, TRANSACT, TRANSACT, TRANSACT], 6 + 1 + 4 + 6 + 7, 0),
        id="a reversal on order: one a reversal, and two to begin",
    ),
    pytest.param(
        lambda calls: calls.reopened("VoidHold"),
        lambda calls: calls.reverse("ReclaimFunds", {}),
        ([TRANSACT], 0, 6),
        id="a reversal that has committed: one refused write",
    ),
    pytest.param(
        lambda calls: calls.after("ReleaseFunds"),
        lambda calls: fall_and_await(calls, calls.begin(error=REJECTED_BY_KYC)),
        ([PUT, UPDATE, *FALL], 1 + 8 + 2 + 9, 1),
        id="a case of LIMBO: a read and a write each to enter, wait and decide, and two reads to wake",
    ),
    pytest.param(
        second_case,
        lambda calls: fall_and_await(calls, calls.begin()),
        ([UPDATE, *FALL], 1 + 8 + 2 + 9, 0),
        id="the next case of LIMBO: the same, however many there were",
    ),
    *(
        pytest.param(
            lambda calls: calls.fall(),
            lambda calls, decision=decision: calls.decide(decision),
            ([GET, TRANSACT, GET], units, 0),
            id=f"a decision: {decision}",
        )
        for decision, units in {"retry": 9, "write-off": 11, "complete": 10}.items()
    ),
    pytest.param(
        lambda calls: calls.fall(),
        lambda calls: calls.begin(),
        ([UPDATE], 0, 1),
        id="a resumed compensation: a write",
    ),
    pytest.param(
        lambda calls: (calls.fall(), calls.decide("retry")),
        lambda calls: calls.begin(order="resolve:1"),
        ([GET, UPDATE], 1, 0),
        id="a start with the name of a decision: a read before it",
    ),
    pytest.param(
        lambda calls: (calls.fall(), calls.decide("retry")),
        lambda calls: calls.decide("retry"),
        ([GET, GET, GET, GET], 0, 0),
        id="a decision that comes again: the row twice, the evidence, and the execution that waits",
    ),
]
"""Each case's arrangement, calls, expected operations, committed units and refused units."""


@pytest.mark.parametrize(("arrange", "act", "expected"), CASES)
def test_each_function_makes_only_the_expected_calls_and_write_units(
    calls: Calls,
    meter: Meter,
    arrange: Callable[[Calls], object],
    act: Callable[[Calls], object],
    expected: tuple[list[str], int, int],
) -> None:
    arrange(calls)
    meter.take()

    act(calls)

    assert meter.take() == expected


def test_a_rejected_payment_costs_a_hold_and_a_void(calls: Calls, meter: Meter) -> None:
    calls.before("HoldFunds")
    calls.provider.answer = REJECTED
    meter.take()

    calls("HoldFunds")
    with pytest.raises(KycRejected):
        calls("VerifyKyc")
    reversed_(calls, error=REJECTED_BY_KYC, owner="execution-1")
    calls.report(error=REJECTED_BY_KYC)

    verify = [GET, PUT, UPDATE, GET, GET]  # the last two for the reference
    expected = [LAGGING_GET, TRANSACT, *verify, PUT, UPDATE, TRANSACT, GET]
    assert meter.take() == (expected, 7 + 2 + 1 + 7, 1)


def test_a_review_costs_three_calls_and_its_webhook_two(calls: Calls, meter: Meter) -> None:
    calls.before("VerifyKyc")
    calls.provider.answer = IN_REVIEW
    meter.take()

    for _ in range(2):
        with suppress(InReview):
            calls("VerifyKyc")
    calls.decided(signed())

    asked = [GET, GET]  # the second one looks for a verdict on record, which would count
    assert meter.take() == ([*asked, UPDATE, GET, GET, TRANSACT], 3 + 8, 0)


@needs("doors")
def test_recovery_costs_partition_queries_and_two_calls_per_settlement(calls: Calls, meter: Meter) -> None:
    calls.after("HoldFunds")
    calls.receive(text(WIRE | {"key": "order-2026-000102"}))
    meter.take()
    calls.later(seconds=30)

    calls.recover()

    made, units, refused = meter.take()
    assert made.count("query") == 3 * keys.IN_FLIGHT_SHARDS + 1  # LIMBO; each other, its head, its reviews
    assert [name for name in made if name != "query"] == [GET, UPDATE] * 2
    assert (units, refused) == (2 * 3, 0)
