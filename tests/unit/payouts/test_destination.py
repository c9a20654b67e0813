from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.errors import DestinationRefused, IdempotencyConflict, InvalidRequest
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire
from settlement.payouts import destination
from settlement.payouts.destination import Destination, parse_destination
from tests.unit.payouts.rows import ADA, ADDED, BEA, GIVEN, KEYS, PAYABLE, PAYOUT, destination_rows
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

REST = timedelta(days=1)
KEY, SECOND_KEY = ("DESTINATION#landlord", "DESTINATION"), ("DESTINATION#landlord", "CONFIRMED")


@pytest.fixture
def table() -> MemoryDynamoDb:
    return MemoryDynamoDb()


@pytest.fixture
def store(table: MemoryDynamoDb) -> Store:
    return Store(table, "payouts", pause=lambda tries: None)


def found(table: MemoryDynamoDb) -> Destination:
    rows = [from_wire(table.items[key]) if key in table.items else None for key in (KEY, SECOND_KEY)]
    assert rows[0]
    return Destination.from_rows(rows[0], rows[1])


def test_a_destination_is_added_confirmed_and_payable_after_its_rest(
    table: MemoryDynamoDb, store: Store
) -> None:
    store.transact([destination.add(GIVEN, ADA, NOW)])
    assert "no second person" in str(found(table).refusal(PAYOUT, NOW))

    store.transact([destination.confirm(found(table), GIVEN, BEA, REST, NOW)])

    assert "may be paid from" in str(found(table).refusal(PAYOUT, NOW + REST - timedelta(milliseconds=1)))
    assert found(table).refusal(PAYOUT, NOW + REST) is None
    assert "another account" in str(found(table).refusal(replace(PAYOUT, account="bob"), NOW + REST))


def test_the_person_who_added_a_destination_cannot_confirm_it() -> None:
    with pytest.raises(DestinationRefused, match=r"^by: "):
        destination.confirm(ADDED, GIVEN, ADA, REST, NOW)


@pytest.mark.parametrize("name", ["account", "iban", "holder"])
def test_a_confirmation_must_repeat_account_iban_and_holder(name: str) -> None:
    with pytest.raises(DestinationRefused, match=f"^{name}: "):
        destination.confirm(ADDED, GIVEN | {name: GIVEN[name][:-1]}, BEA, REST, NOW)


def test_a_confirmations_row_has_account_iban_and_holder() -> None:
    row = destination.confirm(ADDED, GIVEN, BEA, REST, NOW).parameters["Item"]

    assert {name: row[name] for name in destination.SHOWN} == {
        name: GIVEN[name] for name in ("account", "iban", "holder")
    }


def test_a_destination_added_with_another_iban_is_a_conflict(store: Store) -> None:
    write = destination.add(GIVEN, ADA, NOW)
    store.transact([write])

    with pytest.raises(AlreadyApplied):
        store.transact([destination.add(GIVEN, ADA, NOW + REST)])
    with pytest.raises(IdempotencyConflict):
        store.transact([destination.add(GIVEN | {"iban": "GB29NWBK60161331926819"}, ADA, NOW)])


def test_a_repeated_confirmation_keeps_the_first_payable_date(table: MemoryDynamoDb, store: Store) -> None:
    store.transact([destination.add(GIVEN, ADA, NOW)])
    added = found(table)
    store.transact([destination.confirm(added, GIVEN, BEA, REST, NOW)])

    with pytest.raises(AlreadyApplied):
        store.transact([destination.confirm(added, GIVEN, BEA, timedelta(), NOW)])
    assert found(table).payable_from == timestamp(NOW + REST)


def test_a_frozen_destination_is_frozen_for_ever(table: MemoryDynamoDb, store: Store) -> None:
    store.transact([destination.add(GIVEN, ADA, NOW)])
    store.transact(destination.freeze("landlord", ADA, NOW))

    assert "frozen" in str(found(table).refusal(PAYOUT, NOW))
    with pytest.raises(AlreadyApplied):
        store.transact(destination.freeze("landlord", ADA, NOW + REST))
    assert found(table).frozen_at == timestamp(NOW)


def test_freezing_again_is_refused_if_the_first_froze_nothing(table: MemoryDynamoDb, store: Store) -> None:
    store.transact([destination.add(GIVEN, ADA, NOW)])
    _, order = destination.freeze("landlord", ADA, NOW)
    store.transact([order])

    with pytest.raises(DestinationRefused, match="freeze it again"):
        store.transact(destination.freeze("landlord", BEA, NOW))
    store.transact(destination.freeze("landlord", BEA, NOW + REST))
    assert found(table).frozen_at == timestamp(NOW + REST)


def test_a_missing_destination_is_not_frozen(store: Store) -> None:
    with pytest.raises(DestinationRefused, match="there is none"):
        store.transact(destination.freeze("landlord", ADA, NOW))


def test_a_frozen_destination_is_not_confirmed() -> None:
    frozen = replace(ADDED, frozen_at=timestamp(NOW))

    with pytest.raises(DestinationRefused, match="it is frozen"):
        destination.confirm(frozen, GIVEN, BEA, REST, NOW)


