import json
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.model.errors import InsufficientFunds
from settlement.core.model.stored import MalformedRow
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, REJECTED_BY_KYC, SPENT

UNKNOWN = [5, "text", None, b"bytes", {"one", "two"}, {5, 6}, ["text", 5, {"a": 5}]]


def alter(calls: Calls, account: str, **attributes: Any) -> None:
    calls.ledger.put({**keys.account(account), **calls.account(account), **attributes})


def add(calls: Calls, value: object) -> None:
    calls.alter(unheard_of=value)
    for account in ("alice", "bob"):
        alter(calls, account, unheard_of=value)


@pytest.mark.parametrize("value", UNKNOWN, ids=lambda value: type(value).__name__)
def test_an_unknown_attribute_stops_neither_settling_reversal_nor_limbo(calls: Calls, value: object) -> None:
    owner = calls.claimed()
    add(calls, value)
    for state in ("HoldFunds", "VerifyKyc", "ReleaseFunds"):
        calls(state, execution=owner)

    found = calls.begin(error=REJECTED_BY_KYC)
    assert calls.report(execution="compensation-1")["status"] == "COMPENSATING"
    alter(calls, "bob", available=0)
    with calls.writes_nothing(), pytest.raises(InsufficientFunds):  # the failed condition returns the row
        calls.reverse("ReclaimFunds", found)
    calls.limbo(found, error=SPENT)
    calls.resolve("complete")

    assert calls.report()["status"] == "SETTLED"
    with calls.writes_nothing(), pytest.raises(Exception, match="fee: the settlement is SETTLED"):
        calls("CollectFee", claimed_at=CLAIMED_AT)
    assert calls.row()["unheard_of"] == calls.account("alice")["unheard_of"] == value


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"available": "a text"}, "ACCOUNT: available is no int"),
        ({"currency": 978}, "ACCOUNT: currency is no str"),
    ],
)
def test_a_cases_cause_names_no_account_with_a_malformed_row(
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
