"""Rows with attributes of a later release, or of an operator: each handler works on them as before."""

import json
from typing import Any

import pytest

from settlement.ledger import keys
from settlement.model.errors import InsufficientFunds
from settlement.model.state import MalformedRow
from tests.handlers.calls import CLAIMED_AT, REJECTED_BY_KYC, SPENT, Calls
from tests.handlers.test_reject_settlement import ERROR

UNKNOWN = [
    pytest.param(value, id=type(value).__name__)
    for value in (
        5,
        "text",
        True,
        None,
        b"bytes",
        {"one", "two"},
        {5, 6},
        ["text", 5, {"a": 5}],
        {"a": {"b": 5}},
    )
]


def alter(calls: Calls, account: str, **attributes: Any) -> None:
    """Overwrite attributes of an account's row, past every condition."""
    calls.ledger.put({**keys.account(account), **calls.account(account), **attributes})


def add(calls: Calls, value: object) -> None:
    """Add an unknown attribute to the settlement's row and to both accounts."""
    calls.alter(unheard_of=value)
    for account in ("alice", "bob"):
        alter(calls, account, unheard_of=value)


@pytest.mark.parametrize("value", UNKNOWN)
def test_a_payment_settles_on_rows_with_an_unknown_attribute(calls: Calls, value: object) -> None:
    calls.before("HoldFunds")
    add(calls, value)

    for state in ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds"):
        calls(state)

    assert calls("CollectFee", claimed_at=CLAIMED_AT)["status"] == "SETTLED"
    assert calls.report()["status"] == "SETTLED"
    assert calls.row()["unheard_of"] == value
    assert calls.account("alice")["unheard_of"] == value


@pytest.mark.parametrize("value", UNKNOWN)
def test_a_payment_without_funds_is_rejected_on_rows_with_an_unknown_attribute(
    calls: Calls, value: object
) -> None:
    """The failed condition returns the account's row: unread, the refusal would be an unknown outcome."""
    calls.before("HoldFunds")
    alter(calls, "alice", available=1)
    add(calls, value)

    with calls.writes_nothing(), pytest.raises(InsufficientFunds):
        calls("HoldFunds")

    assert calls("RejectSettlement", error=ERROR)["status"] == "REJECTED"


@pytest.mark.parametrize("value", UNKNOWN)
def test_a_payment_is_compensated_on_rows_with_an_unknown_attribute(calls: Calls, value: object) -> None:
    calls.after("HoldFunds")
    add(calls, value)

    found = calls.begin(error=REJECTED_BY_KYC)
    calls.unwind(found)

    assert calls.report(execution="compensation-1")["status"] == "COMPENSATED"


@pytest.mark.parametrize("value", UNKNOWN)
def test_a_stuck_payment_enters_limbo_on_rows_with_an_unknown_attribute(calls: Calls, value: object) -> None:
    calls.after("ReleaseFunds")
    alter(calls, "bob", available=0)
    add(calls, value)
    found = calls.begin(error=REJECTED_BY_KYC)

    with calls.writes_nothing(), pytest.raises(InsufficientFunds):
        calls.reverse("ReclaimFunds", found)
    calls.limbo(found, error=SPENT)

    assert calls.row()["status"] == "LIMBO"
    assert calls.account("bob")["limbo_keys"] == {calls.row()["pk"].partition("#")[2]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"available": "a text"}, "ACCOUNT: available is no int"),
        ({"currency": 978}, "ACCOUNT: currency is no str"),
    ],
)
def test_the_cause_of_a_case_names_no_account_whose_row_is_malformed(
    calls: Calls, wrong: dict[str, Any], message: str
) -> None:
    calls.after("ReleaseFunds")
    found = calls.begin(error=REJECTED_BY_KYC)
    alter(calls, "bob", **wrong)

    with calls.writes_nothing(), pytest.raises(MalformedRow) as malformed:
        calls.reverse("ReclaimFunds", found)
    cause = json.dumps({"errorMessage": str(malformed.value), "errorType": "MalformedRow"})
    calls.limbo(found, error={"Error": "MalformedRow", "Cause": cause})

    failure = calls.report(execution="compensation-1")["failure"]
    assert failure == {"step": "compensate:release", "error": "MalformedRow", "cause": message}
    assert "bob" not in str(failure)


@pytest.mark.parametrize("state", ["VerifyKyc", "BeginCompensation", "ReportOutcome", "RejectSettlement"])
def test_a_malformed_settlement_is_named_by_its_key_alone(calls: Calls, state: str) -> None:
    calls.after("HoldFunds")
    calls.alter(escrow="4820")
    found = {"BeginCompensation": calls.begin, "ReportOutcome": calls.report}

    with calls.writes_nothing(), pytest.raises(MalformedRow) as malformed:
        found[state]() if state in found else calls(state, error=ERROR)

    assert str(malformed.value) == f"{calls.row()['pk']}: escrow is no int"
