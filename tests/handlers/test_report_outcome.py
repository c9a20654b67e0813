import json
from typing import Any

import pytest

from settlement.core.model.errors import CapExceeded, InvalidRequest, StepFenced
from settlement.core.model.status import Status
from tests.handlers.conftest import Calls
from tests.unit.states import next_of
from tests.world.constants import (
    CLAIMED_AT,
    OTHER_CONTENT,
    REJECTED_BY_KYC,
    REPLAYED,
    SETTLEMENT_ARN,
    WIRE,
    WITHOUT_FEE,
)
from tests.world.contracts import checked_outcome
from tests.world.functions import Context
from tests.world.services import OWNER, signed

IN_FLIGHT: dict[str, Any] = WIRE | {
    "status": "PROCESSING",
    "escrow": "0.00",
    "steps": [],
    "reversed": [],
    "failure": None,
    "next": next_of(Status.PROCESSING, None),
    "replayed": False,
    "claimed_at": CLAIMED_AT,
    "finished_at": None,
}
HELD = IN_FLIGHT | {"escrow": "48.20", "steps": ["hold"]}
RELEASED = IN_FLIGHT | {"escrow": "0.48", "steps": ["hold", "verify", "release"]}
SETTLED = {
    "status": "SETTLED",
    "steps": ["hold", "verify", "release", "fee"],
    "next": next_of(Status.SETTLED, None),
    "finished_at": CLAIMED_AT,
}
STOPPED = {"Error": "InReview", "Cause": "kyc: waits for a reviewer's decision"}
FENCED = {"Error": "StepFenced", "Cause": "reject: the settlement is PROCESSING with steps [hold] committed"}
"""State of an execution whose rejection found its hold committed."""

EXECUTION_ARN = f"{SETTLEMENT_ARN}:execution-1"
NAMELESS = {name: text for name, text in WIRE.items() if name != "key"}
FAILURE = {"step": "verify", "error": "KycRejected", "cause": "kyc: the provider says no"}
"""Failure of a held settlement stopped by `REJECTED_BY_KYC`."""

REVERSED = {
    "status": "COMPENSATING",
    "failure": FAILURE,
    "next": next_of(Status.COMPENSATING, FAILURE),
}


def test_a_key_that_is_only_claimed_is_reported_without_escrow(calls: Calls) -> None:
    owner = calls.claimed()

    with calls.writes_nothing():
        assert calls.report(execution=owner) == IN_FLIGHT
        assert calls.report(**REPLAYED) == IN_FLIGHT | {"replayed": True}


@pytest.mark.parametrize(
    ("more", "replayed"),
    [(REPLAYED, True), ({}, False), ({"in_review": STOPPED}, False), (FENCED, False)],
    ids=["another execution runs it", "this one", "in review", "held although this one was refused"],
)
def test_a_report_says_whether_the_caller_ran_the_settlement(
    calls: Calls, more: dict[str, Any], replayed: bool
) -> None:
    calls.after("HoldFunds")

    assert calls.report(**more) == HELD | {"replayed": replayed}


def test_an_equivalent_request_gets_the_same_report(calls: Calls) -> None:
    calls.after("HoldFunds")

    for request in (WIRE | {"amount": "48.2"}, WITHOUT_FEE):
        assert calls.report(request, **FENCED) == HELD


@pytest.mark.parametrize("more", [{}, {"in_review": STOPPED}, {"error": REJECTED_BY_KYC}])
def test_a_keyless_settlement_is_reported_by_its_minted_key(
    calls: Calls, capsys: pytest.CaptureFixture[str], more: dict[str, Any]
) -> None:
    """The stage requires keys by now, but the hold was made, and the caller must learn of it."""
    calls.before("HoldFunds")
    calls.change_config(idempotency_key="optional")
    held = calls("HoldFunds", NAMELESS, execution_arn=EXECUTION_ARN)
    key = held["settlement"]["key"]
    calls.change_config(idempotency_key="required")

    with calls.writes_nothing():
        capsys.readouterr()
        report = report_of(calls, NAMELESS, held | more)
        assert json.loads(capsys.readouterr().out)["key"] == key
        with pytest.raises(InvalidRequest, match=r"^key: missing$"):
            report_of(calls, NAMELESS, FENCED)

    status = REVERSED if "error" in more else {}
    assert report == HELD | {"key": key} | status


def test_the_report_prefers_the_machines_settlement_to_the_request(calls: Calls) -> None:
    calls.after("HoldFunds")

    other = WIRE | {"key": "order-2026-000202"}
    assert report_of(calls, other, {"settlement": WIRE}) == HELD
    with pytest.raises(StepFenced):
        report_of(calls, WIRE, {"settlement": other})


def report_of(calls: Calls, request: Any, state: Any) -> Any:
    event = {
        "settlement": request,
        "state": state,
        "execution": "execution-1",
        "execution_arn": EXECUTION_ARN,
    }
    return checked_outcome(calls.handlers["ReportOutcome"](event, Context()))


@pytest.mark.parametrize(
    ("state", "execution", "outcome"),
    [
        ("HoldFunds", "execution-1", HELD | REVERSED),
        ("HoldFunds", "execution-2", HELD),
        ("ReleaseFunds", "execution-1", RELEASED),
    ],
)
def test_a_failed_execution_reports_compensating_before_the_compensation_begins(
    calls: Calls, state: str, execution: str, outcome: dict[str, Any]
) -> None:
    calls.after(state)

    with calls.writes_nothing():
        assert calls.report(execution=execution, error=REJECTED_BY_KYC) == outcome


@pytest.mark.parametrize("decided", [False, True])
def test_a_settlement_in_review_or_taken_over_is_reported_unchanged(in_review: Calls, decided: bool) -> None:
    if decided:
        in_review.decided(signed(decision="REJECTED", reason="canary-reason"))

    report = in_review.report(error=REJECTED_BY_KYC)

    assert report == HELD
    assert "canary" not in str(in_review.report(execution=OWNER, error=REJECTED_BY_KYC))


def test_the_report_before_compensation_gives_the_rows_later_reason(calls: Calls) -> None:
    """An Express execution reports before the compensation begins, its replay afterwards."""
    calls.before("ReleaseFunds")
    calls.ledger.open("bob", 100_000_000)
    with pytest.raises(CapExceeded) as refused:
        calls("ReleaseFunds")
    stopped = {"Error": refused.typename, "Cause": json.dumps({"errorMessage": str(refused.value)})}

    report = calls.report(error=stopped)

    failure = {"step": "release", "error": "CapExceeded", "cause": str(refused.value)}
    assert (report["status"], report["failure"]) == ("COMPENSATING", failure)
    calls.begin(error=stopped, owner="execution-1")
    assert calls.report(**REPLAYED) == report | {"replayed": True}


def test_the_report_shows_the_claimed_request_not_the_callers(calls: Calls) -> None:
    calls.after("HoldFunds")

    for other in OTHER_CONTENT:
        assert calls.report(other) == HELD


def test_a_report_that_breaks_the_contract_fails_its_test(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.alter(status="COMPENSATING")

    with pytest.raises(AssertionError, match=r"breaks the contract of an outcome: .*failure"):
        calls.report()
