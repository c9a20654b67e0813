"""Whole sagas, by the handlers alone: after a failure at any step, the rows at the end are exactly these."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import InsufficientFunds
from tests.handlers.calls import (
    CLAIMED_AT,
    HASH,
    KEY,
    LATER_AT,
    ORDER,
    REJECTED_BY_KYC,
    SPENT,
    WIRE,
    Calls,
)

ESCROW, FEES, LOSSES = f"escrow:{KEY}", "fees:EUR", "losses:EUR"
Book = dict[str, tuple[str, str, int] | None]
"""The settlement's entries: debit, credit and amount, None for evidence that moves nothing."""

HELD = ("alice", ESCROW, 4820)
RELEASED = (ESCROW, "bob", 4772)
COLLECTED = (ESCROW, FEES, 48)
VOIDED = (ESCROW, "alice", 4820)
RECLAIMED = ("bob", ESCROW, 4772)
REFUNDED = (FEES, ESCROW, 48)

FAILED_AT: dict[str, tuple[str, Book]] = {
    "hold": (
        "ClaimKey",
        {"compensate:fee": None, "compensate:release": None, "compensate:hold": None},
    ),
    "verify": (
        "HoldFunds",
        {"hold": HELD, "compensate:fee": None, "compensate:release": None, "compensate:hold": VOIDED},
    ),
    "release": (
        "VerifyKyc",
        {
            "hold": HELD,
            "verify": None,
            "compensate:fee": None,
            "compensate:release": None,
            "compensate:hold": VOIDED,
        },
    ),
    "fee": (
        "ReleaseFunds",
        {
            "hold": HELD,
            "verify": None,
            "release": RELEASED,
            "compensate:fee": None,
            "compensate:release": RECLAIMED,
            "compensate:hold": VOIDED,
        },
    ),
}
ALL = ("hold", "verify", "release", "fee")
SETTLED: Book = {"hold": HELD, "verify": None, "release": RELEASED, "fee": COLLECTED}
FORWARD: Book = {"hold": HELD, "verify": None, "release": RELEASED}
REQUEST = {
    "pk": f"SETTLEMENT#{KEY}",
    "sk": "SETTLEMENT",
    "payer": "alice",
    "payee": "bob",
    "amount": 4820,
    "fee": 48,
    "currency": "EUR",
    "request_hash": HASH,
    "owner": "execution-1",
    "claimed_at": CLAIMED_AT,
    "deadline_at": "2026-11-20T12:15:00.123Z",
    "owner_epoch": 0,
}


def book(calls: Calls) -> Book:
    """Return the settlement's entries."""
    own = [row for row in calls.ledger.rows() if row["pk"] == f"SETTLEMENT#{KEY}" and "step" in row]
    return {
        row["step"]: (row["debit"], row["credit"], row["amount"]) if "debit" in row else None for row in own
    }


def balances(calls: Calls) -> dict[str, int]:
    """Return every account's balance: the customers' from their rows, the internal ones' from the entries."""
    held = {name: calls.account(name)["available"] for name in ("alice", "bob")}
    for debit, credit, amount in filter(None, book(calls).values()):
        for account, change in ((debit, -amount), (credit, amount)):
            if ":" in account:
                held[account] = held.get(account, 0) + change
    assert held.get(ESCROW, 0) == calls.row()["escrow"]
    return {account: balance for account, balance in held.items() if balance}


@pytest.mark.parametrize("failed", FAILED_AT)
def test_a_failed_settlement_is_reversed_and_every_balance_is_as_before(
    calls: Calls, later: Callable[[], None], failed: str
) -> None:
    last, expected = FAILED_AT[failed]
    calls.after(last)
    later()

    found = calls.begin(error=REJECTED_BY_KYC)
    calls.unwind(found)
    outcome = calls.report(**found, execution="compensation-1")

    failure = {"step": failed, "error": "KycRejected", "cause": "kyc: the provider says no"}
    committed = set(ALL[: ALL.index(failed)])
    reversed_ = committed & {"hold", "release", "fee"}
    assert book(calls) == expected
    assert balances(calls) == {"alice": 10_000, "bob": 500}
    assert calls.row() == {
        **REQUEST,
        "owner": "compensation-1",
        "status": "COMPENSATED",
        "escrow": 0,
        "failure": failure,
        "reversed_for": failure,
        "resolutions": 0,
        "finished_at": LATER_AT,
        **({"steps": committed} if committed else {}),
        **({"reversed": reversed_} if reversed_ else {}),
        **({"verdict": "APPROVED"} if "verify" in committed else {}),
    }
    assert outcome == WIRE | {
        "status": "COMPENSATED",
        "escrow": "0.00",
        "steps": [step for step in ALL if step in committed],
        "reversed": sorted(reversed_),
        "failure": failure,
        "replayed": False,
        "claimed_at": CLAIMED_AT,
        "finished_at": LATER_AT,
    }


@pytest.mark.parametrize("failed", FAILED_AT)
def test_a_compensation_that_is_run_a_second_time_changes_nothing(calls: Calls, failed: str) -> None:
    calls.after(FAILED_AT[failed][0])
    found = calls.begin(error=REJECTED_BY_KYC)
    calls.unwind(found)

    with calls.writes_nothing():
        calls.unwind(found)
        assert calls.begin(error=REJECTED_BY_KYC)["finished"] is True


