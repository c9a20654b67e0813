"""ReportOutcome: the outcome of a settlement in each of its states, without a write."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import (
    InvalidRequest,
    KycCircuitOpen,
    KycRequestRefused,
    KycUnavailable,
    SettlementError,
    StepFenced,
)
from settlement.model.status import Status
from tests.handlers.calls import (
    CLAIMED_AT,
    LATER_AT,
    MALFORMED_SETTLEMENTS,
    OTHER_CONTENT,
    REJECTED_BY_KYC,
    SPENT,
    WIRE,
    Calls,
)
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import OWNER, signed
from tests.support.kyc import REJECTED, Provider

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

FAILURE = {"step": "verify", "error": "KycRejected", "cause": "kyc: the provider says no"}
"""The failure of a held settlement whose execution was stopped by `REJECTED_BY_KYC`."""

OVER = {"escrow": 0, "finished_at": LATER_AT}
OF_STATUS: dict[Status, dict[str, Any]] = {
    Status.PROCESSING: {},
    Status.SETTLED: OVER,
    Status.REJECTED: OVER | {"failure": FAILURE},
    Status.COMPENSATING: {"failure": FAILURE},
    Status.COMPENSATED: OVER | {"failure": FAILURE},
    Status.LIMBO: {"failure": FAILURE},
}
"""The attributes that a row has in each status, besides its progress."""


def reported(state: str, status: Status) -> dict[str, Any]:
    """Return the outcome of a settlement with the progress after `state` and this status."""
    changes = OF_STATUS[status] | ({"escrow": "0.00"} if "escrow" in OF_STATUS[status] else {})
    return dict(PROGRESS)[state] | {"status": status.value, "replayed": False} | changes


Arrange = Callable[[Calls, Provider, Callable[..., None]], object]


def answers(answer: Any) -> Arrange:
    return lambda calls, provider, later: setattr(provider, "answer", answer)


REASONS: dict[str, tuple[str, Arrange, str, str]] = {
    "the provider rejects": ("VerifyKyc", answers(REJECTED), "verify", "KycRejected"),
    "the provider fails": ("VerifyKyc", answers(KycUnavailable("kyc: down")), "verify", "KycUnavailable"),
    "the circuit is open": ("VerifyKyc", answers(KycCircuitOpen("kyc: open")), "verify", "KycCircuitOpen"),
    "the provider refuses the request": (
        *("VerifyKyc", answers(KycRequestRefused("kyc: 422"))),
        *("verify", "KycRequestRefused"),
    ),
    "the deadline has passed": (
        *("VerifyKyc", lambda calls, provider, later: later(minutes=15)),
        *("verify", "DeadlineExceeded"),
    ),
    "the payee is unknown": (
        *("ReleaseFunds", lambda calls, provider, later: calls.close("bob")),
        *("release", "AccountNotFound"),
    ),
    "the payee would exceed the cap": (
        *("ReleaseFunds", lambda calls, provider, later: calls.ledger.open("bob", 100_000_000)),
        *("release", "CapExceeded"),
    ),
    "the payee has another currency": (
        *("ReleaseFunds", lambda calls, provider, later: calls.ledger.open("bob", 500, "USD")),
        *("release", "CurrencyMismatch"),
    ),
    "money is held after all": (
        *("RejectSettlement", lambda calls, provider, later: calls("HoldFunds")),
        *("verify", "StepFenced"),
    ),
}
"""The state that stops the settlement, what makes it, and the step and the error of the failure."""


@pytest.mark.parametrize(("state", "outcome"), PROGRESS)
def test_a_report_has_the_committed_steps_and_the_escrow(
    calls: Calls, state: str, outcome: dict[str, Any]
) -> None:
    calls.after(state)

    with calls.writes_nothing():
        assert calls.report(replayed=True) == outcome


def test_a_second_report_is_the_same(calls: Calls) -> None:
    calls.after("HoldFunds")

    assert calls.report(replayed=True) == calls.report(replayed=True)


@pytest.mark.parametrize("replayed", [True, False])
def test_a_report_says_whether_the_caller_ran_the_settlement(calls: Calls, replayed: bool) -> None:
    calls.after("CollectFee")

    assert calls.report(replayed=replayed)["replayed"] is replayed


@pytest.mark.parametrize("status", Status)
def test_a_replayed_report_has_every_status_as_it_is(calls: Calls, status: Status) -> None:
    calls.after("HoldFunds")
    calls.alter(status=status, reversed={"release", "hold"}, **OF_STATUS[status])

    report = calls.report(replayed=True)

    assert (report["status"], report["reversed"]) == (status.value, ["hold", "release"])
    assert type(report["status"]) is str


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("error", [{}, {"error": REJECTED_BY_KYC}])
def test_only_with_an_error_a_settlement_in_flight_is_reported_as_compensating(
    calls: Calls, status: Status, error: dict[str, Any]
) -> None:
    """The error has stopped this execution, which has started the compensation."""
    calls.after("HoldFunds")
    calls.alter(status=status, **OF_STATUS[status])

    with calls.writes_nothing():
        report = calls.report(replayed=False, **error)

    begins = status is Status.PROCESSING and bool(error)
    assert report == reported("HoldFunds", Status.COMPENSATING if begins else status)
    assert type(report["status"]) is str


@pytest.mark.parametrize("status", Status)
def test_a_released_settlement_is_reported_as_it_is_to_its_owner_too(calls: Calls, status: Status) -> None:
    calls.after("ReleaseFunds")
    calls.alter(status=status, **OF_STATUS[status])

    with calls.writes_nothing():
        report = calls.report(replayed=False, error=REJECTED_BY_KYC)

    assert report == reported("ReleaseFunds", status)


@pytest.mark.parametrize(
    ("execution", "status"),
    [
        ("execution-1", Status.COMPENSATING),
        ("execution-2", Status.PROCESSING),
        ("execution-", Status.PROCESSING),
    ],
)
def test_a_settlement_in_flight_is_reported_as_compensating_only_to_its_owner(
    calls: Calls, execution: str, status: Status
) -> None:
    calls.after("HoldFunds")

    report = calls.report(execution=execution, replayed=False, error=REJECTED_BY_KYC)

    assert report == reported("HoldFunds", status)


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("error", [{}, {"error": REJECTED_BY_KYC}])
@pytest.mark.parametrize("replayed", [True, False])
def test_a_settlement_in_review_is_reported_as_it_is(
    in_review: Calls, counted: Counted, status: Status, replayed: bool, error: dict[str, Any]
) -> None:
    in_review.alter(status=status, **OF_STATUS[status])
    counted()

    with in_review.writes_nothing():
        report = in_review.report(replayed=replayed, **error)

    assert report == reported("HoldFunds", status) | {"replayed": replayed}
    assert counted() == {"StepCalled": 1}


@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
def test_a_settlement_that_a_webhook_gave_to_another_execution_is_reported_as_it_is(
    in_review: Calls, decision: str
) -> None:
    in_review.decided(signed(decision=decision))

    with in_review.writes_nothing():
        report = in_review.report(replayed=False, error=REJECTED_BY_KYC)

    steps = ["hold", "verify"] if decision == "APPROVED" else ["hold"]
    assert report == reported("HoldFunds", Status.PROCESSING) | {"steps": steps}


def test_to_the_owner_after_a_webhook_a_rejected_settlement_is_reported_as_compensating(
    in_review: Calls,
) -> None:
    in_review.decided(signed(decision="REJECTED"))

    report = in_review.report(execution=OWNER, replayed=False, error=REJECTED_BY_KYC)

    assert report == reported("HoldFunds", Status.COMPENSATING)


# The reason of a compensation


@pytest.mark.parametrize("reason", REASONS)
def test_an_answer_compensating_says_why_and_the_row_will_say_the_same(
    calls: Calls, provider: Provider, later: Callable[..., None], reason: str
) -> None:
    """An Express execution reports before the compensation begins, a replay of it reports afterwards."""
    state, arrange, step, error = REASONS[reason]
    calls.before("HoldFunds" if state == "RejectSettlement" else state)
    arrange(calls, provider, later)
    with pytest.raises(SettlementError) as refused:
        calls(state, error=SPENT)
    stopped = {"Error": refused.typename, "Cause": json.dumps({"errorMessage": str(refused.value)})}

    with calls.writes_nothing():
        report = calls.report(replayed=False, error=stopped)

    failure = {"step": step, "error": error, "cause": str(refused.value)}
    assert (report["status"], report["failure"]) == ("COMPENSATING", failure)
    calls.begin(error=stopped, owner="execution-1")
    assert calls.row()["failure"] == failure
    assert calls.report(replayed=True) == report | {"replayed": True}


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ({"Error": "Lambda.Unknown"}, ""),
        ({"Error": "E" * 101, "Cause": "x" * 32_768}, "x" * 500),
        ({"Error": "KycRejected", "Cause": '["errorMessage"]'}, '["errorMessage"]'),
    ],
    ids=["no cause", "a long one", "no message"],
)
def test_any_error_is_a_reason_of_bounded_length(calls: Calls, error: dict[str, str], cause: str) -> None:
    calls.after("HoldFunds")

    failure = calls.report(replayed=False, error=error)["failure"]

    assert failure == {"step": "verify", "error": error["Error"][:100], "cause": cause}


def test_a_report_that_breaks_the_contract_fails_its_test(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.alter(status="COMPENSATING")

    with pytest.raises(AssertionError, match=r"breaks the contract of an outcome: .*failure"):
        calls.report(replayed=True)


def test_a_report_does_not_contain_the_providers_reason(in_review: Calls) -> None:
    in_review.decided(signed(decision="REJECTED", reason="canary-reason"))

    assert "canary" not in str(in_review.report(replayed=False))


def test_a_report_of_a_rejection_gives_its_failure(calls: Calls) -> None:
    calls.before("HoldFunds")
    rejected = calls("RejectSettlement", error={"Error": "AccountNotFound", "Cause": "no such account"})

    assert calls.report(replayed=True) == rejected | {"replayed": True}
    assert rejected["failure"]["error"] == "AccountNotFound"


@pytest.mark.parametrize("other", OTHER_CONTENT)
def test_a_report_has_the_claimed_content_and_not_the_callers(calls: Calls, other: dict[str, str]) -> None:
    calls.after("HoldFunds")

    with calls.writes_nothing():
        assert calls.report(other, replayed=True) == PROGRESS[1][1]


def test_a_key_that_was_never_claimed_has_no_outcome(calls: Calls) -> None:
    with calls.writes_nothing(), pytest.raises(StepFenced, match=r"was never claimed$"):
        calls.report(replayed=True)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    calls.before("HoldFunds")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.report(settlement, replayed=True)
