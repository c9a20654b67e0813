from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import (
    AlreadyClaimed,
    IdempotencyConflict,
    InvalidRequest,
    ResolutionRefused,
)
from settlement.core.model.status import Status
from tests.handlers.conftest import Calls
from tests.world.constants import KEY, LATER_AT, ORDER, OTHER_CONTENT, REJECTED_BY_KYC, STALLED_ORDER, WIRE
from tests.world.orders import PROOF
from tests.world.services import OWNER, signed

FOUND = {
    "settlement": WIRE,
    "steps": [],
    "reversed": [],
    "finished": False,
    "in_limbo": False,
    "fee_due": False,
    "release_due": False,
    "case": 1,
    "alerts": 0,
}
HELD = FOUND | {"steps": ["hold"]}
RELEASED = FOUND | {"steps": ["hold", "release", "verify"], "release_due": True}
SETTLED = RELEASED | {"steps": ["fee", "hold", "release", "verify"], "fee_due": True}
FAILURE = {"step": "verify", "error": "KycRejected", "cause": "kyc: the provider says no"}
MINE: dict[str, Any] = {"owner": "execution-1", "error": REJECTED_BY_KYC}
"""Input of the claiming execution after a failed step."""

NO_CAUSE = r"^input: must have the error for which it is to be compensated$"
UNCLAIMED = f"^input: compensate: the key {KEY} was never claimed$"
# A failed step


@pytest.mark.parametrize("more", [{"owner": "execution-1"}, {"owner": None}, {}])
def test_begin_takes_over_processing_and_returns_the_committed_steps(
    calls: Calls, more: dict[str, Any]
) -> None:
    calls.after("HoldFunds")
    before, others = calls.row(), calls.ledger.rows()
    calls.counted()

    assert calls.begin(error=REJECTED_BY_KYC, **more) == HELD

    row = calls.row()
    assert (row["status"], row["failure"], row["owner"]) == ("COMPENSATING", FAILURE, "compensation-1")
    assert calls.ledger.rows() == [row if other == before else other for other in others]
    with calls.writes_nothing():
        assert calls.begin(error={"Error": "States.Timeout"}, **more) == HELD
    assert calls.counted() == {"StepCalled": 2}


@pytest.mark.parametrize("owner", [{}, {"owner": "execution-2"}])
def test_an_unclaimed_key_gets_a_tombstone_against_a_late_claim(calls: Calls, owner: dict[str, str]) -> None:
    assert calls.begin(error=REJECTED_BY_KYC, **owner) == FOUND | {"finished": True}

    (row,) = calls.ledger.rows()
    assert (row["status"], row["escrow"], row["owner"]) == ("REJECTED", 0, "compensation-1")
    assert row["failure"] == FAILURE | {"step": "claim"}
    calls.later()
    with calls.writes_nothing(), pytest.raises(AlreadyClaimed, match="is REJECTED"):
        calls("HoldFunds")


REFUSED = {"Error": "AccountInLimbo", "Cause": "payer: the account is in LIMBO"}


@pytest.mark.parametrize("owned", [True, False])
def test_a_claimed_key_without_a_hold_is_rejected(calls: Calls, owned: bool) -> None:
    owner = calls.claimed()
    before, others = calls.row(), calls.ledger.rows()
    calls.later()
    calls.counted()

    assert calls.begin(error=REFUSED, **({"owner": owner} if owned else {})) == FOUND | {"finished": True}
    assert calls.counted() == {"StepCalled": 1, "Rejected": 1}

    kept = {name: before[name] for name in before if name not in ("gsi1pk", "gsi1sk")}
    failure = {"step": "hold", "error": "AccountInLimbo", "cause": "payer: the account is in LIMBO"}
    after = kept | {"status": "REJECTED", "failure": failure, "finished_at": LATER_AT, "sequence": 2}
    assert calls.ledger.rows() == [after if row == before else row for row in others]
    with calls.writes_nothing():
        assert calls.begin(error=REFUSED, owner=owner) == FOUND | {"finished": True}
        with pytest.raises(AlreadyClaimed, match="is REJECTED"):
            calls("HoldFunds", execution=owner)


def test_a_key_claimed_by_another_owner_is_left_alone(calls: Calls) -> None:
    calls.claimed()

    with calls.writes_nothing():
        assert calls.begin(**MINE) == FOUND | {"finished": True}


def test_a_hold_that_beats_the_rejection_is_reversed(calls: Calls) -> None:
    owner = calls.claimed()
    calls.meanwhile(_dependencies.store, "update", lambda: calls("HoldFunds", execution=owner))

    with pytest.warns(UserWarning, match="No application metrics"):  # the hold has published all of them
        found = calls.begin(error=REJECTED_BY_KYC, owner=owner)

    assert found == HELD
    assert (calls.row()["status"], calls.row()["owner"]) == ("COMPENSATING", "compensation-1")


