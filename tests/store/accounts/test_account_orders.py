from collections.abc import Callable
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError

from settlement.accounts.administration import carry_out
from settlement.accounts.order import AccountOrder
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import errors
from settlement.core.model.errors import IdempotencyConflict, StoreUnavailable
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.store.dynamodb import Store
from tests.store.rivals import at_once
from tests.unit.vectors import CLOSE, DEPOSIT, FREEZE, OPENING, UNFREEZE, WITHDRAWAL
from tests.world.books import assert_conserved
from tests.world.environment import NOW
from tests.world.ledger import Ledger
from tests.world.saga import LATER, POSTED_AT, Saga

EMPTYING = replace(WITHDRAWAL, amount=10_000)
COURSE = (OPENING, DEPOSIT, FREEZE, UNFREEZE, EMPTYING, CLOSE)

RACES = 5


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


@pytest.mark.parametrize("order", COURSE, ids=lambda order: order.order)
def test_another_order_of_the_same_key_conflicts_and_writes_nothing(saga: Saga, order: AccountOrder) -> None:
    reach(saga, order)
    give(saga, order)

    for other in (
        replace(order, reason="another"),
        replace(order, by="another"),
        replace(order, account="bob"),
    ):
        with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match=order.key):
            give(saga, other)


@pytest.mark.parametrize("order", COURSE, ids=lambda order: order.order)
def test_a_refused_order_leaves_its_key_free(saga: Saga, order: AccountOrder) -> None:
    missing = replace(order, account="bob") if order is not OPENING else order
    if order is OPENING:
        give(saga, replace(OPENING, key="another-opening-0001"))

    with saga.writes_nothing(), pytest.raises(errors.Refusal, match=r"^account: "):
        give(saga, missing)

    if order is not OPENING:
        reach(saga, order)
        assert give(saga, order)["order"] == order.order


def test_a_course_of_orders_leaves_the_rows_of_the_contract(saga: Saga) -> None:
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


def test_a_deposit_to_a_merchant_is_available_at_once(saga: Saga) -> None:
    give(saga, replace(OPENING, account="merchant.shop"))

    give(saga, replace(DEPOSIT, account="merchant.shop", amount=200_000_000))

    found = saga.ledger.row(keys.account("merchant.shop"))
    assert found
    assert found["available"] == 200_000_000
    assert_conserved(saga.ledger.rows())


def test_an_orders_key_does_not_meet_a_settlements(saga: Saga) -> None:
    saga.reach(None)
    order = replace(DEPOSIT, key=saga.settlement.key)

    give(saga, order)

    saga.send(Step.HOLD)
    names = {row["sk"] for row in saga.ledger.rows() if keys.is_entry(row) and order.key in row["sk"]}
    assert names == {f"{POSTED_AT}#{order.key}:{step}" for step in ("deposit", "hold")}
    assert_conserved(saga.ledger.rows())


