from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.errors import (
    AccountClosed,
    AccountFrozen,
    AccountInLimbo,
    AccountNotFound,
    CurrencyMismatch,
    DestinationRefused,
    IdempotencyConflict,
    InsufficientFunds,
    LineRefused,
    PayoutFenced,
    PayoutNotFound,
    PayoutRefused,
)
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire, to_wire
from settlement.payouts import destination, moves, writes
from settlement.payouts.moves import Move
from settlement.payouts.payout import Payout, Status
from settlement.payouts.writes import Limits
from tests.unit.payouts.rows import (
    BEA,
    CASES,
    LIMITS,
    LINE,
    NOTES,
    PAYABLE,
    PAYOUT,
    RETURN_LINE,
    STATES,
    destination_rows,
)
from tests.world.bank_rows import LINE as BANK_LINE
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

FUNDS = 20_000
Reserve = Callable[..., None]


@pytest.fixture
def table() -> MemoryDynamoDb:
    table = MemoryDynamoDb()
    put(table, keys.account("alice"), available=FUNDS, currency="EUR", limbo_cases=0)
    for row in destination_rows():
        put(table, row)
    return table


@pytest.fixture
def store(table: MemoryDynamoDb) -> Store:
    return Store(table, "payouts", pause=lambda tries: None)


@pytest.fixture
def reserve(store: Store) -> Reserve:
    def act(
        payout: Payout = PAYOUT,
        limits: Limits = LIMITS,
        now: datetime = NOW,
    ) -> None:
        store.transact(writes.reserve(payout, PAYABLE, limits, now))

    return act


def put(table: MemoryDynamoDb, key: Row, **row: Any) -> None:
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


def send() -> tuple[Write, ...]:
    before = STATES[Status.RESERVED]
    return writes.move(before, moves.after(before, Move.SEND, NOW, **NOTES[Move.SEND]), Move.SEND, NOW)


def test_nothing_is_sent_to_a_destination_frozen_meanwhile(
    table: MemoryDynamoDb, store: Store, reserve: Reserve
) -> None:
    reserve()
    store.transact(destination.freeze("landlord", BEA, NOW))
    before = dict(table.items)

    with pytest.raises(DestinationRefused, match="it is frozen"):
        store.transact(send())
    assert table.items == before


def test_nothing_is_sent_to_a_missing_destination(
    table: MemoryDynamoDb, store: Store, reserve: Reserve
) -> None:
    reserve()
    del table.items["DESTINATION#landlord", "DESTINATION"]

    with pytest.raises(DestinationRefused, match="there is none"):
        store.transact(send())


@pytest.mark.parametrize(
    ("amount", "payout", "day", "which"),
    [
        *((1, 1, 1, None), (5_000, 5_000, 9_000, None), (5_000, 5_000, 5_000, None)),
        *(
            (5_001, 5_000, 9_000, "payout"),
            (2, 1, 9_000, "payout"),
            (0, 1, 1, "payout"),
            (-1, 1, 1, "payout"),
        ),
        *((5_000, 5_000, 4_999, "day"), (1, 1, 0, "day")),
    ],
    ids=str,
)
def test_the_exceeded_limit_is_named(
    table: MemoryDynamoDb, reserve: Reserve, amount: int, payout: int, day: int, which: str | None
) -> None:
    limits = Limits(payout={"EUR": payout}, day={"EUR": day})

    if which is None:
        reserve(replace(PAYOUT, amount=amount), limits)
        assert available(table) == FUNDS - amount
        return
    with pytest.raises(PayoutRefused, match=f"of a {which}$"):
        reserve(replace(PAYOUT, amount=amount), limits)


@pytest.mark.parametrize("account", [None, "carol"])
def test_money_in_suspense_goes_to_the_account_that_persons_named(
    table: MemoryDynamoDb, store: Store, account: str | None
) -> None:
    put(table, keys.account("carol"), available=0, currency="EUR")
    case = CASES["suspense"]
    put(table, {}, **case.to_row())
    told = {} if account is None else {"account": account}
    after = moves.after(case, Move.GIVE_BACK, NOW, decided={"verdict": "give-back", "case": "1", **told})

    store.transact(writes.move(case, after, Move.GIVE_BACK, NOW))

    paid = from_wire(table.items[f"ACCOUNT#{account or 'alice'}", "BALANCE"])["available"]
    assert paid == (0 if account else FUNDS) + PAYOUT.amount
    assert after.given_back_to == (account or "alice")


def test_lower_limits_do_not_refuse_a_replay(table: MemoryDynamoDb, reserve: Reserve) -> None:
    """A refused caller would pay again by other means."""
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
def test_a_repeated_move_is_replayed_but_a_send_is_fenced(
    table: MemoryDynamoDb, store: Store, move: Move
) -> None:
    before = STATES[Status.SENDING if move is Move.DOUBT else Status.RESERVED]
    table.put_item(TableName="payouts", Item=to_wire(before.to_row()))
    after = moves.after(before, move, NOW, **NOTES.get(move, {}))
    store.transact(writes.move(before, after, move, NOW))

    with pytest.raises(PayoutFenced if move is Move.SEND else AlreadyApplied):
        store.transact(writes.move(before, after, move, NOW))


