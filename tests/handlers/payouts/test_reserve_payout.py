"""ReservePayout claims the key and debits the customer once, or leaves nothing on record."""

from collections.abc import Callable
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.ledger import keys
from settlement.core.model.errors import (
    DestinationRefused,
    IdempotencyConflict,
    InsufficientFunds,
    InvalidRequest,
    PayoutRefused,
    StoreUnavailable,
)
from settlement.core.model.stored import MalformedRow
from tests.handlers.payouts.conftest import BEA, CONFIRM, IBAN, KEY, PAYEE, WIRE, Desk
from tests.world.functions import Context

RESERVED = {"key": KEY, "status": "RESERVED"}


def test_a_repeated_call_reserves_the_payout_once(desk: Desk) -> None:
    assert desk.reserve() == RESERVED
    desk.calls.later()

    with desk.calls.writes_nothing():
        assert desk.reserve() == RESERVED

    assert desk.calls.account("alice")["available"] == 51_80
    assert desk.calls.counted() == {"StepCalled": 2, "PayoutReserved": 1, "StepReplayed": 1}
    assert desk.moved() == {"alice": -48_20, "transit:EUR": 48_20}


def test_a_retry_after_a_lost_answer_debits_once(desk: Desk) -> None:
    dead = StoreUnavailable("DynamoDB: dead")
    with desk.calls.fails("transact", dead, after=True), pytest.raises(StoreUnavailable):
        desk.reserve()

    assert desk.reserve() == RESERVED
    assert desk.calls.account("alice")["available"] == 51_80


def test_two_concurrent_calls_reserve_once(desk: Desk) -> None:
    desk.calls.meanwhile(_dependencies.store, "transact", desk.reserve)

    assert desk.reserve() == RESERVED

    assert desk.calls.account("alice")["available"] == 51_80


def test_a_call_that_dies_before_its_write_leaves_nothing(desk: Desk) -> None:
    with desk.calls.dies_at_write(0), desk.calls.writes_nothing(), pytest.raises(StoreUnavailable):
        desk.reserve()

    assert desk.reserve() == RESERVED


@pytest.mark.parametrize(
    "other", [{"amount": "48.21"}, {"account": "bob"}, {"currency": "USD"}, {"destination": "another"}]
)
def test_other_content_under_the_key_is_a_conflict(desk: Desk, other: dict[str, str]) -> None:
    desk.reserve()

    with desk.calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        desk.reserve(**other)


def frozen(desk: Desk) -> None:
    desk.order("freeze-payee", {"id": "landlord"})


def unsigned(desk: Desk) -> None:
    row = desk.calls.ledger.row(keys.destination("landlord"))
    assert row
    desk.calls.ledger.put(row | {"holder": "Mallory"})


@pytest.mark.parametrize("spoil", [frozen, unsigned])
def test_a_reserved_payout_replays_even_if_its_payee_becomes_invalid(
    desk: Desk, spoil: Callable[[Desk], None]
) -> None:
    desk.reserve()
    spoil(desk)

    assert desk.reserve() == RESERVED
    with pytest.raises((DestinationRefused, MalformedRow)):
        desk.reserve(key="payout-2026-000102")


@pytest.mark.parametrize(
    ("changed", "kind", "message"),
    [
        ({"destination": "nobody"}, DestinationRefused, "there is none"),
        ({"account": "bob"}, DestinationRefused, "of another account"),
        ({"amount": "100.01"}, InsufficientFunds, "account"),
        ({"amount": "5000.01"}, PayoutRefused, "limit of a payout"),
        ({"amount": "0.00"}, InvalidRequest, "amount: must be more than 0"),
        ({"amount": 48.2}, InvalidRequest, "amount"),
        ({"currency": "XXX"}, InvalidRequest, "currency"),
        ({"key": "short"}, InvalidRequest, "key"),
        ({"destination": "\ud800"}, InvalidRequest, "destination"),
        ({"iban": IBAN}, InvalidRequest, "iban: unknown field"),
    ],
    ids=str,
)
def test_a_refused_payout_leaves_nothing_on_record(
    desk: Desk, changed: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with desk.calls.writes_nothing(), pytest.raises(kind, match=message):
        desk.reserve(**changed)

    assert desk.calls.counted() == {"StepCalled": 1, kind.__name__: 1}


@pytest.mark.parametrize("payout", [None, [], "payout", 7, {}], ids=str)
def test_an_input_without_a_payout_is_refused(desk: Desk, payout: Any) -> None:
    with pytest.raises(InvalidRequest):
        desk.calls.handlers["ReservePayout"]({"payout": payout}, Context())


def test_a_payout_above_the_daily_limit_is_refused(desk: Desk) -> None:
    desk.calls.ledger.open("alice", 1_000_000_00)
    desk.reserve(amount="5000.00")
    desk.reserve(amount="4000.00", key="payout-2026-000102")

    with pytest.raises(PayoutRefused, match="limit of a day"):
        desk.reserve(amount="0.01", key="payout-2026-000103")

    desk.calls.later(days=1)
    assert desk.reserve(amount="0.01", key="payout-2026-000103")["status"] == "RESERVED"


def test_a_payee_is_not_paid_before_its_rest_period_ends(empty: Desk) -> None:
    empty.order("add-payee", PAYEE)
    with pytest.raises(DestinationRefused, match="no second person"):
        empty.reserve()
    empty.order("confirm-payee", CONFIRM, BEA)
    empty.calls.later(hours=23, minutes=59)
    with pytest.raises(DestinationRefused, match="may be paid from"):
        empty.reserve()

    empty.calls.later(hours=24)

    assert empty.reserve()["status"] == "RESERVED"


def test_the_starting_executions_id_is_not_part_of_the_payout(desk: Desk) -> None:
    told = WIRE | {"AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID": "arn"}

    assert desk.calls.handlers["ReservePayout"]({"payout": told}, Context()) == RESERVED
