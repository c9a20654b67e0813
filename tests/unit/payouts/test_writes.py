from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.errors import (
    AccountClosed,
    AccountFrozen,
    AccountInLimbo,
    AccountNotFound,
    CurrencyMismatch,
    DestinationRefused,
    IdempotencyConflict,
    InsufficientFunds,
    PayoutFenced,
    PayoutNotFound,
    PayoutRefused,
)
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire, to_wire
from settlement.payouts import moves, writes
from settlement.payouts.destination import Destination
from settlement.payouts.moves import Move
from settlement.payouts.payout import Payout, Status
from settlement.payouts.writes import Limits
from tests.unit.payouts.rows import LIMITS, NOTES, PAYABLE, PAYOUT, STATES
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

FUNDS = 20_000
Reserve = Callable[..., None]


@pytest.fixture
def table() -> MemoryDynamoDb:
    table = MemoryDynamoDb()
    put(table, keys.account("alice"), available=FUNDS, currency="EUR", limbo_cases=0)
    put(table, keys.destination("landlord"), **of(PAYABLE))
    return table


@pytest.fixture
def store(table: MemoryDynamoDb) -> Store:
    return Store(table, "payouts", pause=lambda tries: None)


@pytest.fixture
def reserve(store: Store) -> Reserve:
    def act(
        payout: Payout = PAYOUT,
        destination: Destination = PAYABLE,
        limits: Limits = LIMITS,
        now: datetime = NOW,
    ) -> None:
        store.transact(writes.reserve(payout, destination, limits, now))

    return act


def of(destination: Destination) -> dict[str, Any]:
    return {name: value for name, value in vars(destination).items() if value is not None and name != "id"}


def put(table: MemoryDynamoDb, key: dict[str, str], **row: Any) -> None:
    table.put_item(TableName="payouts", Item=to_wire({**key, **row}))


def available(table: MemoryDynamoDb) -> int:
    return int(from_wire(table.items["ACCOUNT#alice", "BALANCE"])["available"])


def test_a_reservation_takes_the_money_once(table: MemoryDynamoDb, reserve: Reserve) -> None:
    reserve()
    with pytest.raises(AlreadyApplied) as replay:
        reserve(now=NOW + timedelta(days=40))

    assert replay.value.found["request_hash"] == PAYOUT.request_hash
    assert available(table) == FUNDS - PAYOUT.amount


@pytest.mark.parametrize("changed", [{"amount": 1}, {"account": "bob"}, {"destination": "another"}], ids=str)
def test_a_key_with_other_content_is_a_conflict(reserve: Reserve, changed: dict[str, Any]) -> None:
    reserve()

    with pytest.raises(IdempotencyConflict):
        reserve(replace(PAYOUT, **changed))


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"available": PAYOUT.amount - 1, "currency": "EUR"}, InsufficientFunds),
        ({"available": FUNDS, "currency": "USD"}, CurrencyMismatch),
        ({"available": FUNDS, "currency": "EUR", "frozen_at": timestamp(NOW)}, AccountFrozen),
        ({"available": FUNDS, "currency": "EUR", "closed_at": timestamp(NOW)}, AccountClosed),
        ({"available": FUNDS, "currency": "EUR", "limbo_cases": 1}, AccountInLimbo),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_account_that_cannot_pay_reserves_nothing(
    table: MemoryDynamoDb, reserve: Reserve, row: dict[str, Any], error: type[Exception]
) -> None:
    put(table, keys.account("alice"), **row)
    before = dict(table.items)

    with pytest.raises(error):
        reserve()

    assert table.items == before


def test_an_account_that_is_missing_reserves_nothing(table: MemoryDynamoDb, reserve: Reserve) -> None:
    del table.items["ACCOUNT#alice", "BALANCE"]

    with pytest.raises(AccountNotFound):
        reserve()


