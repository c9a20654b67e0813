from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import (
    AccountFrozen,
    DestinationRefused,
    IdempotencyConflict,
    InsufficientFunds,
    InvalidRequest,
    PayoutRefused,
)
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import MalformedRow
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire, to_wire
from settlement.payouts import destination, moves, writes
from settlement.payouts.moves import Move
from settlement.payouts.payout import State, Status
from settlement.payouts.reservation import Reservations, parse_payout
from settlement.payouts.writes import Limits
from tests.unit.payouts.rows import ADA, BEA, KEYS, LIMITS, PAYABLE, PAYOUT, STATES, destination_rows
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

FUNDS = 20_000
ADDED, CONFIRMED = destination_rows()
CONFIG = StageConfig(
    currencies={"EUR": 2, "JPY": 0},
    highest_balances={},
    fee_basis_points=0,
    deadline_seconds=900,
    recover_after_seconds=30,
)
RAW = {"key": PAYOUT.key, "account": "alice", "amount": "48.20", "currency": "EUR", "destination": "landlord"}

Reserving = Callable[..., Reservations]


@pytest.fixture
def table() -> MemoryDynamoDb:
    table = MemoryDynamoDb()
    put(table, {**keys.account("alice"), "available": FUNDS, "currency": "EUR"}, ADDED, CONFIRMED)
    return table


@pytest.fixture
def store(table: MemoryDynamoDb) -> Store:
    return Store(table, "payouts", pause=lambda tries: None, adds=[KEYS.signed])


@pytest.fixture
def reserving(store: Store) -> Reserving:
    def reservations(limits: Limits = LIMITS, later: timedelta = timedelta()) -> Reservations:
        return Reservations(store, limits, KEYS.is_proven, lambda: NOW + later)

    return reservations


def put(table: MemoryDynamoDb, *rows: Row) -> None:
    for row in rows:
        table.put_item(TableName="payouts", Item=to_wire(row))


def available(table: MemoryDynamoDb) -> int:
    return int(from_wire(table.items["ACCOUNT#alice", "BALANCE"])["available"])


# Reservations


def test_a_payout_is_reserved_once(table: MemoryDynamoDb, reserving: Reserving) -> None:
    first = reserving().reserve(PAYOUT)
    again = reserving(later=timedelta(days=40)).reserve(PAYOUT)

    assert first == (STATES[Status.RESERVED], False)
    assert again == (STATES[Status.RESERVED], True)
    assert available(table) == FUNDS - PAYOUT.amount


def test_a_reservations_signed_entry_has_its_bank_accounts_hash(
    table: MemoryDynamoDb, reserving: Reserving
) -> None:
    reserving().reserve(PAYOUT)

    (entry,) = (from_wire(item) for key, item in table.items.items() if key[0] == "ENTRIES#alice")
    assert entry["paid_to"] == PAYABLE.paid_to
    assert KEYS.is_proven(entry)
    assert not KEYS.is_proven({**entry, "paid_to": "0" * 64})


def test_a_bank_accounts_hash_covers_all_its_parts() -> None:
    told = {
        PAYABLE.paid_to,
        replace(PAYABLE, id="another").paid_to,
        replace(PAYABLE, iban="GB29NWBK60161331926819").paid_to,
        replace(PAYABLE, holder="Mallory").paid_to,
    }

    assert len(told) == 4


def frozen(store: Store, table: MemoryDynamoDb) -> None:
    store.transact(destination.freeze("landlord", BEA, NOW))


def missing(store: Store, table: MemoryDynamoDb) -> None:
    del table.items["DESTINATION#landlord", "DESTINATION"]


def unconfirmed(store: Store, table: MemoryDynamoDb) -> None:
    del table.items["DESTINATION#landlord", "CONFIRMED"]


def unsigned(store: Store, table: MemoryDynamoDb) -> None:
    put(table, {name: ADDED[name] for name in ADDED if name != "signature"})


def unsigned_confirmation(store: Store, table: MemoryDynamoDb) -> None:
    put(table, {name: CONFIRMED[name] for name in CONFIRMED if name != "signature"})


def altered(store: Store, table: MemoryDynamoDb) -> None:
    for row in (ADDED, CONFIRMED):
        put(table, {**row, "iban": "GB29NWBK60161331926819"})


