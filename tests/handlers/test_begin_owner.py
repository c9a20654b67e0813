"""BeginCompensation for an execution that names itself: it reverses no settlement of another owner."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.ledger.keys import Row
from settlement.model.errors import IdempotencyConflict, InvalidRequest, StepFenced
from settlement.model.status import Status
from tests.handlers.calls import (
    CLAIMED_AT,
    LIMBO_AFTER,
    ORDER,
    OTHER_CONTENT,
    REJECTED_BY_KYC,
    STALLED_ORDER,
    Calls,
)
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import OWNER, signed
from tests.handlers.test_begin_compensation import FOUND, PROGRESS, UNCLAIMED

BEFORE, MINE = "execution-1", {"owner": "execution-1", "error": REJECTED_BY_KYC}
"""The execution that has claimed the key, and its input after a failed step."""

ANOTHER = [
    pytest.param("execution-2", id="another"),
    pytest.param("execution-10", id="a longer name"),
    pytest.param("execution-", id="a shorter name"),
    pytest.param("EXECUTION-1", id="upper case"),
    pytest.param("compensation-1", id="the compensating execution"),
    pytest.param("", id="the empty name"),
]


def nothing_to_do(state: str) -> Row:
    """Return the machine's state after `state` for an execution that has nothing to reverse."""
    progress = {parameters.values[0]: parameters.values[1] for parameters in PROGRESS}
    return FOUND | {"steps": progress[state], "finished": True}


@pytest.mark.parametrize(("state", "committed", "failed"), PROGRESS[:-1])
@pytest.mark.parametrize("more", [{"owner": BEFORE}, {"owner": None}, {}])
def test_the_owner_reverses_its_settlement_like_a_caller_without_a_name(
    calls: Calls, counted: Counted, state: str, committed: list[str], failed: str, more: dict[str, Any]
) -> None:
    calls.after(state)
    before = calls.row()
    counted()

    found = calls.begin(error=REJECTED_BY_KYC, **more)

    assert found == FOUND | {"steps": committed}
    failure = {"step": failed, "error": "KycRejected", "cause": "kyc: the provider says no"}
    taken_away = {"status": "COMPENSATING", "failure": failure, "reversed_for": failure, "resolutions": 0}
    assert calls.row() == before | taken_away | {"owner": "compensation-1"}
    assert counted() == {"StepCalled": 1}


def test_the_owner_compensates_and_a_second_call_finds_the_same(calls: Calls) -> None:
    calls.after("VerifyKyc")
    found = calls.begin(**MINE)

    with calls.writes_nothing():
        assert calls.begin(**MINE) == found
    calls.unwind(found)

    assert (calls.row()["status"], calls.row()["escrow"]) == ("COMPENSATED", 0)
    assert calls.account("alice") == {"available": 10_000, "currency": "EUR"}
    assert calls.account("bob") == {"available": 500, "currency": "EUR"}


@pytest.mark.parametrize("state", [parameters.values[0] for parameters in PROGRESS])
@pytest.mark.parametrize("owner", ANOTHER)
def test_a_settlement_of_another_owner_is_left_and_reported_as_finished(
    calls: Calls, counted: Counted, state: str, owner: str
) -> None:
    calls.after(state)
    counted()

    with calls.writes_nothing():
        assert calls.begin(error=REJECTED_BY_KYC, owner=owner) == nothing_to_do(state)

    assert calls.row()["status"] == Status.PROCESSING
    assert counted() == {"StepCalled": 1}


@pytest.mark.parametrize("state", ["ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds"])
def test_a_settlement_that_this_execution_may_not_reverse_is_settled_by_its_owner(
    calls: Calls, state: str
) -> None:
    calls.after(state)
    calls.begin(error=REJECTED_BY_KYC, owner="execution-2")

    states = ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee")
    for following in states[states.index(state) + 1 :]:
        calls(following, claimed_at=CLAIMED_AT)

    assert (calls.row()["status"], calls.row()["escrow"]) == ("SETTLED", 0)
    assert calls.account("bob") == {"available": 500 + 4772, "currency": "EUR"}


@pytest.mark.parametrize(("decision", "steps"), [("APPROVED", ["hold", "verify"]), ("REJECTED", ["hold"])])
def test_the_owner_before_a_webhook_reverses_nothing(
    in_review: Calls, decision: str, steps: list[str]
) -> None:
    in_review.decided(signed(decision=decision))

    with in_review.writes_nothing():
        assert in_review.begin(**MINE) == FOUND | {"steps": steps, "finished": True}
        assert in_review.report(replayed=False, error=REJECTED_BY_KYC)["status"] == "PROCESSING"
        assert in_review.report(execution="compensation-1")["status"] == "PROCESSING"


def test_a_settlement_approved_by_a_webhook_settles_even_if_its_first_owner_asks_for_a_reversal(
    in_review: Calls,
) -> None:
    in_review.decided(signed())
    in_review.begin(**MINE)

    for state in ("ReleaseFunds", "CollectFee"):
        in_review.begin(**MINE)
        in_review(state, execution=OWNER, claimed_at=CLAIMED_AT)

    assert (in_review.row()["status"], in_review.account("bob")["available"]) == ("SETTLED", 500 + 4772)