@pytest.mark.parametrize("killed_before", ["RefundFee", "ReclaimFunds", "VoidHold"])
def test_a_compensation_that_is_killed_and_started_again_reverses_each_step_once(
    calls: Calls, killed_before: str
) -> None:
    calls.reopened(killed_before)

    calls.unwind(calls.begin())

    expected = {"compensate:fee": REFUNDED, "compensate:release": RECLAIMED, "compensate:hold": VOIDED}
    assert book(calls) == {**SETTLED, "reverse": None, **expected}
    assert balances(calls) == {"alice": 10_000, "bob": 500}
    assert (calls.row()["status"], "finished_at" in calls.row()) == ("COMPENSATED", True)


@pytest.mark.parametrize(
    ("decision", "settled", "entries", "held"),
    [
        (
            "retry",
            False,
            {"compensate:release": RECLAIMED, "compensate:hold": VOIDED},
            {"alice": 10_000, "bob": 500},
        ),
        (
            "retry",
            True,
            {"compensate:fee": REFUNDED, "compensate:release": RECLAIMED, "compensate:hold": VOIDED},
            {"alice": 10_000, "bob": 500},
        ),
        (
            "write-off",
            False,
            {"compensate:hold": VOIDED},
            {"alice": 10_000, "bob": 5272, LOSSES: -4772},
        ),
        (
            "write-off",
            True,
            {"compensate:fee": REFUNDED, "compensate:hold": VOIDED},
            {"alice": 10_000, "bob": 5272, LOSSES: -4772},
        ),
        ("complete", False, {}, {"alice": 5180, "bob": 5272, FEES: 48}),
        ("complete", True, {"compensate:fee": REFUNDED}, {"alice": 5180, "bob": 5272, FEES: 48}),
    ],
)
def test_money_that_the_payee_has_spent_is_stuck_until_a_person_decides(
    calls: Calls, decision: str, settled: bool, entries: Book, held: dict[str, int]
) -> None:
    calls.after("CollectFee" if settled else "ReleaseFunds")
    calls.ledger.open("bob", 0)
    found = calls.begin(**({"reversal": ORDER} if settled else {"error": REJECTED_BY_KYC}))
    calls.reverse("RefundFee", found)
    with pytest.raises(InsufficientFunds):
        calls.reverse("ReclaimFunds", found)
    calls.limbo(found)
    state = calls.alert(found)
    calls("AwaitResolution", token="AQC", execution_arn="arn")
    calls.ledger.open("bob", 5272, limbo_keys={KEY})  # another payment has reached the payee

    found = calls.begin(calls.resolve(decision, case=state["case"]))
    if not found["finished"]:
        calls.unwind(found)

    moved: Any = {"retry": None, "write-off": (LOSSES, ESCROW, 4772), "complete": (ESCROW, FEES, 48)}
    began: Book = {**SETTLED, "reverse": None} if settled else {**FORWARD, "compensate:fee": None}
    assert book(calls) == {**began, "limbo:1": None, "resolve:1": moved[decision], **entries}
    assert balances(calls) == held
    assert sum(held.values()) == 10_000 + 500
    assert "limbo_keys" not in calls.account("bob")
    row = calls.row()
    assert row["status"] == ("SETTLED" if decision == "complete" else "COMPENSATED")
    assert {"gsi1pk", "gsi1sk", "waiting", "stuck_step"}.isdisjoint(row)
    assert row["finished_at"] == CLAIMED_AT


def test_a_case_may_need_more_than_one_decision(calls: Calls) -> None:
    found = calls.fall("release")
    calls.ledger.open("bob", 0, limbo_keys={KEY})
    found = calls.begin(calls.resolve("retry", case=found["case"]))
    calls.reverse("RefundFee", found)
    with pytest.raises(InsufficientFunds):
        calls.reverse("ReclaimFunds", found)
    calls.limbo(found, error=SPENT)

    calls.unwind(calls.begin(calls.resolve("write-off", case=found["case"])))

    assert (calls.row()["status"], calls.row()["resolutions"]) == ("COMPENSATED", 2)
    assert calls.account("alice") == {"available": 10_000, "currency": "EUR"}
    assert calls.account("bob") == {"available": 0, "currency": "EUR"}


@pytest.mark.parametrize("first", [0, 1])
def test_an_account_with_two_stuck_settlements_leaves_limbo_with_the_second(calls: Calls, first: int) -> None:
    other = WIRE | {"key": "order-2026-000102"}
    calls.fall("release")
    for state in ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds"):
        calls(state, other)
    calls.limbo(calls.begin(settlement=other, error=REJECTED_BY_KYC), other)
    pair = [WIRE, other]
    assert calls.account("bob")["limbo_keys"] == {KEY, other["key"]}

    calls.resolve("write-off", settlement=pair[first])

    assert calls.account("bob")["limbo_keys"] == {pair[1 - first]["key"]}
    calls.resolve("write-off", settlement=pair[1 - first])
    assert "limbo_keys" not in calls.account("bob")