def moved_from_another(store: Store, table: MemoryDynamoDb) -> None:
    put(table, {**KEYS.signed({**CONFIRMED, "pk": "DESTINATION#another"}), "pk": CONFIRMED["pk"]})


def confirmed_by_the_same_person(store: Store, table: MemoryDynamoDb) -> None:
    put(table, KEYS.signed({**CONFIRMED, "confirmed_by": ADA.by}))


def of_another_account(store: Store, table: MemoryDynamoDb) -> None:
    for row in (ADDED, CONFIRMED):
        put(table, KEYS.signed({**row, "account": "bob"}))


def confirmed_for_another_account(store: Store, table: MemoryDynamoDb) -> None:
    put(table, KEYS.signed({**CONFIRMED, "account": "bob"}))


def at_rest(store: Store, table: MemoryDynamoDb) -> None:
    put(table, KEYS.signed({**CONFIRMED, "payable_from": "2026-11-20T12:00:00.124Z"}))


def malformed(store: Store, table: MemoryDynamoDb) -> None:
    put(table, KEYS.signed({**ADDED, "added_at": "yesterday"}))


UNPAYABLE: dict[Callable[[Store, MemoryDynamoDb], None], tuple[type[Exception], str]] = {
    frozen: (DestinationRefused, "it is frozen"),
    missing: (DestinationRefused, "there is none"),
    unconfirmed: (DestinationRefused, "no second person"),
    unsigned: (MalformedRow, "no valid signature"),
    unsigned_confirmation: (MalformedRow, "no valid signature"),
    altered: (MalformedRow, "no valid signature"),
    moved_from_another: (MalformedRow, "no valid signature"),
    confirmed_by_the_same_person: (MalformedRow, "one person added and confirmed"),
    of_another_account: (DestinationRefused, "another account"),
    confirmed_for_another_account: (MalformedRow, "another bank account was confirmed"),
    at_rest: (DestinationRefused, "may be paid from"),
    malformed: (MalformedRow, "times must be in UTC"),
}


@pytest.mark.parametrize("change", UNPAYABLE, ids=lambda change: change.__name__)
def test_an_unpayable_destination_reserves_nothing(
    table: MemoryDynamoDb, store: Store, reserving: Reserving, change: Callable[..., None]
) -> None:
    error, why = UNPAYABLE[change]
    change(store, table)
    before = dict(table.items)

    with pytest.raises(error, match=why):
        reserving().reserve(PAYOUT)
    assert table.items == before


@pytest.mark.parametrize("change", UNPAYABLE, ids=lambda change: change.__name__)
def test_a_reserved_payout_is_replayed_despite_an_unpayable_destination(
    table: MemoryDynamoDb, store: Store, reserving: Reserving, change: Callable[..., None]
) -> None:
    """A refused caller would pay again by other means."""
    reserving().reserve(PAYOUT)
    change(store, table)

    assert reserving().reserve(PAYOUT) == (STATES[Status.RESERVED], True)
    assert available(table) == FUNDS - PAYOUT.amount


@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("changed", [{"amount": 1}, {"account": "bob"}, {"destination": "another"}], ids=str)
def test_a_key_with_other_content_is_a_conflict(
    store: Store, table: MemoryDynamoDb, reserving: Reserving, changed: dict[str, Any], is_frozen: bool
) -> None:
    reserving().reserve(PAYOUT)
    if is_frozen:
        frozen(store, table)

    with pytest.raises(IdempotencyConflict):
        reserving().reserve(replace(PAYOUT, **changed))


def test_a_replay_shows_the_payouts_current_state(table: MemoryDynamoDb, reserving: Reserving) -> None:
    reserving().reserve(PAYOUT)
    put(table, STATES[Status.PAID].to_row())

    assert reserving().reserve(PAYOUT) == (STATES[Status.PAID], True)


def test_a_malformed_row_is_not_replayed(store: Store, table: MemoryDynamoDb, reserving: Reserving) -> None:
    row = STATES[Status.RESERVED].to_row()
    put(table, {**row, "iban": "no iban"})

    for change in (None, frozen):
        if change:
            change(store, table)
        with pytest.raises(MalformedRow):
            reserving().reserve(PAYOUT)


