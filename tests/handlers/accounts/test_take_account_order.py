import pytest

from settlement.core.ledger import keys
from settlement.core.model import errors
from settlement.core.model.errors import StoreUnavailable
from tests.handlers.conftest import Calls
from tests.world.books import assert_conserved
from tests.world.constants import CLAIMED_AT, LATER_AT

PERSON = {"by": "arn:aws:iam::123456789012:user/ada", "reason": "as agreed"}
OPEN = {"key": "open-account-0001", "order": "open", "account": "alice", "currency": "EUR", **PERSON}
DEPOSIT = {
    **PERSON,
    "key": "deposit-account-0001",
    "order": "deposit",
    "account": "alice",
    "currency": "EUR",
    "amount": "48.2",
    "reference": "bank-0001",
}
FREEZE, UNFREEZE, CLOSE = (
    {"key": f"{order}-account-0001", "order": order, "account": "alice", **PERSON}
    for order in ("freeze", "unfreeze", "close")
)
WITHDRAW = DEPOSIT | {"key": "withdraw-account-0001", "order": "withdraw", "amount": "48.20"}
COURSE = (OPEN, DEPOSIT, FREEZE, UNFREEZE, WITHDRAW, CLOSE)
STATE = {"account": "alice", "currency": "EUR", "in_limbo": False, "opened_at": CLAIMED_AT}
STATES = (
    {"available": "0.00"},
    {"available": "48.20"},
    {"available": "48.20", "frozen_at": CLAIMED_AT},
    {"available": "48.20"},
    {"available": "0.00"},
    {"available": "0.00", "closed_at": CLAIMED_AT},
)


def reach(calls: Calls, order: dict[str, str]) -> None:
    for earlier in COURSE[: COURSE.index(order)]:
        calls.administer(earlier)


@pytest.mark.parametrize(
    ("order", "state"), list(zip(COURSE, STATES, strict=True)), ids=lambda one: one.get("order")
)
def test_an_answer_has_the_recorded_order_and_the_resulting_account(
    calls: Calls, order: dict[str, str], state: dict[str, str]
) -> None:
    reach(calls, order)
    calls.counted()

    answer = calls.administer(order)

    canonical = order | ({"amount": "48.20"} if "amount" in order else {})
    assert answer == {"order": canonical | {"posted_at": CLAIMED_AT}, "account": STATE | state}
    assert calls.counted() == {"StepCalled": 1}
    calls.later()
    with calls.writes_nothing():
        assert calls.administer(order) == answer
    assert calls.counted() == {"StepCalled": 1, "StepReplayed": 1}
    assert_conserved(calls.ledger.rows())


def test_a_repeated_order_returns_the_accounts_current_state(calls: Calls) -> None:
    reach(calls, CLOSE)
    calls.later()
    calls.administer(CLOSE)

    again = calls.administer(DEPOSIT)

    assert again["order"]["posted_at"] == CLAIMED_AT
    assert again["account"] == STATE | {"available": "0.00", "closed_at": LATER_AT}


@pytest.mark.parametrize(
    ("order", "available", "error"),
    [(DEPOSIT, 100_000_000 - 4819, errors.CapExceeded), (WITHDRAW, 4819, errors.InsufficientFunds)],
)
def test_an_order_that_the_balance_forbids_is_refused(
    calls: Calls, order: dict[str, str], available: int, error: type[Exception]
) -> None:
    calls.ledger.open("alice", available)
    calls.counted()

    with calls.writes_nothing(), pytest.raises(error, match=r"^account: "):
        calls.administer(order)

    assert calls.counted() == {"StepCalled": 1, error.__name__: 1}


def test_a_repeated_order_returns_the_account_after_a_failed_read(calls: Calls) -> None:
    calls.administer(OPEN)
    unreachable = StoreUnavailable("DynamoDB: unreachable")

    with calls.fails("account", unreachable), pytest.raises(StoreUnavailable):
        calls.administer(DEPOSIT)

    assert calls.administer(DEPOSIT)["account"] == STATE | {"available": "48.20"}


def test_a_repeated_order_on_a_deleted_account_is_not_found(calls: Calls) -> None:
    calls.administer(OPEN)
    calls.ledger.delete(keys.account("alice"))

    with calls.writes_nothing(), pytest.raises(errors.AccountNotFound):
        calls.administer(OPEN)