def test_a_settlement_of_another_owner_is_left_and_reported_finished(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.counted()

    with calls.writes_nothing():
        assert calls.begin(error=REJECTED_BY_KYC, owner="execution-2") == HELD | {"finished": True}

    assert calls.counted() == {"StepCalled": 1}


def test_an_execution_does_not_reverse_its_settlement_during_a_review(in_review: Calls) -> None:
    with in_review.writes_nothing():
        assert in_review.begin(**MINE) == HELD | {"finished": True}

    assert in_review.decided(signed())[0] == 200


def test_a_settlement_that_a_webhook_resumes_meanwhile_is_not_reversed(in_review: Calls) -> None:
    in_review.meanwhile(_dependencies.store, "update", lambda: in_review.decided(signed()))

    with pytest.warns(UserWarning, match="No application metrics"):  # the webhook has published all of them
        found = in_review.begin(**MINE)

    assert found == FOUND | {"steps": ["hold", "verify"], "finished": True}
    assert (in_review.row()["status"], in_review.row()["owner"]) == ("PROCESSING", OWNER)


# No cause: a machine that resumes


@pytest.mark.parametrize(
    ("state", "message"), [(None, UNCLAIMED), ("HoldFunds", NO_CAUSE), ("ReleaseFunds", NO_CAUSE)]
)
@pytest.mark.parametrize("more", [{}, {"case": 1}, {"order": "reverse"}])
def test_a_call_without_a_cause_fences_no_settlement_in_flight(
    calls: Calls, state: str | None, message: str, more: dict[str, Any]
) -> None:
    if state:
        calls.after(state)
    calls.counted()

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.begin(**more)

    assert calls.counted() == {"StepCalled": 1, "InvalidRequest": 1}


@pytest.mark.parametrize(
    "back",
    [
        {"error": {"Error": "StepFenced", "Cause": "x"}},
        {"alert": {"key": KEY}, "wait_seconds": 1800, "alerts": 7, "error": {"Error": "StepFenced"}},
        {"steps": ["fee"], "reversed": ["hold"], "finished": True, "fee_due": True},
    ],
    ids=["from a fenced reversal", "from a late alert", "with an outdated state"],
)
def test_a_returning_machine_reads_the_row_again_and_owns_it(calls: Calls, back: dict[str, Any]) -> None:
    calls.after("HoldFunds")
    found = calls.begin(error=REJECTED_BY_KYC)
    before = calls.row()

    assert calls.begin_as("the-second", found | back) == HELD

    assert calls.row() == before | {"owner": "the-second"}
    calls.later(seconds=30)
    calls.recover()
    assert [arn.rpartition(":")[2] for arn in calls.step_functions.described] == ["the-second"]


@pytest.mark.parametrize("execution", [None, 7, ["compensation-1"]])
def test_an_execution_without_a_name_is_refused_before_any_write(calls: Calls, execution: Any) -> None:
    calls.after("CollectFee")
    message = r"^execution: must be the name of an execution$"

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.begin_as(execution, {"settlement": WIRE, "order": "reverse"})


# A person's order to reverse


@pytest.mark.parametrize(
    ("state", "order", "found"),
    [
        ("CollectFee", ORDER, SETTLED),
        ("ReleaseFunds", STALLED_ORDER, RELEASED),
        ("HoldFunds", STALLED_ORDER, HELD),
    ],
)
def test_an_order_reverses_a_settlement_and_records_the_person(
    calls: Calls, state: str, order: dict[str, str], found: Row
) -> None:
    calls.after(state)
    calls.later()
    calls.counted()

    assert calls.begin(reversal=order, owner="execution-2") == found  # the owner does not matter to a person

    listed = keys.orders_index(LATER_AT)
    assert calls.entry("reverse") == {"posted_at": LATER_AT, **ORDER, **PROOF, **listed}
    row, cause = calls.row(), f"sent to the wrong shop (by {ORDER['by']})"
    assert (row["status"], row["owner"]) == ("COMPENSATING", "compensation-1")
    assert row["failure"] == {"step": "reverse", "error": "ReversalRequested", "cause": cause}
    other = {"reason": "asked for by the payer", "by": "arn:aws:iam::123456789012:user/bea"}
    with calls.writes_nothing():
        for again in (order, other):  # resumes the first one
            assert calls.begin(reversal=again) == found
    assert calls.counted() == {"StepCalled": 6, "StepReplayed": 2}


def test_a_claimed_key_without_a_hold_is_reversed_on_order(calls: Calls) -> None:
    calls.claimed()

    assert calls.begin(reversal=STALLED_ORDER) == FOUND

    assert (calls.row()["status"], calls.entries()) == ("COMPENSATING", {"reverse"})
    calls.unwind(FOUND)
    assert (calls.row()["status"], calls.account("alice")["available"]) == ("COMPENSATED", 10_000)


# A person's decision on a case of LIMBO


STUCK = RELEASED | {"in_limbo": True}


@pytest.mark.parametrize("case", [1, 2])
def test_an_orders_name_gives_the_case_not_the_decision(calls: Calls, case: int) -> None:
    calls.fall()
    for number in (1, 2):
        calls.limbo(calls.begin(calls.resolve("retry", case=number)))
        calls.step_functions.machines.executions.clear()  # the nonce of the tests is always the same

    with calls.writes_nothing():
        found = calls.begin(order=f"resolve:{case}")

    assert found == STUCK | {"case": 3, "resolution": {"case": case}}


@pytest.mark.parametrize("status", [Status.SETTLED, Status.COMPENSATED])
def test_a_decision_on_a_finished_settlement_only_returns_its_case(calls: Calls, status: Status) -> None:
    calls.fall()
    calls.alter(status=status, resolutions=1)

    with calls.writes_nothing():
        found = calls.begin(order="resolve:1")

    assert found == RELEASED | {"finished": True, "case": 2, "resolution": {"case": 1}}


def test_a_decision_that_is_not_recorded_is_refused_before_writing(calls: Calls) -> None:
    calls.fall()
    calls.alter(resolutions=1)
    calls.counted()

    message = r"^order: case 2 is not decided$"
    with calls.writes_nothing(), pytest.raises(ResolutionRefused, match=message):
        calls.begin(order="resolve:2")

    assert calls.counted() == {"StepCalled": 1, "ResolutionRefused": 1}


def test_a_decision_with_a_different_request_is_a_conflict(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.begin(error=REJECTED_BY_KYC)

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict, match=rf"^key: {KEY} was claimed"):
        calls.begin(settlement=OTHER_CONTENT[0], order="resolve:1")