@pytest.mark.parametrize(
    ("account", "limits", "error"),
    [
        ({"available": 1}, LIMITS, InsufficientFunds),
        ({"available": FUNDS, "frozen_at": "2026"}, LIMITS, AccountFrozen),
        ({"available": FUNDS}, Limits(payout={"EUR": 1}, day={"EUR": 9_000}), PayoutRefused),
        ({"available": FUNDS}, Limits(), PayoutRefused),
    ],
    ids=["funds", "frozen", "limit", "no limit"],
)
def test_a_refused_payout_leaves_its_key_free(
    table: MemoryDynamoDb, reserving: Reserving, account: Row, limits: Limits, error: type[Exception]
) -> None:
    put(table, {**keys.account("alice"), "currency": "EUR", **account})
    before = dict(table.items)

    with pytest.raises(error):
        reserving(limits).reserve(PAYOUT)

    assert table.items == before
    put(table, {**keys.account("alice"), "currency": "EUR", "available": FUNDS})
    assert not reserving().reserve(PAYOUT)[1]


def test_a_freeze_that_races_the_reservation_stops_its_send(
    table: MemoryDynamoDb, store: Store, reserving: Reserving
) -> None:
    reservations = reserving()

    def is_proven(row: Row) -> bool:  # the last read before the transaction
        if "frozen_at" not in from_wire(table.items["DESTINATION#landlord", "DESTINATION"]):
            frozen(store, table)
        return KEYS.is_proven(row)

    reservations.is_proven = is_proven

    before, _ = reservations.reserve(PAYOUT)
    after = moves.after(before, Move.SEND, NOW)
    with pytest.raises(DestinationRefused, match="it is frozen"):
        store.transact(writes.move(before, after, Move.SEND, NOW))


# Requests


def test_a_payout_is_parsed() -> None:
    assert parse_payout(RAW, CONFIG) == PAYOUT
    assert parse_payout(RAW | {"AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID": "arn"}, CONFIG) == PAYOUT


def test_an_amount_has_the_decimals_of_its_currency() -> None:
    yen = parse_payout(RAW | {"amount": "4820", "currency": "JPY"}, CONFIG)

    assert yen == replace(PAYOUT, currency="JPY")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"key": "short"}, "key: must be a string that matches"),
        ({"key": 1}, "key: must be a string that matches"),
        ({"account": "fees:EUR"}, "account: must be a string that matches"),
        ({"account": None}, "account: must be a string that matches"),
        ({"destination": "a#b"}, "destination: must be a string that matches"),
        ({"currency": "USD"}, "currency: must be one of EUR, JPY"),
        ({"currency": 1}, "currency: must be one of EUR, JPY"),
        ({"currency": {}}, "currency: must be one of EUR, JPY"),
        ({"amount": 48.2}, "amount: must be a decimal string"),
        ({"amount": 4820}, "amount: must be a decimal string"),
        ({"amount": "-1"}, "amount: must be a decimal string"),
        ({"amount": "1.234"}, "amount: must be a decimal string"),
        ({"amount": "1e3"}, "amount: must be a decimal string"),
        ({"amount": "1" * 14}, "amount: must be a decimal string"),
        ({"amount": "0"}, "amount: must be more than 0"),
        ({"amount": "0.00"}, "amount: must be more than 0"),
        ({"iban": PAYABLE.iban}, "iban: "),
    ],
    ids=str,
)
def test_a_malformed_payout_is_named(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_payout(RAW | changed, CONFIG)
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize("name", RAW)
def test_a_missing_field_is_named(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{name}: missing$"):
        parse_payout({key: value for key, value in RAW.items() if key != name}, CONFIG)


@pytest.mark.parametrize("raw", [None, [], "x", 1])
def test_a_payout_must_be_a_json_object(raw: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^payout: must be a JSON object"):
        parse_payout(raw, CONFIG)


def test_all_wrong_fields_are_named_at_once() -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_payout({"key": "short", "amount": "0", "currency": "EUR", "more": 1}, CONFIG)

    for named in ("account: missing", "amount: must", "destination: missing", "key: must", "more: "):
        assert named in str(refused.value)


def test_a_reservation_stores_a_readable_payout_and_its_reference(
    table: MemoryDynamoDb, reserving: Reserving
) -> None:
    reserving().reserve(PAYOUT)

    row = from_wire(table.items[f"PAYOUT#{PAYOUT.key}", "PAYOUT"])
    assert State.from_row(row) == STATES[Status.RESERVED]
    assert from_wire(table.items[f"PAYOUT_REFERENCE#{PAYOUT.reference}", "REFERENCE"])["key"] == PAYOUT.key