def test_a_send_that_the_bank_already_knows_is_recorded_once(table: MemoryDynamoDb, store: Store) -> None:
    before = STATES[Status.RESERVED]
    put(table, before.to_row())
    known = writes.known(before, moves.after(before, Move.SEND, NOW, **NOTES[Move.SEND]))
    store.transact(known)

    with pytest.raises(PayoutFenced, match=f"^send: {PAYOUT.key} has moved on to SENDING"):
        store.transact(known)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({}, AccountNotFound),
        ({"currency": "USD"}, CurrencyMismatch),
        ({"currency": "EUR", "frozen_at": timestamp(NOW)}, AccountFrozen),
        ({"currency": "EUR", "closed_at": timestamp(NOW)}, AccountClosed),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_return_that_the_account_refuses_names_the_reason(
    table: MemoryDynamoDb, store: Store, row: dict[str, Any], error: type[Exception]
) -> None:
    del table.items["ACCOUNT#alice", "BALANCE"]
    if row:
        put(table, keys.account("alice"), available=0, **row)
    before = STATES[Status.PAID]
    put(table, before.to_row())

    with pytest.raises(error, match=r"^account: "):
        store.transact(writes.move(before, moves.after(before, Move.RETURN, NOW), Move.RETURN, NOW))


def test_a_move_of_an_older_row_is_fenced(table: MemoryDynamoDb, store: Store) -> None:
    before = STATES[Status.SENDING]
    table.put_item(TableName="payouts", Item=to_wire(STATES[Status.PAID].to_row()))

    with pytest.raises(PayoutFenced, match="has moved on to PAID"):
        store.transact(writes.move(before, moves.after(before, Move.REFUSE, NOW), Move.REFUSE, NOW))


def test_a_move_of_a_missing_payout_is_refused(store: Store) -> None:
    before = STATES[Status.SENDING]

    with pytest.raises(PayoutNotFound):
        store.transact(writes.move(before, moves.after(before, Move.DOUBT, NOW), Move.DOUBT, NOW))


@pytest.mark.parametrize("name", ["frozen_at", "closed_at"])
def test_only_a_refusal_credits_a_frozen_or_closed_account(
    table: MemoryDynamoDb, store: Store, name: str
) -> None:
    put(table, keys.account("alice"), available=0, currency="EUR", **{name: timestamp(NOW)})
    error = {"frozen_at": AccountFrozen, "closed_at": AccountClosed}[name]
    paid, sending = STATES[Status.PAID], STATES[Status.SENDING]

    table.put_item(TableName="payouts", Item=to_wire(paid.to_row()))
    with pytest.raises(error):
        store.transact(writes.move(paid, moves.after(paid, Move.RETURN, NOW), Move.RETURN, NOW))
    table.put_item(TableName="payouts", Item=to_wire(sending.to_row()))
    store.transact(writes.move(sending, moves.after(sending, Move.REFUSE, NOW), Move.REFUSE, NOW))

    assert available(table) == PAYOUT.amount


def test_a_send_refuses_a_frozen_destination(table: MemoryDynamoDb, store: Store) -> None:
    """A freeze may come between any read and the send's record."""
    before = STATES[Status.RESERVED]
    put(table, before.to_row())
    store.transact(destination.freeze("landlord", BEA, NOW))
    after = moves.after(before, Move.SEND, NOW, **NOTES[Move.SEND])

    with pytest.raises(DestinationRefused, match="it is frozen"):
        store.transact(writes.move(before, after, Move.SEND, NOW))
    assert table.items["PAYOUT#payout-2026-000101", "PAYOUT"] == to_wire(before.to_row())


@pytest.mark.parametrize("name", ["debit_line", "return_line"])
def test_the_second_of_two_concurrent_lines_is_fenced(table: MemoryDynamoDb, store: Store, name: str) -> None:
    before = STATES[Status.RETURNED]
    put(table, before.to_row())
    for identity in (LINE, RETURN_LINE):
        line = BANK_LINE._replace(identity=identity)
        noted = writes.note_line(before, moves.counted(before, NOW, **{name: identity}), line, NOW)
        if identity == LINE:
            store.transact(noted)
        else:
            with pytest.raises(PayoutFenced):
                store.transact(noted)

    assert from_wire(table.items["PAYOUT#payout-2026-000101", "PAYOUT"])[name] == LINE


def test_a_line_matched_to_an_order_confirms_no_payout(table: MemoryDynamoDb, store: Store) -> None:
    before, line = STATES[Status.PAID], BANK_LINE._replace(identity=LINE)
    put(table, before.to_row())
    put(table, keys.bank_match(LINE), order="withdraw-account-0001")
    after = moves.after(before, Move.CONFIRM, NOW, debit_line=LINE)

    with pytest.raises(LineRefused, match="it belongs to withdraw-account-0001"):
        store.transact(writes.move(before, after, Move.CONFIRM, NOW, line=line))
    assert table.items["PAYOUT#payout-2026-000101", "PAYOUT"] == to_wire(before.to_row())


def test_suspense_is_given_back_only_to_an_unfrozen_account(table: MemoryDynamoDb, store: Store) -> None:
    before = CASES["suspense"]
    put(table, before.to_row())
    give_back = writes.move(before, moves.after(before, Move.GIVE_BACK, NOW), Move.GIVE_BACK, NOW)
    put(table, keys.account("alice"), available=0, currency="EUR", frozen_at=timestamp(NOW))

    with pytest.raises(AccountFrozen):
        store.transact(give_back)
    put(table, keys.account("alice"), available=0, currency="EUR")
    store.transact(give_back)

    assert available(table) == PAYOUT.amount
    with pytest.raises(AlreadyApplied):
        store.transact(give_back)
    assert available(table) == PAYOUT.amount