@pytest.mark.parametrize(
    ("destination", "why"),
    [
        (replace(PAYABLE, account="bob"), "another account"),
        (replace(PAYABLE, frozen_at=timestamp(NOW)), "frozen"),
        (replace(PAYABLE, confirmed_by=None, payable_from=None), "no second person"),
        (replace(PAYABLE, payable_from=timestamp(NOW + timedelta(milliseconds=1))), "may be paid from"),
        (replace(PAYABLE, iban="GB29NWBK60161331926819"), "changed"),
        (replace(PAYABLE, holder="Mallory"), "changed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_destination_that_may_not_be_paid_is_named(
    table: MemoryDynamoDb, reserve: Reserve, destination: Destination, why: str
) -> None:
    put(table, keys.destination("landlord"), **of(destination))

    with pytest.raises(DestinationRefused, match=why):
        reserve()
    assert available(table) == FUNDS


def test_a_destination_that_is_missing_is_refused(table: MemoryDynamoDb, reserve: Reserve) -> None:
    del table.items["DESTINATION#landlord", "DESTINATION"]

    with pytest.raises(DestinationRefused, match="there is none"):
        reserve()


@pytest.mark.parametrize("amount", [0, -1, 5_001])
def test_an_amount_beyond_a_payouts_limit_is_refused(reserve: Reserve, amount: int) -> None:
    with pytest.raises(PayoutRefused):
        reserve(replace(PAYOUT, amount=amount))


def test_a_replay_is_a_replay_under_lower_limits(table: MemoryDynamoDb, reserve: Reserve) -> None:
    """Refused, its caller would pay by another way, too."""
    reserve()

    with pytest.raises(AlreadyApplied):
        reserve(limits=Limits(payout={"EUR": 1}, day={"EUR": 1}))
    assert available(table) == FUNDS - PAYOUT.amount


def test_a_currency_without_a_limit_is_not_paid(reserve: Reserve) -> None:
    for limits in (Limits(day=LIMITS.day), Limits(payout=LIMITS.payout)):
        with pytest.raises(PayoutRefused):
            reserve(limits=limits)


def test_a_days_payouts_stay_within_its_limit(table: MemoryDynamoDb, reserve: Reserve) -> None:
    first, second, third = (
        replace(PAYOUT, key=f"payout-of-a-day-{number:04}", amount=amount)
        for number, amount in enumerate((4_500, 4_501, 4_500))
    )
    reserve(first)

    with pytest.raises(PayoutRefused, match="day"):
        reserve(second)
    reserve(third)
    reserve(second, now=NOW + timedelta(days=1))

    assert available(table) == FUNDS - 4_500 - 4_501 - 4_500


# Moves


@pytest.mark.parametrize("move", [Move.DOUBT, Move.SEND])
def test_a_repeated_move_is_a_replay_but_never_a_send(
    table: MemoryDynamoDb, store: Store, move: Move
) -> None:
    before = STATES[Status.SENDING if move is Move.DOUBT else Status.RESERVED]
    table.put_item(TableName="payouts", Item=to_wire(before.to_row()))
    after = moves.after(before, move, NOW, **NOTES.get(move, {}))
    store.transact(writes.move(before, after, move, NOW))

    with pytest.raises(PayoutFenced if move is Move.SEND else AlreadyApplied):
        store.transact(writes.move(before, after, move, NOW))


def test_a_move_of_an_older_row_is_fenced(table: MemoryDynamoDb, store: Store) -> None:
    before = STATES[Status.SENDING]
    table.put_item(TableName="payouts", Item=to_wire(STATES[Status.PAID].to_row()))

    with pytest.raises(PayoutFenced, match="has moved on to PAID"):
        store.transact(writes.move(before, moves.after(before, Move.REFUSE, NOW), Move.REFUSE, NOW))


def test_a_move_of_a_missing_row_is_named(store: Store) -> None:
    before = STATES[Status.SENDING]

    with pytest.raises(PayoutNotFound):
        store.transact(writes.move(before, moves.after(before, Move.DOUBT, NOW), Move.DOUBT, NOW))


@pytest.mark.parametrize("name", ["frozen_at", "closed_at"])
def test_only_a_refusal_goes_back_to_any_account(table: MemoryDynamoDb, store: Store, name: str) -> None:
    put(table, keys.account("alice"), available=0, currency="EUR", **{name: timestamp(NOW)})
    error = {"frozen_at": AccountFrozen, "closed_at": AccountClosed}[name]
    paid, sending = STATES[Status.PAID], STATES[Status.SENDING]

    table.put_item(TableName="payouts", Item=to_wire(paid.to_row()))
    with pytest.raises(error):
        store.transact(writes.move(paid, moves.after(paid, Move.RETURN, NOW), Move.RETURN, NOW))
    table.put_item(TableName="payouts", Item=to_wire(sending.to_row()))
    store.transact(writes.move(sending, moves.after(sending, Move.REFUSE, NOW), Move.REFUSE, NOW))

    assert available(table) == PAYOUT.amount