def test_a_settlement_rejected_by_a_webhook_is_reversed_by_its_new_owner(in_review: Calls) -> None:
    in_review.decided(signed(decision="REJECTED"))

    in_review.unwind(in_review.begin(error=REJECTED_BY_KYC, owner=OWNER))

    assert (in_review.row()["status"], in_review.account("alice")["available"]) == ("COMPENSATED", 10_000)


def test_a_webhook_after_the_beginning_of_a_reversal_is_refused(in_review: Calls) -> None:
    found = in_review.begin(error=REJECTED_BY_KYC)

    with in_review.writes_nothing():
        status, content = in_review.decided(signed())

    assert (status, content["error"]) == (409, "StepFenced")
    in_review.unwind(found)
    assert in_review.account("alice")["available"] == 10_000


def test_a_webhook_that_wins_the_race_against_a_reversal_is_not_reversed(
    in_review: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = in_review.ledger.store.__class__
    update = store.update

    def decided_first(self: Any, write: Any) -> Any:
        monkeypatch.setattr(store, "update", update)
        assert in_review.decided(signed())[0] == 200
        return self.update(write)

    monkeypatch.setattr(store, "update", decided_first)

    with pytest.warns(UserWarning, match="No application metrics"):  # the webhook has published all of them
        found = in_review.begin(**MINE)

    assert found == FOUND | {"steps": ["hold", "verify"], "finished": True}
    assert (in_review.row()["status"], in_review.row()["owner"]) == ("PROCESSING", OWNER)


@pytest.mark.parametrize("owner", [BEFORE, "execution-2"])
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
def test_past_processing_the_owner_does_not_matter(calls: Calls, status: Status, owner: str) -> None:
    calls.after("HoldFunds")
    calls.alter(status=status, resolutions=0)

    with calls.writes_nothing():
        found = calls.begin(error=REJECTED_BY_KYC, owner=owner)

    assert found == FOUND | {
        "steps": ["hold"],
        "finished": status in (Status.SETTLED, Status.REJECTED, Status.COMPENSATED),
        "in_limbo": status is Status.LIMBO,
    }


@pytest.mark.parametrize("owner", [BEFORE, "execution-2"])
def test_an_unclaimed_key_gets_a_tombstone_for_every_owner(calls: Calls, owner: str) -> None:
    found = calls.begin(error=REJECTED_BY_KYC, owner=owner)

    assert found == FOUND | {"finished": True}
    assert calls.ledger.rows() == [UNCLAIMED]
    with pytest.raises(StepFenced):
        calls("HoldFunds", execution=owner)


@pytest.mark.parametrize("owner", [BEFORE, "execution-2"])
@pytest.mark.parametrize("other", OTHER_CONTENT)
def test_other_content_is_refused_for_every_owner(calls: Calls, other: dict[str, str], owner: str) -> None:
    calls.after("HoldFunds")

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls.begin(settlement=other, error=REJECTED_BY_KYC, owner=owner)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("owner", [0, 7, 1.5, True, False, [], ["execution-1"], {}, {"owner": BEFORE}])
@pytest.mark.parametrize("state", [None, "HoldFunds", "CollectFee"])
def test_an_owner_that_is_no_name_is_refused_before_any_write(
    calls: Calls, counted: Counted, state: str | None, owner: Any
) -> None:
    if state:
        calls.after(state)
    counted()

    with (
        calls.writes_nothing(),
        pytest.raises(InvalidRequest, match=r"^owner: must be the name of an execution$"),
    ):
        calls.begin(error=REJECTED_BY_KYC, owner=owner)

    assert counted() == {"StepCalled": 1, "InvalidRequest": 1}


@pytest.mark.parametrize(
    ("state", "order"), [("CollectFee", ORDER), ("ReleaseFunds", STALLED_ORDER), ("HoldFunds", STALLED_ORDER)]
)
def test_a_persons_order_is_carried_out_for_every_owner(
    calls: Calls, state: str, order: dict[str, str]
) -> None:
    calls.after(state)

    calls.unwind(calls.begin(reversal=order, owner="execution-2"))

    assert (calls.row()["status"], calls.account("alice")["available"]) == ("COMPENSATED", 10_000)


@pytest.mark.parametrize("stuck", LIMBO_AFTER)
def test_a_machine_that_returns_resumes_for_every_owner(calls: Calls, stuck: str) -> None:
    calls.after("ReleaseFunds" if stuck == "fee" else LIMBO_AFTER[stuck])
    found = calls.begin(**(MINE if stuck in ("hold", "nothing") else {"error": REJECTED_BY_KYC}))

    with calls.writes_nothing():
        assert calls.begin(found | {"error": {"Error": "StepFenced"}, "owner": "execution-2"}) == found


def test_recovery_reverses_without_regard_to_the_owner(
    in_review: Calls, later: Callable[..., None], starts: Any
) -> None:
    in_review.decided(signed())
    later(minutes=15)
    in_review.recover()
    compensation = starts.made[-1]

    assert compensation[0] == "Compensation"
    assert "owner" not in compensation[2]
    in_review.unwind(in_review.begin(compensation[2]))
    assert (in_review.row()["status"], in_review.account("alice")["available"]) == ("COMPENSATED", 10_000)
