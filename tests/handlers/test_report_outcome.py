"""ReportOutcome: how a settlement stands, in every state that it can be in, without touching it."""

from typing import Any

import pytest

from settlement.errors import InvalidRequest, StepFenced
from settlement.status import Status
from tests.handlers.calls import CLAIMED_AT, MALFORMED_SETTLEMENTS, OTHER_CONTENT, WIRE, Calls
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import OWNER, signed

IN_FLIGHT = WIRE | {
    "status": "PROCESSING",
    "escrow": "0.00",
    "steps": [],
    "reversed": [],
    "failure": None,
    "replayed": True,
    "claimed_at": CLAIMED_AT,
    "finished_at": None,
}
PROGRESS = [
    ("ClaimKey", IN_FLIGHT),
    ("HoldFunds", IN_FLIGHT | {"escrow": "48.20", "steps": ["hold"]}),
    ("VerifyKyc", IN_FLIGHT | {"escrow": "48.20", "steps": ["hold", "verify"]}),
    ("ReleaseFunds", IN_FLIGHT | {"escrow": "0.48", "steps": ["hold", "verify", "release"]}),
    (
        "CollectFee",
        IN_FLIGHT
        | {
            "status": "SETTLED",
            "steps": ["hold", "verify", "release", "fee"],
            "finished_at": CLAIMED_AT,
        },
    ),
]


@pytest.mark.parametrize(("state", "outcome"), PROGRESS)
def test_a_report_tells_what_has_committed_and_what_is_in_escrow(
    calls: Calls, state: str, outcome: dict[str, Any]
) -> None:
    calls.after(state)

    with calls.writes_nothing():
        assert calls("ReportOutcome", replayed=True) == outcome


def test_a_second_report_is_the_same(calls: Calls) -> None:
    calls.after("HoldFunds")

    assert calls("ReportOutcome", replayed=True) == calls("ReportOutcome", replayed=True)


@pytest.mark.parametrize("replayed", [True, False])
def test_a_report_says_whether_the_caller_drove_the_settlement(calls: Calls, replayed: bool) -> None:
    calls.after("CollectFee")

    assert calls("ReportOutcome", replayed=replayed)["replayed"] is replayed


@pytest.mark.parametrize("status", Status)
def test_a_report_names_every_status_as_it_is(calls: Calls, status: Status) -> None:
    calls.after("HoldFunds")
    calls.alter(status=status, reversed={"release", "hold"})

    report = calls("ReportOutcome", replayed=True)

    assert (report["status"], report["reversed"]) == (status.value, ["hold", "release"])
    assert type(report["status"]) is str


@pytest.mark.parametrize("status", Status)
def test_to_whoever_drove_it_here_what_is_processing_is_about_to_be_reversed(
    calls: Calls, status: Status
) -> None:
    calls.after("HoldFunds")
    calls.alter(status=status)

    with calls.writes_nothing():
        report = calls("ReportOutcome", replayed=False)

    told = "COMPENSATING" if status is Status.PROCESSING else status.value
    assert report == PROGRESS[1][1] | {"status": told, "replayed": False}
    assert type(report["status"]) is str


@pytest.mark.parametrize("status", Status)
def test_what_is_released_is_reported_as_it_is_to_whoever_drove_it_here_too(
    calls: Calls, status: Status
) -> None:
    calls.after("ReleaseFunds")
    calls.alter(status=status)

    with calls.writes_nothing():
        report = calls("ReportOutcome", replayed=False)

    assert report == PROGRESS[3][1] | {"status": status.value, "replayed": False}


@pytest.mark.parametrize(
    ("execution", "told"),
    [("execution-1", "COMPENSATING"), ("execution-2", "PROCESSING"), ("execution-", "PROCESSING")],
)
def test_what_is_processing_is_about_to_be_reversed_if_it_is_the_caller_s(
    calls: Calls, execution: str, told: str
) -> None:
    calls.after("VerifyKyc")

    assert calls("ReportOutcome", execution=execution, replayed=False)["status"] == told


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("replayed", [True, False])
def test_what_is_in_review_is_reported_as_it_is(
    parked: Calls, counted: Counted, status: Status, replayed: bool
) -> None:
    parked.alter(status=status)
    counted()

    with parked.writes_nothing():
        report = parked("ReportOutcome", replayed=replayed)

    assert report == PROGRESS[1][1] | {"status": status.value, "replayed": replayed}
    assert counted() == {"StepCalled": 1}


@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
def test_what_a_webhook_gave_to_another_execution_is_reported_as_it_is(parked: Calls, decision: str) -> None:
    parked.decided(signed(decision=decision))

    with parked.writes_nothing():
        report = parked("ReportOutcome", replayed=False)

    steps = ["hold", "verify"] if decision == "APPROVED" else ["hold"]
    assert report == PROGRESS[1][1] | {"steps": steps, "replayed": False}


def test_to_the_execution_that_a_webhook_gave_it_to_what_is_processing_is_about_to_be_reversed(
    parked: Calls,
) -> None:
    parked.decided(signed(decision="REJECTED"))

    report = parked("ReportOutcome", execution=OWNER, replayed=False)

    assert (report["status"], report["escrow"]) == ("COMPENSATING", "48.20")


def test_a_report_does_not_tell_the_provider_s_reason(parked: Calls) -> None:
    parked.decided(signed(decision="REJECTED", reason="canary-reason"))

    assert "canary" not in str(parked("ReportOutcome", replayed=False))


def test_a_report_of_a_rejection_gives_its_failure(calls: Calls) -> None:
    calls.before("HoldFunds")
    rejected = calls("RejectSettlement", error={"Error": "AccountNotFound", "Cause": "no such account"})

    assert calls("ReportOutcome", replayed=True) == rejected | {"replayed": True}
    assert rejected["failure"]["error"] == "AccountNotFound"


@pytest.mark.parametrize("other", OTHER_CONTENT)
def test_a_report_tells_what_was_claimed_and_not_what_its_caller_says(
    calls: Calls, other: dict[str, str]
) -> None:
    calls.after("HoldFunds")

    with calls.writes_nothing():
        assert calls("ReportOutcome", other, replayed=True) == PROGRESS[1][1]


def test_a_key_that_was_never_claimed_has_no_outcome(calls: Calls) -> None:
    with calls.writes_nothing(), pytest.raises(StepFenced, match=r"was never claimed$"):
        calls("ReportOutcome", replayed=True)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    calls.before("HoldFunds")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls("ReportOutcome", settlement, replayed=True)
