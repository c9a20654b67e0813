"""BeginCompensation for an execution that says who it is: it reverses nothing that another one drives."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.errors import IdempotencyConflict, InvalidRequest, StepFenced
from settlement.rows import Row
from settlement.status import Status
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
"""The execution that has claimed the key, and what it says if a step of its own has failed."""

ANOTHER = [
    pytest.param("execution-2", id="another"),
    pytest.param("execution-10", id="a longer name"),
    pytest.param("execution-", id="a shorter name"),
    pytest.param("EXECUTION-1", id="upper case"),
    pytest.param("compensation-1", id="the compensating execution"),
    pytest.param("", id="the empty name"),
]


def nothing_to_do(state: str) -> Row:
    """What is found after `state` by an execution that has nothing to reverse."""
    progress = {parameters.values[0]: parameters.values[1] for parameters in PROGRESS}
    return FOUND | {"steps": progress[state], "finished": True}


@pytest.mark.parametrize(("state", "committed", "failed"), PROGRESS[:-1])
@pytest.mark.parametrize("more", [{"owner": BEFORE}, {"owner": None}, {}])
def test_the_owner_is_fenced_off_like_one_that_does_not_say_who_it_is(
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


def test_the_owner_gets_everything_back_and_a_second_call_finds_the_same(calls: Calls) -> None:
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
def test_what_another_execution_drives_stands_and_is_finished_for_this_one(
    calls: Calls, counted: Counted, state: str, owner: str
) -> None:
    calls.after(state)
    counted()

    with calls.writes_nothing():
        assert calls.begin(error=REJECTED_BY_KYC, owner=owner) == nothing_to_do(state)

    assert calls.row()["status"] == Status.PROCESSING
    assert counted() == {"StepCalled": 1}


@pytest.mark.parametrize("state", ["ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds"])
def test_what_this_one_was_refused_the_other_one_settles(calls: Calls, state: str) -> None:
    calls.after(state)
    calls.begin(error=REJECTED_BY_KYC, owner="execution-2")

    states = ("ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee")
    for following in states[states.index(state) + 1 :]:
        calls(following, claimed_at=CLAIMED_AT)

    assert (calls.row()["status"], calls.row()["escrow"]) == ("SETTLED", 0)
    assert calls.account("bob") == {"available": 500 + 4772, "currency": "EUR"}


@pytest.mark.parametrize(("decision", "steps"), [("APPROVED", ["hold", "verify"]), ("REJECTED", ["hold"])])
def test_the_execution_from_which_a_webhook_has_taken_it_reverses_nothing(
    parked: Calls, decision: str, steps: list[str]
) -> None:
    parked.decided(signed(decision=decision))

    with parked.writes_nothing():
        assert parked.begin(**MINE) == FOUND | {"steps": steps, "finished": True}
        assert parked("ReportOutcome", execution="compensation-1", replayed=False)["status"] == "PROCESSING"


def test_what_a_webhook_has_approved_settles_though_its_first_execution_wants_it_reversed(
    parked: Calls,
) -> None:
    parked.decided(signed())
    parked.begin(**MINE)

    for state in ("ReleaseFunds", "CollectFee"):
        parked.begin(**MINE)
        parked(state, execution=OWNER, claimed_at=CLAIMED_AT)

    assert (parked.row()["status"], parked.account("bob")["available"]) == ("SETTLED", 500 + 4772)


def test_what_a_webhook_has_rejected_its_own_execution_reverses(parked: Calls) -> None:
    parked.decided(signed(decision="REJECTED"))

    parked.unwind(parked.begin(error=REJECTED_BY_KYC, owner=OWNER))

    assert (parked.row()["status"], parked.account("alice")["available"]) == ("COMPENSATED", 10_000)


def test_a_webhook_that_comes_after_it_is_begun_to_be_reversed_is_refused(parked: Calls) -> None:
    found = parked.begin(error=REJECTED_BY_KYC)

    with parked.writes_nothing():
        status, content = parked.decided(signed())

    assert (status, content["error"]) == (409, "StepFenced")
    parked.unwind(found)
    assert parked.account("alice")["available"] == 10_000


def test_a_webhook_that_comes_while_its_first_execution_asks_is_not_reversed(
    parked: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = parked.ledger.store.__class__
    update = store.update

    def decided_first(self: Any, write: Any) -> Any:
        monkeypatch.setattr(store, "update", update)
        assert parked.decided(signed())[0] == 200
        return self.update(write)

    monkeypatch.setattr(store, "update", decided_first)

    with pytest.warns(UserWarning, match="No application metrics"):  # the webhook has published them all
        found = parked.begin(**MINE)

    assert found == FOUND | {"steps": ["hold", "verify"], "finished": True}
    assert (parked.row()["status"], parked.row()["owner"]) == ("PROCESSING", OWNER)


@pytest.mark.parametrize("owner", [BEFORE, "execution-2"])
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
def test_past_processing_it_does_not_matter_who_asks(calls: Calls, status: Status, owner: str) -> None:
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
def test_a_key_that_nobody_has_claimed_is_taken_whoever_asks(calls: Calls, owner: str) -> None:
    found = calls.begin(error=REJECTED_BY_KYC, owner=owner)

    assert found == FOUND | {"finished": True}
    assert calls.ledger.rows() == [UNCLAIMED]
    with pytest.raises(StepFenced):
        calls("HoldFunds", execution=owner)


@pytest.mark.parametrize("owner", [BEFORE, "execution-2"])
@pytest.mark.parametrize("other", OTHER_CONTENT)
def test_other_content_is_refused_whoever_asks(calls: Calls, other: dict[str, str], owner: str) -> None:
    calls.after("HoldFunds")

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls.begin(settlement=other, error=REJECTED_BY_KYC, owner=owner)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("owner", [0, 7, 1.5, True, False, [], ["execution-1"], {}, {"owner": BEFORE}])
@pytest.mark.parametrize("state", [None, "HoldFunds", "CollectFee"])
def test_an_owner_that_is_no_name_is_refused_before_anything_is_written(
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
def test_a_person_s_order_is_good_whoever_owns_it(calls: Calls, state: str, order: dict[str, str]) -> None:
    calls.after(state)

    calls.unwind(calls.begin(reversal=order, owner="execution-2"))

    assert (calls.row()["status"], calls.account("alice")["available"]) == ("COMPENSATED", 10_000)


@pytest.mark.parametrize("stuck", LIMBO_AFTER)
def test_a_machine_that_comes_back_is_driven_on_whoever_began_it(calls: Calls, stuck: str) -> None:
    calls.after("ReleaseFunds" if stuck == "fee" else LIMBO_AFTER[stuck])
    found = calls.begin(**(MINE if stuck in ("hold", "nothing") else {"error": REJECTED_BY_KYC}))

    with calls.writes_nothing():
        assert calls.begin(found | {"error": {"Error": "StepFenced"}, "owner": "execution-2"}) == found


def test_recovery_does_not_ask_who_owns_what_it_gives_back(
    parked: Calls, later: Callable[..., None], starts: Any
) -> None:
    parked.decided(signed())
    later(minutes=15)
    parked.recover()
    compensation = starts.made[-1]

    assert compensation[0] == "Compensation"
    assert "owner" not in compensation[2]
    parked.unwind(parked.begin(compensation[2]))
    assert (parked.row()["status"], parked.account("alice")["available"]) == ("COMPENSATED", 10_000)
