from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from handlers import _dependencies
from handlers.core import _payee
from settlement.core.model.errors import (
    AccountClosed,
    AccountNotFound,
    CurrencyMismatch,
    IdempotencyConflict,
    StoreUnavailable,
)
from settlement.core.model.state import AccountState
from settlement.core.model.stored import MalformedRow
from tests.handlers.conftest import HELD, Calls
from tests.world.constants import CLAIMED_AT, WIRE
from tests.world.rooms import there
from tests.world.services import Died

REFUSED = [
    (None, AccountNotFound),
    ({"currency": "USD"}, CurrencyMismatch),
    ({"closed_at": CLAIMED_AT}, AccountClosed),
]
"""Payee account, and the resulting error of a hold."""


class Reads:
    """Account reads: lagging reads return `lagging`; each read is recorded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.lagging: list[AccountState | None] = []
        account = _dependencies.store.account

        def read(name: str, *, may_lag: bool = False) -> AccountState | None:
            self.made.append("lagging" if may_lag else "consistent")
            return self.lagging.pop() if may_lag and self.lagging else account(name)

        monkeypatch.setattr(_dependencies.store, "account", read)


@pytest.fixture
def reads(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now = [1_000.0]
    monkeypatch.setattr(_payee, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


def another(number: int, **other: str) -> dict[str, str]:
    return WIRE | {"key": f"order-2026-00020{number}", "amount": "1.00", "fee": "0.00", **other}


@pytest.mark.parametrize("payee", ["bob", *there("merchants", "merchant.shop")])
@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize(("account", "error"), REFUSED)
def test_nothing_is_held_for_a_payee_who_cannot_receive(
    calls: Calls, account: dict[str, Any] | None, error: type[Exception], claimed: bool, payee: str
) -> None:
    request = WIRE | {"payee": payee}
    owner = calls.claimed(request) if claimed else "execution-1"
    calls.ledger.open("alice", 10_000)
    calls.close(payee)
    if account:
        calls.ledger.open(payee, 0, **account)
    calls.later()
    calls.counted()

    with calls.writes_nothing(), pytest.raises(error, match=r"^payee: "):
        calls("HoldFunds", request, execution=owner)

    assert calls.counted() == {"StepCalled": 1, error.__name__: 1} | ({"ClaimRepeated": 1} if claimed else {})


@pytest.mark.parametrize(
    "account", [{"frozen_at": CLAIMED_AT}, {"limbo_cases": 1}, {"available": 100_000_000}]
)
def test_money_is_held_for_a_payee_temporarily_unable_to_receive(
    funded: Calls, account: dict[str, Any]
) -> None:
    funded.ledger.open("bob", **{"available": 500, **account})

    assert funded("HoldFunds") == HELD


@pytest.mark.parametrize("closed_at", [CLAIMED_AT, 1], ids=["closed", "malformed"])
@pytest.mark.parametrize("answers", [False, True])
def test_a_committed_hold_replays_even_if_its_payee_becomes_invalid(
    funded: Calls, closed_at: Any, answers: bool
) -> None:
    if answers:
        funded("HoldFunds")
    else:
        with funded.fails("transact", Died(), after=True), pytest.raises(Died):
            funded("HoldFunds")
    funded.ledger.open("bob", 0, closed_at=closed_at)
    _payee._remembered.clear()

    with funded.writes_nothing():
        assert funded("HoldFunds") == HELD


def test_a_malformed_payee_stops_a_first_hold(funded: Calls) -> None:
    funded.ledger.open("bob", 500, closed_at=1)

    with funded.writes_nothing(), pytest.raises(MalformedRow):
        funded("HoldFunds")


@pytest.mark.parametrize(("account", "error"), REFUSED)
def test_another_payee_is_a_conflict_even_if_unable_to_receive(
    funded: Calls, account: dict[str, Any] | None, error: type[Exception]
) -> None:
    funded("HoldFunds")
    if account:
        funded.ledger.open("carol", 0, **account)

    with funded.writes_nothing(), pytest.raises(IdempotencyConflict):
        funded("HoldFunds", WIRE | {"payee": "carol"})


def test_a_payee_missing_from_a_stale_read_is_read_again(funded: Calls, reads: Reads) -> None:
    reads.lagging = [None]

    assert funded("HoldFunds") == HELD

    assert reads.made == ["lagging", "consistent"]


def test_a_payee_opened_before_the_second_read_is_accepted(calls: Calls) -> None:
    owner = calls.claimed()
    bob = calls.account("bob")
    calls.close("bob")
    calls.meanwhile(_dependencies.store, "settlement", lambda: calls.ledger.open("bob", **bob))

    assert calls("HoldFunds", execution=owner) == HELD


def test_an_environment_reads_a_payee_once_a_minute(
    funded: Calls, reads: Reads, pass_time: Callable[[float], None]
) -> None:
    for number, seconds in ((1, 0), (2, 59), (3, 0.9), (4, 0.1), (5, 59)):
        pass_time(seconds)
        funded("HoldFunds", another(number), execution=f"e-{number}")

    assert reads.made == ["lagging", "lagging"]


def test_a_closed_payee_is_refused_once_the_cache_has_expired(
    funded: Calls, pass_time: Callable[[float], None]
) -> None:
    funded("HoldFunds", another(1), execution="e-1")
    funded.ledger.open("bob", 0, closed_at=CLAIMED_AT)
    pass_time(59)
    funded("HoldFunds", another(2), execution="e-2")
    pass_time(1)

    with funded.writes_nothing(), pytest.raises(AccountClosed):
        funded("HoldFunds", another(3), execution="e-3")


def test_a_refused_payee_is_not_cached(calls: Calls, reads: Reads) -> None:
    calls.ledger.open("alice", 10_000)
    with pytest.raises(AccountNotFound):
        calls("HoldFunds")
    calls.ledger.open("bob", 0)

    assert calls("HoldFunds") == HELD

    assert reads.made == ["lagging", "consistent", "lagging"]


def test_a_cached_payee_counts_only_in_its_own_currency(funded: Calls) -> None:
    funded.ledger.open("dora", 10_000, "USD")
    funded("HoldFunds")

    with funded.writes_nothing(), pytest.raises(CurrencyMismatch, match=r"^payee: "):
        funded("HoldFunds", another(1, payer="dora", currency="USD"))


def test_the_cache_of_payees_is_bounded(funded: Calls, reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_payee, "REMEMBERED_MAX", 2)
    for name in ("carol", "dora"):
        funded.ledger.open(name, 0)

    for number, payee in enumerate(("bob", "carol", "dora", "dora", "bob")):
        funded("HoldFunds", another(number, payee=payee), execution=f"e-{number}")

    assert reads.made == ["lagging"] * 4
    assert len(_payee._remembered) <= 2


def test_a_failed_read_of_the_payee_claims_the_key(funded: Calls) -> None:
    unreachable = StoreUnavailable("DynamoDB: ReadTimeoutError")

    with funded.fails("account", unreachable), pytest.raises(StoreUnavailable) as raised:
        funded("HoldFunds")

    assert raised.value is unreachable
    assert (funded.row()["status"], funded.row()["escrow"]) == ("PROCESSING", 0)
    assert "hold_at" not in funded.row()
    assert funded("HoldFunds") == HELD
