"""The release: escrow to payee, less the fee, under the stage's highest balance."""

import pytest

from settlement.model.errors import AccountNotFound, CapExceeded, CurrencyMismatch
from settlement.model.status import Step
from tests.store.saga import ALICE, BOB, CAP, CLAIMED, ENTRIES, Saga

NET = 4772


def test_a_release_moves_the_amount_less_the_fee_from_escrow_to_the_payee(saga: Saga) -> None:
    saga.before(Step.RELEASE)

    entry = saga.commit(Step.RELEASE)

    assert entry == ENTRIES[Step.RELEASE]
    assert saga.ledger.rows() == [
        ALICE | {"available": 5180},
        BOB | {"available": 5272},
        CLAIMED | {"escrow": 48, "steps": {"hold", "verify", "release"}, "verdict": "APPROVED"},
        ENTRIES[Step.HOLD],
        ENTRIES[Step.RELEASE],
        ENTRIES[Step.VERIFY],
    ]


def test_a_release_may_reach_the_cap_exactly(saga: Saga) -> None:
    saga.before(Step.RELEASE)
    saga.ledger.open("bob", CAP - NET)

    saga.commit(Step.RELEASE)

    assert saga.ledger.rows()[1] == BOB | {"available": CAP}


@pytest.mark.parametrize("available", [CAP - NET + 1, CAP, CAP + 1])
def test_a_release_is_refused_over_the_cap(saga: Saga, available: int) -> None:
    saga.before(Step.RELEASE)
    saga.ledger.open("bob", available)

    with saga.writes_nothing(), pytest.raises(CapExceeded, match=r"^payee: .* in EUR$"):
        saga.commit(Step.RELEASE)


@pytest.mark.parametrize(("net", "fits"), [(CAP, True), (CAP + 1, False)])
def test_a_release_to_an_empty_account_fits_only_up_to_the_whole_cap(
    saga: Saga, net: int, fits: bool
) -> None:
    large = saga.asking(amount=net + 48)
    large.start(payer=net + 48, payee=0)
    large.commit(Step.HOLD)
    large.commit(Step.VERIFY)

    if fits:
        large.commit(Step.RELEASE)
        assert large.ledger.rows()[1] == BOB | {"available": CAP}
    else:
        with large.writes_nothing(), pytest.raises(CapExceeded):
            large.commit(Step.RELEASE)


def test_a_currency_without_a_cap_is_not_bounded(saga: Saga) -> None:
    dollars = saga.asking(currency="USD")
    dollars.start(payee=CAP * 1000)
    dollars.commit(Step.HOLD)
    dollars.commit(Step.VERIFY)

    dollars.commit(Step.RELEASE)

    assert dollars.ledger.rows()[1]["available"] == CAP * 1000 + NET


def test_a_release_is_refused_when_the_payee_has_no_account(saga: Saga) -> None:
    saga.ledger.open("alice", 10_000)
    saga.claim()
    saga.commit(Step.HOLD)
    saga.commit(Step.VERIFY)

    with saga.writes_nothing(), pytest.raises(AccountNotFound, match=r"^payee: there is no such account$"):
        saga.commit(Step.RELEASE)


@pytest.mark.parametrize("available", [0, CAP])
def test_a_release_is_refused_when_the_payee_is_kept_in_another_currency(saga: Saga, available: int) -> None:
    saga.before(Step.RELEASE)
    saga.ledger.open("bob", available, "USD")

    with (
        saga.writes_nothing(),
        pytest.raises(CurrencyMismatch, match=r"^payee: the account is kept in USD, not in EUR$"),
    ):
        saga.commit(Step.RELEASE)


def test_a_payee_in_limbo_may_be_credited_and_stays_in_limbo(saga: Saga) -> None:
    saga.before(Step.RELEASE)
    saga.ledger.open("bob", 500, limbo_keys={"order-2026-000099"})

    saga.commit(Step.RELEASE)

    assert saga.ledger.rows()[1] == BOB | {"available": 5272, "limbo_keys": {"order-2026-000099"}}


def test_a_payer_who_fell_into_limbo_after_the_hold_stops_no_release(saga: Saga) -> None:
    saga.before(Step.RELEASE)
    saga.ledger.open("alice", 5180, limbo_keys={"order-2026-000099"})

    saga.commit(Step.RELEASE)

    assert saga.ledger.rows()[1] == BOB | {"available": 5272}
