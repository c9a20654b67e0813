"""The hold: payer to escrow, and every reason to refuse it."""

import pytest

from settlement.model.errors import AccountInLimbo, AccountNotFound, CurrencyMismatch, InsufficientFunds
from settlement.model.status import Step
from tests.store.saga import ALICE, BOB, CLAIMED, ENTRIES, Saga


def test_a_hold_moves_the_amount_from_the_payer_into_escrow(saga: Saga) -> None:
    saga.before(Step.HOLD)

    entry = saga.commit(Step.HOLD)

    assert entry == ENTRIES[Step.HOLD]
    assert saga.ledger.rows() == [
        ALICE | {"available": 5180},
        BOB,
        CLAIMED | {"escrow": 4820, "steps": {"hold"}},
        ENTRIES[Step.HOLD],
    ]


def test_a_hold_may_take_the_last_minor_unit(saga: Saga) -> None:
    saga.start(payer=4820)

    saga.commit(Step.HOLD)

    assert saga.ledger.rows()[0] == ALICE | {"available": 0}


@pytest.mark.parametrize("available", [4819, 0])
def test_a_hold_is_refused_when_the_payer_has_too_little(saga: Saga, available: int) -> None:
    saga.start(payer=available)

    with saga.writes_nothing(), pytest.raises(InsufficientFunds, match=r"^payer: the account "):
        saga.commit(Step.HOLD)


def test_a_hold_is_refused_when_the_payer_has_no_account(saga: Saga) -> None:
    saga.ledger.open("bob", 500)
    saga.claim()

    with saga.writes_nothing(), pytest.raises(AccountNotFound, match=r"^payer: there is no such account$"):
        saga.commit(Step.HOLD)


@pytest.mark.parametrize("available", [10_000, 0])
def test_a_hold_is_refused_when_the_payer_is_kept_in_another_currency(saga: Saga, available: int) -> None:
    saga.ledger.open("alice", available, "USD")
    saga.claim()

    with (
        saga.writes_nothing(),
        pytest.raises(CurrencyMismatch, match=r"^payer: the account is kept in USD, not in EUR$"),
    ):
        saga.commit(Step.HOLD)


@pytest.mark.parametrize("available", [10_000, 0])
def test_a_hold_is_refused_while_the_payer_is_in_limbo(saga: Saga, available: int) -> None:
    saga.ledger.open("alice", available, limbo_keys={"order-2026-000099"})
    saga.claim()

    with saga.writes_nothing(), pytest.raises(AccountInLimbo, match=r"^payer: the account "):
        saga.commit(Step.HOLD)


def test_a_hold_commits_once_the_payer_has_left_limbo(saga: Saga) -> None:
    saga.ledger.open("alice", 10_000, limbo_keys={"order-2026-000099"})
    saga.claim()
    saga.ledger.client.update_item(
        TableName=saga.ledger.table_name,
        Key={"pk": {"S": "ACCOUNT#alice"}, "sk": {"S": "BALANCE"}},
        UpdateExpression="DELETE limbo_keys :resolved",
        ExpressionAttributeValues={":resolved": {"SS": ["order-2026-000099"]}},
    )

    saga.commit(Step.HOLD)

    assert saga.ledger.rows()[0] == ALICE | {"available": 5180}


def test_a_hold_does_not_ask_for_the_payee(saga: Saga) -> None:
    saga.ledger.open("alice", 10_000)
    saga.claim()

    saga.commit(Step.HOLD)

    assert saga.row()["escrow"] == 4820
