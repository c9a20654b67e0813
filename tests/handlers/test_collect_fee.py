"""CollectFee: the last movement, and the outcome of the whole settlement, in one call."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import IdempotencyConflict, InvalidRequest, StepFenced
from settlement.model.status import Status
from tests.handlers.calls import (
    CLAIMED_AT,
    KEY,
    LATER_AT,
    MALFORMED_SETTLEMENTS,
    WIRE,
    Calls,
)

SETTLED = WIRE | {
    "status": "SETTLED",
    "escrow": "0.00",
    "steps": ["hold", "verify", "release", "fee"],
    "reversed": [],
    "failure": None,
    "replayed": False,
    "claimed_at": CLAIMED_AT,
    "finished_at": LATER_AT,
}


def collect(calls: Calls, settlement: Any = WIRE) -> Any:
    return calls("CollectFee", settlement, claimed_at=CLAIMED_AT)


def test_the_first_call_settles(calls: Calls, later: Callable[[], None]) -> None:
    calls.before("CollectFee")
    later()

    assert collect(calls) == SETTLED

    assert (calls.row()["status"], calls.row()["escrow"]) == ("SETTLED", 0)
    fee = calls.ledger.row({"pk": f"SETTLEMENT#{KEY}", "sk": f"{KEY}:fee"})
    assert fee is not None
    assert (fee["credit"], fee["amount"]) == ("fees:EUR", 48)


def test_a_replay_gives_the_same_result(calls: Calls, later: Callable[..., None]) -> None:
    calls.before("CollectFee")
    later()
    collect(calls)
    later(days=30)

    with calls.writes_nothing():
        assert collect(calls) == SETTLED


@pytest.mark.parametrize("fee", ["0.48", "0.00"])
def test_the_outcome_equals_a_later_report_except_for_replayed(
    calls: Calls, later: Callable[[], None], fee: str
) -> None:
    settlement = WIRE | {"fee": fee}
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 500)
    claimed = calls("ClaimKey", settlement)
    for state in ("HoldFunds", "VerifyKyc", "ReleaseFunds"):
        calls(state, settlement)
    later()

    outcome = calls("CollectFee", settlement, claimed_at=claimed["claimed_at"])

    reported = calls.report(settlement, replayed=True)
    assert outcome | {"replayed": True} == reported
    assert list(outcome) == list(reported)
    assert outcome["replayed"] is False


@pytest.mark.parametrize("prepare", [Calls.before, Calls.after])
def test_other_content_is_refused(calls: Calls, prepare: Callable[[Calls, str], Any]) -> None:
    prepare(calls, "CollectFee")

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        collect(calls, WIRE | {"amount": "48.21"})


@pytest.mark.parametrize("state", ["HoldFunds", "VerifyKyc", "ReleaseFunds"])
def test_no_fee_is_collected_before_the_release(calls: Calls, state: str) -> None:
    calls.before(state)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        collect(calls)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
def test_no_fee_is_collected_past_processing(calls: Calls, status: Status) -> None:
    calls.before("CollectFee")
    calls.alter(status=status)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        collect(calls)


def test_the_fee_is_collected_after_the_deadline_too(calls: Calls, later: Callable[..., None]) -> None:
    calls.before("CollectFee")
    later(days=30)

    assert collect(calls)["status"] == "SETTLED"


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    calls.before("CollectFee")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        collect(calls, settlement)