def test_a_freeze_that_races_a_confirmation_wins(table: MemoryDynamoDb, store: Store) -> None:
    store.transact([destination.add(GIVEN, ADA, NOW)])
    confirmation = destination.confirm(found(table), GIVEN, BEA, REST, NOW)
    store.transact(destination.freeze("landlord", ADA, NOW))

    store.transact([confirmation])

    assert "frozen" in str(found(table).refusal(PAYOUT, NOW + REST))


@pytest.mark.parametrize("changed", ["account", "holder"])
def test_a_destination_changed_by_hand_is_malformed(
    table: MemoryDynamoDb, store: Store, changed: str
) -> None:
    store.transact([destination.add(GIVEN, ADA, NOW)])
    confirmation = destination.confirm(found(table), GIVEN, BEA, REST, NOW)
    table.items[KEY] = {**table.items[KEY], changed: {"S": "Mallory"}}
    store.transact([confirmation])

    with pytest.raises(MalformedRow, match="another bank account was confirmed"):
        found(table)


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
def test_the_error_of_a_malformed_destination_names_it(changed: dict[str, Any], named: str) -> None:
    assert parse_destination(GIVEN) == GIVEN
    with pytest.raises(InvalidRequest, match=f"^{named}: "):
        parse_destination(GIVEN | changed)


@pytest.mark.parametrize("raw", [None, [], "x", {}])
def test_a_destination_is_an_object_with_all_fields(raw: object) -> None:
    with pytest.raises(InvalidRequest):
        parse_destination(raw)


ROW, SECOND = destination_rows()
NAMES = ("account", "iban", "holder", "added_by", "added_at")
SECOND_NAMES = ("account", "iban", "holder", "confirmed_by", "payable_from")
OF_ANY_TEXT = ("account", "added_by", "confirmed_by")


def test_both_rows_make_a_destination_payable() -> None:
    assert Destination.from_rows(ROW, SECOND) == PAYABLE
    assert Destination.from_rows(ROW, None) == ADDED


@pytest.mark.parametrize("name", [*NAMES, "frozen_at"])
@pytest.mark.parametrize("wrong", [None, 1, set(), "\n"], ids=repr)
def test_a_row_with_a_wrong_value_is_malformed(name: str, wrong: Any) -> None:
    if wrong != "\n" or name not in OF_ANY_TEXT:
        with pytest.raises(MalformedRow):
            Destination.from_rows(ROW | {name: wrong}, None)


@pytest.mark.parametrize("name", SECOND_NAMES)
@pytest.mark.parametrize("wrong", [None, 1, set(), "\n"], ids=repr)
def test_a_confirmation_with_a_wrong_value_is_malformed(name: str, wrong: Any) -> None:
    if wrong != "\n" or name not in OF_ANY_TEXT:
        with pytest.raises(MalformedRow):
            Destination.from_rows(ROW, SECOND | {name: wrong})


@pytest.mark.parametrize("name", NAMES)
def test_a_row_without_a_value_is_malformed(name: str) -> None:
    with pytest.raises(MalformedRow):
        Destination.from_rows({key: value for key, value in ROW.items() if key != name}, None)


@pytest.mark.parametrize("name", SECOND_NAMES)
def test_a_confirmation_without_a_value_is_malformed(name: str) -> None:
    with pytest.raises(MalformedRow):
        Destination.from_rows(ROW, {key: value for key, value in SECOND.items() if key != name})


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"iban": "GB29NWBK60161331926819"}, "another bank account"),
        ({"holder": "Mallory"}, "another bank account"),
        ({"account": "mallory"}, "another bank account"),
        ({"confirmed_by": ADA.by}, "one person added and confirmed"),
        ({"confirmed_by": ADA.by.replace("ada", "Ada")}, "one person added and confirmed"),
    ],
    ids=str,
)
def test_a_self_confirmation_or_another_bank_account_is_malformed(changed: dict[str, str], why: str) -> None:
    with pytest.raises(MalformedRow, match=why):
        Destination.from_rows(ROW, SECOND | changed)


# Signatures


def test_a_freeze_and_a_payout_leave_the_signature_valid() -> None:
    changed = {"frozen_at": timestamp(NOW), "frozen_by": BEA.by, "last_payout": PAYOUT.key}

    assert KEYS.is_proven(ROW)
    assert KEYS.is_proven(SECOND)
    assert KEYS.is_proven(ROW | changed)


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_destination_has_no_valid_signature(name: str) -> None:
    assert not KEYS.is_proven(ROW | {name: f"{ROW[name]}0"})
    assert not KEYS.is_proven({key: value for key, value in ROW.items() if key != name})


@pytest.mark.parametrize("name", SECOND_NAMES)
def test_a_changed_confirmation_has_no_valid_signature(name: str) -> None:
    assert not KEYS.is_proven(SECOND | {name: f"{SECOND[name]}0"})
    assert not KEYS.is_proven({key: value for key, value in SECOND.items() if key != name})


@pytest.mark.parametrize("one", [ROW, SECOND], ids=["added", "confirmed"])
def test_a_signature_is_valid_for_one_destination_only(one: dict[str, Any]) -> None:
    assert not KEYS.is_proven({**one, **keys.destination("another")})
    assert not KEYS.is_proven({**one, **keys.destination_confirmed("another")})
    assert not KEYS.is_proven({key: value for key, value in one.items() if key != "signature"})
