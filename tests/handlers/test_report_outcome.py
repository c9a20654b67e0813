"""ReportOutcome: the outcome of a settlement in each of its states, without a write."""

import json
from typing import Any

import pytest

from settlement.model.errors import CapExceeded
from settlement.model.status import Status
from tests.world.constants import CLAIMED_AT, LATER_AT, OTHER_CONTENT, REJECTED_BY_KYC, WIRE
from tests.world.functions import Calls
from tests.world.services import OWNER, signed

IN_FLIGHT: dict[str, Any] = WIRE | {
    "status": "PROCESSING",
    "escrow": "0.00",
    "steps": [],
    "reversed": [],
    "failure": None,
    "replayed": False,
    "claimed_at": CLAIMED_AT,
    "finished_at": None,
}
HELD = IN_FLIGHT | {"escrow": "48.20", "steps": ["hold"]}
RELEASED = IN_FLIGHT | {"escrow": "0.48", "steps": ["hold", "verify", "release"]}
SETTLED = {"status": "SETTLED", "steps": ["hold", "verify", "release", "fee"], "finished_at": CLAIMED_AT}
FAILURE = {"step": "verify", "error": "KycRejected", "cause": "kyc: the provider says no"}
"""The failure of a held settlement whose execution was stopped by `REJECTED_BY_KYC`."""


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("ClaimKey", IN_FLIGHT),
        ("HoldFunds", HELD),
        ("VerifyKyc", HELD | {"steps": ["hold", "verify"]}),
        ("ReleaseFunds", RELEASED),
        ("CollectFee", IN_FLIGHT | SETTLED),
    ],
)
def test_a_report_has_the_committed_steps_and_the_escrow(
    calls: Calls, state: str, outcome: dict[str, Any]
) -> None:
    calls.after(state)

    with calls.writes_nothing():
        assert calls.report() == outcome


@pytest.mark.parametrize("replayed", [True, False])
def test_a_report_says_whether_the_caller_ran_the_settlement(calls: Calls, replayed: bool) -> None:
    calls.after("HoldFunds")

    assert calls.report(replayed=replayed) == HELD | {"replayed": replayed}


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
@pytest.mark.parametrize("error", [{}, {"error": REJECTED_BY_KYC}])
def test_a_settlement_past_processing_is_reported_as_it_is(
    calls: Calls, status: Status, error: dict[str, Any]
) -> None:
    calls.after("HoldFunds")
    failure = {} if status is Status.SETTLED else {"failure": FAILURE}
    is_over = status in (Status.SETTLED, Status.REJECTED, Status.COMPENSATED)
    end = {"escrow": 0, "finished_at": LATER_AT} if is_over else {}
    calls.alter(status=status, **failure, **end)

    with calls.writes_nothing():
        report = calls.report(**error)

    assert report == HELD | {"status": status.value} | failure | end | ({"escrow": "0.00"} if end else {})


@pytest.mark.parametrize(
    ("state", "execution", "outcome"),
    [
        ("HoldFunds", "execution-1", HELD | {"status": "COMPENSATING", "failure": FAILURE}),
        ("HoldFunds", "execution-2", HELD),
        ("ReleaseFunds", "execution-1", RELEASED),
    ],
)
def test_with_an_error_a_settlement_is_reported_as_compensating_if_its_compensation_is_about_to_begin(
    calls: Calls, state: str, execution: str, outcome: dict[str, Any]
) -> None:
    """The error has stopped this execution, which has started the compensation."""
    calls.after(state)

    with calls.writes_nothing():
        assert calls.report(execution=execution, error=REJECTED_BY_KYC) == outcome


@pytest.mark.parametrize("decided", [False, True])
def test_a_settlement_that_waits_for_a_review_or_for_another_owner_is_reported_as_it_is(
    in_review: Calls, decided: bool
) -> None:
    if decided:
        in_review.decided(signed(decision="REJECTED", reason="canary-reason"))

    report = in_review.report(error=REJECTED_BY_KYC)

    assert report == HELD
    assert "canary" not in str(in_review.report(execution=OWNER, error=REJECTED_BY_KYC))


def test_an_answer_compensating_says_why_and_the_row_will_say_the_same(calls: Calls) -> None:
    """An Express execution reports before the compensation begins, a replay of it reports afterwards."""
    calls.before("ReleaseFunds")
    calls.ledger.open("bob", 100_000_000)
    with pytest.raises(CapExceeded) as refused:
        calls("ReleaseFunds")
    stopped = {"Error": refused.typename, "Cause": json.dumps({"errorMessage": str(refused.value)})}

    report = calls.report(error=stopped)

    failure = {"step": "release", "error": "CapExceeded", "cause": str(refused.value)}
    assert (report["status"], report["failure"]) == ("COMPENSATING", failure)
    calls.begin(error=stopped, owner="execution-1")
    assert calls.report(replayed=True) == report | {"replayed": True}


def test_a_report_has_the_claimed_content_and_not_the_callers(calls: Calls) -> None:
    calls.after("HoldFunds")

    for other in OTHER_CONTENT:
        assert calls.report(other) == HELD


def test_a_report_that_breaks_the_contract_fails_its_test(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.alter(status="COMPENSATING")

    with pytest.raises(AssertionError, match=r"breaks the contract of an outcome: .*failure"):
        calls.report()
