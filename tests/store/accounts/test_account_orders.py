from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from settlement.accounts.administration import carry_out
from settlement.accounts.order import AccountOrder
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import StoreUnavailable
from tests.store.rivals import Act, assert_one_order
from tests.unit.vectors import CLOSE, DEPOSIT, FREEZE, OPENING, UNFREEZE, WITHDRAWAL
from tests.world.books import assert_conserved
from tests.world.environment import NOW
from tests.world.saga import LATER, POSTED_AT, Saga

EMPTYING = replace(WITHDRAWAL, amount=10_000)
COURSE = (OPENING, DEPOSIT, FREEZE, UNFREEZE, EMPTYING, CLOSE)


def give(saga: Saga, order: AccountOrder, at: Any = NOW) -> Row:
    return saga.ledger.store.record(carry_out(order, at, saga.config))


def account(saga: Saga) -> Row:
    found = saga.ledger.row(keys.account("alice"))
    assert found
    return found


def reach(saga: Saga, order: AccountOrder) -> None:
    for earlier in COURSE[: COURSE.index(order)]:
        give(saga, earlier)


@pytest.mark.parametrize("order", COURSE, ids=lambda order: order.order)
def test_a_repeated_order_finds_its_row_and_writes_nothing(
    saga: Saga, counted: list[str], order: AccountOrder
) -> None:
    reach(saga, order)

    first = give(saga, order)

    with saga.writes_nothing():
        assert give(saga, order, LATER) == first == saga.ledger.row(keys.order(order.key))
    assert counted == ["StepReplayed"]
    assert_conserved(saga.ledger.rows())


def test_a_sequence_of_orders_leaves_exactly_the_expected_rows(saga: Saga) -> None:
    for order in COURSE:
        give(saga, order)

    assert account(saga) == {
        **keys.account("alice"),
        "available": 0,
        "currency": "EUR",
        "opened_at": POSTED_AT,
        "closed_at": POSTED_AT,
        "last_order": CLOSE.key,
    }
    entries = [row for row in saga.ledger.rows() if keys.is_entry(row)]
    assert [(row["step"], row["side"], row["debit"], row["credit"]) for row in entries] == [
        ("deposit", "credit", "external:EUR", "alice"),
        ("withdraw", "debit", "alice", "external:EUR"),
    ]
    assert_conserved(saga.ledger.rows())


@pytest.mark.parametrize("effect", [True, False], ids=["the effect is there", "it is not"])
def test_an_order_whose_answer_was_lost_can_be_repeated(
    saga: Saga, monkeypatch: pytest.MonkeyPatch, effect: bool
) -> None:
    give(saga, OPENING)
    client = saga.ledger.store.client
    send = client.transact_write_items

    def lose(**parameters: Any) -> Any:
        if effect:
            send(**parameters)
        raise ReadTimeoutError(endpoint_url="https://dynamodb.invalid")

    monkeypatch.setattr(client, "transact_write_items", lose)
    with pytest.raises(StoreUnavailable):
        give(saga, DEPOSIT)
    monkeypatch.setattr(client, "transact_write_items", send)

    recorded = give(saga, DEPOSIT, LATER)

    assert (recorded["posted_at"] == POSTED_AT) is effect
    assert account(saga)["available"] == 10_000
    assert_conserved(saga.ledger.rows())


# Races


def ordering(order: AccountOrder, **changes: Any) -> Act:
    return lambda saga, seen: give(saga, replace(order, **changes))


RACES: dict[str, tuple[list[AccountOrder], list[Act]]] = {
    "deposits of one key": ([OPENING], [ordering(DEPOSIT)]),
    "contents of one key": ([OPENING], [ordering(DEPOSIT), ordering(DEPOSIT, reason="another")]),
    "more withdrawals than there is money for": (
        [OPENING, replace(DEPOSIT, amount=1_200)],
        [ordering(WITHDRAWAL, key=f"withdraw-account-{number:04}") for number in range(3)],
    ),
    "a close and a deposit": ([OPENING], [ordering(CLOSE), ordering(DEPOSIT)]),
}


@pytest.mark.parametrize("engine", ["server"])
@pytest.mark.parametrize(("before", "acts"), RACES.values(), ids=RACES)
def test_concurrent_account_orders_end_as_if_executed_one_by_one(
    saga: Saga, before: list[AccountOrder], acts: list[Act]
) -> None:
    assert_one_order(saga, lambda saga: [give(saga, order) for order in before], acts)
