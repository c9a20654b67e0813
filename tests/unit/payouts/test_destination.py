from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.errors import DestinationRefused, IdempotencyConflict, InvalidRequest
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire
from settlement.payouts import destination
from settlement.payouts.destination import Destination, parse_destination
from tests.unit.payouts.rows import ADA, ADDED, BEA, GIVEN, PAYABLE, PAYOUT
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

REST = timedelta(days=1)
KEY = ("DESTINATION#landlord", "DESTINATION")


@pytest.fixture
def table() -> MemoryDynamoDb:
    return MemoryDynamoDb()


@pytest.fixture
def store(table: MemoryDynamoDb) -> Store:
    return Store(table, "payouts", pause=lambda tries: None)


def found(table: MemoryDynamoDb) -> Destination:
    return Destination.from_row(from_wire(table.items[KEY]))


def test_a_destination_is_added_confirmed_and_payable_after_its_rest(
    table: MemoryDynamoDb, store: Store
) -> None:
    store.transact([destination.add(GIVEN, ADA, NOW)])
    assert "no second person" in str(found(table).refusal(PAYOUT, NOW))

    store.transact([destination.confirm(found(table), GIVEN["iban"], BEA, REST, NOW)])

    assert "may be paid from" in str(found(table).refusal(PAYOUT, NOW + REST - timedelta(milliseconds=1)))
    assert found(table).refusal(PAYOUT, NOW + REST) is None
    assert "another account" in str(found(table).refusal(replace(PAYOUT, account="bob"), NOW + REST))


def test_who_added_a_destination_does_not_confirm_it() -> None:
    with pytest.raises(DestinationRefused, match=r"^by: "):
        destination.confirm(ADDED, ADDED.iban, ADA, REST, NOW)


def test_a_confirmation_names_the_whole_iban() -> None:
    with pytest.raises(DestinationRefused, match=r"^iban: "):
        destination.confirm(ADDED, ADDED.iban[:-1], BEA, REST, NOW)


def test_another_iban_is_another_destination(store: Store) -> None:
    write = destination.add(GIVEN, ADA, NOW)
    store.transact([write])

    with pytest.raises(AlreadyApplied):
        store.transact([destination.add(GIVEN, ADA, NOW + REST)])
    with pytest.raises(IdempotencyConflict):
        store.transact([destination.add(GIVEN | {"iban": "GB29NWBK60161331926819"}, ADA, NOW)])


def test_a_confirmation_is_not_repeated_and_the_rest_stays(table: MemoryDynamoDb, store: Store) -> None:
    store.transact([destination.add(GIVEN, ADA, NOW)])
    added = found(table)
    store.transact([destination.confirm(added, added.iban, BEA, REST, NOW)])

    with pytest.raises(AlreadyApplied):
        store.transact([destination.confirm(added, added.iban, BEA, timedelta(), NOW)])
    assert found(table).payable_from == timestamp(NOW + REST)


def test_a_frozen_destination_is_frozen_for_ever(table: MemoryDynamoDb, store: Store) -> None:
    store.transact([destination.add(GIVEN, ADA, NOW)])
    added = found(table)
    store.transact([destination.freeze("landlord", ADA, NOW)])

    assert "frozen" in str(found(table).refusal(PAYOUT, NOW))
    with pytest.raises(AlreadyApplied):
        store.transact([destination.freeze("landlord", ADA, NOW + REST)])
    with pytest.raises(DestinationRefused, match="frozen"):
        store.transact([destination.confirm(added, added.iban, BEA, REST, NOW)])


@pytest.mark.parametrize("act", ["confirm", "freeze"])
def test_a_destination_that_is_missing_is_named(store: Store, act: str) -> None:
    write = {
        "confirm": destination.confirm(ADDED, ADDED.iban, BEA, REST, NOW),
        "freeze": destination.freeze("landlord", ADA, NOW),
    }[act]

    with pytest.raises(DestinationRefused, match="there is none"):
        store.transact([write])


def test_a_destination_changed_by_hand_is_not_confirmed(table: MemoryDynamoDb, store: Store) -> None:
    store.transact([destination.add(GIVEN, ADA, NOW)])
    added = found(table)
    table.items[KEY] = {**table.items[KEY], "holder": {"S": "Mallory"}}

    with pytest.raises(DestinationRefused, match="has changed"):
        store.transact([destination.confirm(added, added.iban, BEA, REST, NOW)])


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"iban": "DE89370400440532013001"}, "iban"),
        ({"iban": 7}, "iban"),
        ({"holder": ""}, "holder"),
        ({"id": "a#b"}, "id"),
        ({"account": "fees:EUR"}, "account"),
        ({"bic": "X"}, "bic"),
        ({"reason": "a\nb"}, "reason"),
    ],
)
def test_a_malformed_destination_is_named(changed: dict[str, Any], named: str) -> None:
    assert parse_destination(GIVEN) == GIVEN
    with pytest.raises(InvalidRequest, match=f"^{named}: "):
        parse_destination(GIVEN | changed)


@pytest.mark.parametrize("raw", [None, [], "x", {}])
def test_a_destination_is_an_object_with_all_fields(raw: object) -> None:
    with pytest.raises(InvalidRequest):
        parse_destination(raw)


ROW = {"pk": "DESTINATION#landlord", "sk": "DESTINATION"} | {
    name: value for name, value in vars(PAYABLE).items() if value is not None and name != "id"
}


@pytest.mark.parametrize("name", sorted(ROW.keys() - {"pk", "sk"}))
@pytest.mark.parametrize("wrong", [None, 1, set(), "\n"], ids=repr)
def test_a_row_with_a_wrong_value_is_malformed(name: str, wrong: Any) -> None:
    assert Destination.from_row(ROW) == PAYABLE
    if wrong != "\n" or name not in ("account", "added_by", "confirmed_by"):
        with pytest.raises(MalformedRow):
            Destination.from_row(ROW | {name: wrong})


@pytest.mark.parametrize("name", sorted(ROW.keys() - {"pk", "sk"}))
def test_a_row_without_a_value_is_malformed(name: str) -> None:
    with pytest.raises(MalformedRow):
        Destination.from_row({key: value for key, value in ROW.items() if key != name})
