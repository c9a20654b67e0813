"""VoidHold: the payer gets the amount back, which finishes the settlement."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import (
    AccountNotFound,
    CurrencyMismatch,
    EscrowMismatch,
    IdempotencyConflict,
    StepFenced,
)
from settlement.model.status import Status
from tests.handlers.calls import KEY, LATER_AT, OTHER_CONTENT, REJECTED_BY_KYC, Calls

MISMATCH = "^compensate:hold: the escrow holds something else than was held$"
INDEX = ("gsi1pk", "gsi1sk")


def without_index(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in INDEX}


@pytest.mark.parametrize("state", ["HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"])
def test_the_first_call_refunds_the_amount_and_finishes(
    calls: Calls, later: Callable[[], None], state: str
) -> None:
    if state == "CollectFee":
        found = calls.reopened("VoidHold")
    else:
        calls.after(state)
        found = calls.begin(error=REJECTED_BY_KYC)
        calls.unwind(found, "VoidHold")
    before = calls.row()
    later()

    assert calls.reverse("VoidHold", found) is None

    assert calls.entry("compensate:hold") == {
        "posted_at": LATER_AT,
        "debit": f"escrow:{KEY}",
        "credit": "alice",
        "side": "credit",
        "amount": 4820,
        "currency": "EUR",
        "gsi1pk": "ACCOUNT#alice",
        "gsi1sk": f"{LATER_AT}#{KEY}:compensate:hold",
    }
    assert calls.row() == without_index(before) | {
        "status": "COMPENSATED",
        "escrow": 0,
        "reversed": {*before.get("reversed", ()), "hold"},
        "finished_at": LATER_AT,
    }
    assert calls.account("alice") == {"available": 10_000, "currency": "EUR"}
    assert calls.account("bob") == {"available": 500, "currency": "EUR"}


def test_a_settlement_of_which_nothing_was_held_is_finished_too(
    calls: Calls, later: Callable[[], None]
) -> None:
    calls.before("HoldFunds")
    found = calls.begin(error=REJECTED_BY_KYC)
    before = calls.row()
    later()

    calls.reverse("VoidHold", found)

    assert calls.row() == without_index(before) | {"status": "COMPENSATED", "finished_at": LATER_AT}


def test_a_settlement_is_not_finished_as_empty_while_something_is_held(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.begin(error=REJECTED_BY_KYC)

    with calls.writes_nothing(), pytest.raises(StepFenced, match=r"^compensate:hold: .*\[hold\] committed"):
        calls.reverse("VoidHold", {"steps": [], "reversed": []})


@pytest.mark.parametrize("before", ["RefundFee", "ReclaimFunds"])
def test_nothing_is_refunded_before_the_escrow_holds_all_of_it(
    calls: Calls, before: str, counted: Callable[[], dict[str, float]]
) -> None:
    found = calls.reopened(before)
    counted()

    with calls.writes_nothing(), pytest.raises(EscrowMismatch, match=MISMATCH):
        calls.reverse("VoidHold", found)

    assert counted() == {"StepCalled": 1, "EscrowMismatch": 1}


@pytest.mark.parametrize("escrow", [4819, 4821])
def test_nothing_is_refunded_from_an_escrow_that_holds_another_amount(calls: Calls, escrow: int) -> None:
    found = calls.reopened("VoidHold")
    calls.alter(escrow=escrow)

    with calls.writes_nothing(), pytest.raises(EscrowMismatch, match=MISMATCH):
        calls.reverse("VoidHold", found)


@pytest.mark.parametrize("escrow", [4819, 4820])
@pytest.mark.parametrize(
    "since",
    [
        *[
            pytest.param({"status": status}, id=status)
            for status in Status
            if status is not Status.COMPENSATING
        ],
        pytest.param({"steps": {"verify"}}, id="never held"),
        pytest.param({"reversed": {"fee", "release", "hold"}}, id="refunded"),
    ],
)
def test_a_settlement_that_has_moved_on_is_fenced_for_any_escrow(
    calls: Calls, since: dict[str, Any], escrow: int
) -> None:
    found = calls.reopened("VoidHold")
    calls.alter(escrow=escrow, **since)

    with calls.writes_nothing(), pytest.raises(StepFenced, match=r"^compensate:hold: the settlement is"):
        calls.reverse("VoidHold", found)


@pytest.mark.parametrize("other", OTHER_CONTENT)
def test_other_content_is_refused_before_an_escrow_with_another_amount(
    calls: Calls, other: dict[str, str]
) -> None:
    calls.ledger.open("carol", 10_000)
    found = calls.reopened("VoidHold")
    calls.alter(escrow=4819)

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls.reverse("VoidHold", found, other)


@pytest.mark.parametrize("extra", [{}, {"limbo_keys": {"order-2026-000099"}}])
def test_the_payer_is_refunded_above_the_highest_balance_and_in_limbo_too(
    calls: Calls, extra: dict[str, Any]
) -> None:
    found = calls.reopened("VoidHold")
    calls.ledger.open("alice", 100_000_000, **extra)

    calls.reverse("VoidHold", found)

    assert calls.account("alice") == {"available": 100_004_820, "currency": "EUR", **extra}


@pytest.mark.parametrize(
    ("payer", "error", "message"),
    [
        ({"available": 0, "currency": "USD"}, CurrencyMismatch, "payer: the account is kept in USD"),
        (None, AccountNotFound, "payer: there is no such account"),
    ],
)
def test_a_payer_who_cannot_be_refunded_is_refused_by_name(
    calls: Calls,
    payer: dict[str, Any] | None,
    error: type[Exception],
    message: str,
    counted: Callable[[], dict[str, float]],
) -> None:
    found = calls.reopened("VoidHold")
    calls.close("alice")
    if payer:
        calls.ledger.open("alice", **payer)
    counted()

    with calls.writes_nothing(), pytest.raises(error, match=f"^{message}"):
        calls.reverse("VoidHold", found)

    assert counted() == {"StepCalled": 1, error.__name__: 1}
