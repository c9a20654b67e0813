"""BeginCompensation is the fence: it stops the forward steps and finds the steps to reverse."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import IdempotencyConflict, InvalidRequest, StepFenced
from settlement.model.status import Status
from tests.handlers.calls import (
    CLAIMED_AT,
    HASH,
    KEY,
    MALFORMED_SETTLEMENTS,
    OTHER_CONTENT,
    REJECTED_BY_KYC,
    WIRE,
    Calls,
    Context,
)

FOUND = {
    "settlement": WIRE,
    "steps": [],
    "reversed": [],
    "finished": False,
    "in_limbo": False,
    "case": 1,
    "alerts": 0,
}
PROGRESS = [
    pytest.param("ClaimKey", [], "hold", id="nothing"),
    pytest.param("HoldFunds", ["hold"], "verify", id="hold"),
    pytest.param("VerifyKyc", ["hold", "verify"], "release", id="verify"),
    pytest.param("ReleaseFunds", ["hold", "release", "verify"], "fee", id="release"),
]
UNCLAIMED = {
    "pk": f"SETTLEMENT#{KEY}",
    "sk": "SETTLEMENT",
    "status": "REJECTED",
    "escrow": 0,
    "payer": "alice",
    "payee": "bob",
    "amount": 4820,
    "fee": 48,
    "currency": "EUR",
    "request_hash": HASH,
    "owner": "compensation-1",
    "claimed_at": CLAIMED_AT,
    "deadline_at": CLAIMED_AT,
    "owner_epoch": 0,
    "failure": {"step": "claim", "error": "KycRejected", "cause": "kyc: the provider says no"},
    "finished_at": CLAIMED_AT,
}
NO_ERROR = {"error": "CompensationRequested", "cause": "no error was given"}


@pytest.mark.parametrize(("state", "committed", "failed"), PROGRESS)
def test_processing_is_taken_away_and_the_committed_steps_are_found(
    calls: Calls, later: Callable[[], None], state: str, committed: list[str], failed: str
) -> None:
    calls.after(state)
    before, others = calls.row(), calls.ledger.rows()
    later()

    found = calls.begin(error=REJECTED_BY_KYC)

    assert found == FOUND | {"steps": committed}
    failure = {"step": failed, "error": "KycRejected", "cause": "kyc: the provider says no"}
    after = before | {
        "status": "COMPENSATING",
        "failure": failure,
        "reversed_for": failure,
        "resolutions": 0,
        "owner": "compensation-1",
    }
    assert calls.ledger.rows() == [after if row == before else row for row in others]


@pytest.mark.parametrize(
    ("more", "failure"),
    [
        pytest.param({"error": None}, NO_ERROR, id="null"),
        pytest.param({"error": "KycRejected"}, NO_ERROR, id="a text"),
        pytest.param({"error": ["KycRejected"]}, NO_ERROR, id="a list"),
        pytest.param({"error": {}}, NO_ERROR, id="an empty object"),
        pytest.param({"error": {"Cause": "x"}}, NO_ERROR, id="a cause alone"),
        pytest.param({"error": {"Error": 5, "Cause": "x"}}, NO_ERROR, id="a number as name"),
        pytest.param({"error": {"Error": None, "Cause": "x"}}, NO_ERROR, id="null as name"),
        pytest.param(
            {"error": {"Error": "States.Timeout"}}, {"error": "States.Timeout", "cause": ""}, id="bare"
        ),
        pytest.param({"error": {"Error": "E", "Cause": "why"}}, {"error": "E", "cause": "why"}, id="plain"),
        pytest.param(
            {"error": {"Error": "E", "Cause": None}}, {"error": "E", "cause": "None"}, id="no cause"
        ),
        pytest.param(
            {"error": {"Error": "E", "Cause": 5}}, {"error": "E", "cause": "5"}, id="a number as cause"
        ),
        pytest.param(
            {"error": {"Error": "E", "Cause": "x" * 501}},
            {"error": "E", "cause": "x" * 500},
            id="a long cause",
        ),
        pytest.param(
            {"error": {"Error": "E" * 101, "Cause": "x"}},
            {"error": "E" * 100, "cause": "x"},
            id="a long name",
        ),
    ],
)
@pytest.mark.parametrize(("claimed", "step"), [(True, "verify"), (False, "claim")])
def test_any_error_is_put_on_record_and_fences_the_settlement(
    calls: Calls, more: dict[str, Any], failure: dict[str, str], claimed: bool, step: str
) -> None:
    if claimed:
        calls.after("HoldFunds")

    calls.begin(**more)

    assert calls.row()["failure"] == {"step": step, **failure}
    assert calls.row()["status"] == ("COMPENSATING" if claimed else "REJECTED")


def test_an_unclaimed_key_gets_a_tombstone(calls: Calls) -> None:
    found = calls.begin(error=REJECTED_BY_KYC)

    assert found == FOUND | {"finished": True}
    assert calls.ledger.rows() == [UNCLAIMED]


@pytest.mark.parametrize("execution", ["execution-1", "compensation-1"])
def test_a_late_claim_finds_the_tombstone_and_holds_nothing(
    calls: Calls, later: Callable[[], None], execution: str
) -> None:
    calls.ledger.open("alice", 10_000)
    calls.begin(error=REJECTED_BY_KYC)
    later()

    with calls.writes_nothing():
        assert calls("ClaimKey", execution=execution)["replayed"] is True
        with pytest.raises(StepFenced):
            calls("HoldFunds", execution=execution)


@pytest.mark.parametrize("claimed", [True, False])
def test_a_second_call_finds_the_same_and_the_first_failure_stays(
    calls: Calls, later: Callable[[], None], claimed: bool, counted: Callable[[], dict[str, float]]
) -> None:
    if claimed:
        calls.after("HoldFunds")
    found = calls.begin(error=REJECTED_BY_KYC)
    later()
    counted()

    with calls.writes_nothing():
        assert calls.begin(error={"Error": "States.Timeout"}) == found

    assert counted() == {"StepCalled": 1}


@pytest.mark.parametrize(
    ("status", "finished", "in_limbo"),
    [
        (Status.SETTLED, True, False),
        (Status.REJECTED, True, False),
        (Status.COMPENSATING, False, False),
        (Status.COMPENSATED, True, False),
        (Status.LIMBO, False, True),
    ],
)
def test_a_settlement_past_processing_is_reported_and_left_as_it_is(
    calls: Calls, status: Status, finished: bool, in_limbo: bool
) -> None:
    calls.after("ReleaseFunds")
    calls.alter(status=status, reversed={"release", "fee"}, resolutions=2)

    with calls.writes_nothing():
        found = calls.begin(error=REJECTED_BY_KYC)

    assert found == FOUND | {
        "steps": ["hold", "release", "verify"],
        "reversed": ["fee", "release"],
        "finished": finished,
        "in_limbo": in_limbo,
        "case": 3,
    }


def test_a_settlement_that_settled_meanwhile_is_reported_and_not_reversed(calls: Calls) -> None:
    calls.after("CollectFee")

    with calls.writes_nothing():
        found = calls.begin(error={"Error": "States.Timeout", "Cause": ""})

    assert found == FOUND | {"steps": ["fee", "hold", "release", "verify"], "finished": True}
    assert calls.report(**found)["status"] == "SETTLED"


@pytest.mark.parametrize("other", OTHER_CONTENT)
@pytest.mark.parametrize("status", [Status.PROCESSING, Status.SETTLED, Status.LIMBO])
def test_other_content_is_refused(
    calls: Calls, status: Status, other: dict[str, str], counted: Callable[[], dict[str, float]]
) -> None:
    calls.after("HoldFunds")
    calls.alter(status=status)
    counted()

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict, match=rf"^key: {KEY} was claimed"):
        calls.begin(settlement=other, error=REJECTED_BY_KYC)

    assert counted() == {"StepCalled": 1, "IdempotencyConflict": 1}


@pytest.mark.parametrize(
    "back",
    [
        pytest.param({"error": {"Error": "StepFenced", "Cause": "x"}}, id="from a reversal that was fenced"),
        pytest.param(
            {"alert": {"key": KEY}, "wait_seconds": 1800, "alerts": 7, "error": {"Error": "StepFenced"}},
            id="from an alert that came too late",
        ),
        pytest.param({"steps": ["fee"], "reversed": ["hold"], "finished": True}, id="with an outdated state"),
    ],
)
def test_a_machine_that_returns_with_its_state_reads_the_row_again(
    calls: Calls, back: dict[str, Any]
) -> None:
    calls.after("HoldFunds")
    found = calls.begin(error=REJECTED_BY_KYC)

    with calls.writes_nothing():
        assert calls.begin(found | back) == FOUND | {"steps": ["hold"]}


@pytest.mark.parametrize(
    "announced", [{"put": {"FailedEntryCount": 0}}, {"error": {"Error": "States.Timeout", "Cause": ""}}]
)
def test_after_a_decision_the_machine_returns_to_the_next_case(
    calls: Calls, announced: dict[str, Any]
) -> None:
    calls.fall("release")
    resolved = calls.resolve("retry")

    with calls.writes_nothing():
        found = calls.begin(resolved | announced)

    assert found == FOUND | {"steps": ["hold", "release", "verify"], "case": 2}


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("state", [None, [], [{"settlement": WIRE}], "settlement", 5, True])
def test_an_input_that_is_no_object_is_refused(calls: Calls, state: Any) -> None:
    handler = calls.handlers["BeginCompensation"]

    with (
        calls.writes_nothing(),
        pytest.raises(InvalidRequest, match=r"^input: must be a JSON object with a settlement$"),
    ):
        handler({"state": state, "execution": "compensation-1"}, Context())


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    calls.before("HoldFunds")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.begin(settlement=settlement, error=REJECTED_BY_KYC)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
def test_a_request_without_its_envelope_is_refused(calls: Calls) -> None:
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=r"^request: must be a JSON object"):
        calls.begin(WIRE)
