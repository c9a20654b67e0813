"""VerifyKyc: the verdict on record, once."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.errors import DeadlineExceeded, IdempotencyConflict, InvalidRequest, StepFenced
from settlement.status import Status
from tests.handlers.calls import CLAIMED_AT, KEY, MALFORMED_SETTLEMENTS, WIRE, Calls

VERDICT = {
    "step": "verify",
    "posted_at": CLAIMED_AT,
    "decision": "APPROVED",
    "reference": f"{KEY}:verify",
    "reason": "approved without asking: no KYC provider is connected",
    "provider": "placeholder",
}


def test_the_first_call_records_the_verdict(calls: Calls) -> None:
    calls.before("VerifyKyc")

    assert calls("VerifyKyc") == VERDICT

    assert (calls.row()["escrow"], calls.row()["steps"]) == (4820, {"hold", "verify"})


def test_a_replay_gives_the_same_result(calls: Calls, later: Callable[[], None]) -> None:
    calls.after("VerifyKyc")
    later()

    with calls.writes_nothing():
        assert calls("VerifyKyc") == VERDICT


@pytest.mark.parametrize("prepare", [Calls.before, Calls.after])
def test_other_content_is_refused(calls: Calls, prepare: Callable[[Calls, str], Any]) -> None:
    prepare(calls, "VerifyKyc")

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls("VerifyKyc", WIRE | {"amount": "48.21"})


def test_no_verdict_is_recorded_before_the_hold(calls: Calls) -> None:
    calls.before("HoldFunds")

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("VerifyKyc")


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
def test_no_verdict_is_recorded_past_processing(calls: Calls, status: Status) -> None:
    calls.before("VerifyKyc")
    calls.alter(status=status)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls("VerifyKyc")


def test_no_verdict_is_recorded_after_the_deadline(calls: Calls, later: Callable[..., None]) -> None:
    calls.before("VerifyKyc")
    later(minutes=15)

    with calls.writes_nothing(), pytest.raises(DeadlineExceeded):
        calls("VerifyKyc")


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    calls.before("VerifyKyc")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls("VerifyKyc", settlement)