@pytest.mark.parametrize("effect", [True, False], ids=["the effect is there", "it is not"])
def test_an_order_whose_answer_was_lost_is_given_again(
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


def rivals(ledger: Ledger, count: int) -> list[Store]:
    client = boto3.client("dynamodb", endpoint_url=ledger.client.meta.endpoint_url)
    return [Store(client, ledger.table_name, lambda failed_tries: None) for _ in range(count)]


def race(saga: Saga, *orders: AccountOrder) -> list[Any]:
    stores = rivals(saga.ledger, len(orders))
    calls: list[Callable[[], Any]] = [
        lambda store=store, order=order: store.record(carry_out(order, NOW, saga.config))  # type: ignore[misc]
        for store, order in zip(stores, orders, strict=True)
    ]
    return at_once(calls)


@pytest.mark.parametrize("engine", ["server"])
def test_two_deposits_of_one_key_at_once_are_one(saga: Saga) -> None:
    give(saga, OPENING)

    for number in range(RACES):
        order = replace(DEPOSIT, key=f"deposit-account-{number:04}")
        first, second = race(saga, order, order)
        assert first == second
        assert account(saga)["available"] == 10_000 * (number + 1)
    assert_conserved(saga.ledger.rows())


@pytest.mark.parametrize("engine", ["server"])
def test_of_two_concurrent_contents_of_one_key_one_takes_effect(saga: Saga) -> None:
    give(saga, OPENING)

    for number in range(RACES):
        order = replace(DEPOSIT, key=f"deposit-account-{number:04}")
        answers = race(saga, order, replace(order, amount=10_000, reason="another"))
        assert sum(isinstance(answer, IdempotencyConflict) for answer in answers) == 1
        assert account(saga)["available"] == 10_000 * (number + 1)


@pytest.mark.parametrize("engine", ["server"])
def test_an_account_is_withdrawn_from_no_further_than_to_zero(saga: Saga) -> None:
    give(saga, OPENING)
    give(saga, replace(DEPOSIT, amount=1_200))
    orders = [replace(WITHDRAWAL, key=f"withdraw-account-{number:04}") for number in range(4)]

    answers = race(saga, *orders)

    assert sum(isinstance(answer, errors.InsufficientFunds) for answer in answers) == 2
    assert account(saga)["available"] == 200
    assert_conserved(saga.ledger.rows())


@pytest.mark.parametrize("engine", ["server"])
def test_of_a_concurrent_close_and_deposit_exactly_one_commits(saga: Saga) -> None:
    for number in range(RACES):
        name = f"rival-{number}"
        give(saga, replace(OPENING, account=name, key=f"open-account-{number:04}"))
        closed, deposited = race(
            saga,
            replace(CLOSE, account=name, key=f"close-account-{number:04}"),
            replace(DEPOSIT, account=name, key=f"deposit-account-{number:04}"),
        )
        refused = [one for one in (closed, deposited) if isinstance(one, errors.Refusal)]
        assert [type(one) for one in refused] in ([errors.AccountClosed], [errors.AccountNotEmpty])


# The accounts' states in the protocol


def test_a_frozen_payer_places_no_hold_until_it_is_unfrozen(saga: Saga) -> None:
    saga.fund()
    give(saga, FREEZE)

    with saga.writes_nothing(), pytest.raises(errors.AccountFrozen, match=r"^payer: "):
        saga.claim_and_hold()

    give(saga, UNFREEZE)
    saga.claim_and_hold()


@pytest.mark.parametrize(
    "state", [{"frozen_at": POSTED_AT}, {"closed_at": POSTED_AT}], ids=["frozen", "closed"]
)
def test_a_reversal_debits_and_credits_accounts_not_in_use(saga: Saga, state: Row) -> None:
    saga.begun(Step.FEE)
    for name in ("alice", "bob"):
        found = saga.ledger.row(keys.account(name))
        assert found
        saga.ledger.put(found | state)

    for step in REVERSIBLE:
        saga.reverse(step)

    assert saga.state().status is Status.COMPENSATED
    assert (account(saga)["available"], account(saga).get("closed_at")) == (10_000, state.get("closed_at"))


def test_a_closed_payee_gets_no_release_and_payer_is_refunded(saga: Saga) -> None:
    saga.reach(Step.VERIFY)
    give(saga, replace(EMPTYING, account="bob", amount=500))
    give(saga, replace(CLOSE, account="bob"))

    with saga.writes_nothing(), pytest.raises(errors.AccountClosed, match=r"^payee: "):
        saga.send(Step.RELEASE)

    saga.begin()
    saga.reverse(Step.HOLD)
    assert account(saga)["available"] == 10_000
    assert_conserved(saga.ledger.rows())


def test_a_frozen_payee_gets_the_release(saga: Saga) -> None:
    saga.reach(Step.VERIFY)
    give(saga, replace(FREEZE, account="bob"))

    saga.send(Step.RELEASE)

    assert saga.ledger.row(keys.account("bob")) == {
        **keys.account("bob"),
        "available": 500 + saga.settlement.net,
        "currency": "EUR",
        "opened_at": POSTED_AT,
        "frozen_at": POSTED_AT,
        "last_order": FREEZE.key,
    }


def test_a_closed_account_that_a_reversal_credits_is_emptied_again(saga: Saga) -> None:
    saga.reach(Step.VERIFY)
    give(saga, replace(EMPTYING, amount=10_000 - saga.settlement.amount))
    give(saga, CLOSE)
    saga.begin()
    saga.reverse(Step.HOLD)

    for order, refusal in ((DEPOSIT, errors.AccountClosed), (FREEZE, errors.AccountClosed)):
        with saga.writes_nothing(), pytest.raises(refusal):
            give(saga, order)
    give(saga, replace(WITHDRAWAL, key="withdraw-account-0002", amount=saga.settlement.amount))

    assert account(saga)["available"] == 0
    assert_conserved(saga.ledger.rows())


def test_a_limbo_case_blocks_a_closed_account_until_resolved(saga: Saga) -> None:
    """The payee has spent the release and closed the account."""
    saga.begun(Step.FEE)
    give(saga, replace(EMPTYING, account="bob", amount=500 + saga.settlement.net))
    give(saga, replace(CLOSE, account="bob"))
    saga.reverse(Step.FEE)

    saga.enter()

    found = saga.ledger.row(keys.account("bob"))
    assert found
    assert found["limbo_cases"] == 1
    with saga.writes_nothing(), pytest.raises(errors.AccountInLimbo):
        give(saga, replace(WITHDRAWAL, account="bob", key="withdraw-account-0002"))
