"""EnterLimbo: a stuck reversal is on record with its reason, and blocks the account it is stuck on."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.ledger import keys
from settlement.model.errors import AccountInLimbo, IdempotencyConflict, InvalidRequest, StepFenced
from settlement.model.status import Status
from tests.handlers.calls import (
    CLAIMED_AT,
    KEY,
    LATER_AT,
    LIMBO_AFTER,
    MALFORMED_SETTLEMENTS,
    ORDER,
    OTHER_CONTENT,
    REJECTED_BY_KYC,
    SPENT,
    STUCK_STEPS,
    WIRE,
    Calls,
    failed_step,
)

SPENT_ON_RECORD = {"error": "InsufficientFunds", "cause": "payee: has too little"}
PARTIES = {"fee": "fees:EUR", "release": "bob", "hold": "alice", "nothing": "alice"}
REVERSED_BEFORE = {"fee": "RefundFee", "release": "ReclaimFunds"}
STUCK = pytest.mark.parametrize("stuck", STUCK_STEPS)


def not_stuck(step: str) -> str:
    return f"^limbo: the reversal of {step} of {KEY} is not what is stuck now$"


def due(calls: Calls, stuck: str) -> dict[str, Any]:
    """Run a settlement until the reversal of `stuck` is next."""
    calls.after(LIMBO_AFTER[stuck])
    found = calls.begin(**({"reversal": ORDER} if stuck == "fee" else {"error": REJECTED_BY_KYC}))
    calls.unwind(found, REVERSED_BEFORE.get(stuck, "VoidHold"))
    return found


@STUCK
def test_the_settlement_is_in_limbo_and_the_account_that_it_is_stuck_on_is_blocked(
    calls: Calls, later: Callable[[], None], stuck: str
) -> None:
    found = due(calls, stuck)
    before = calls.row()
    accounts = {name: calls.account(name) for name in ("alice", "bob")}
    later()

    assert calls.limbo(found, step=failed_step(stuck)) is None

    evidence = {"account": PARTIES[stuck], **SPENT_ON_RECORD, "posted_at": LATER_AT}
    assert calls.entry("limbo:1") == evidence
    stuck_step = f"compensate:{failed_step(stuck)}"
    assert calls.row() == before | {
        "status": "LIMBO",
        "stuck_step": stuck_step,
        "failure": {"step": stuck_step, **SPENT_ON_RECORD},
        "gsi1pk": "LIMBO",
        "gsi1sk": LATER_AT,
    }
    for name, account in accounts.items():
        block = {"limbo_keys": {KEY}} if name == PARTIES[stuck] and stuck != "nothing" else {}
        assert calls.account(name) == account | block


def test_the_cause_of_the_reversal_is_kept_beside_the_cause_of_the_case(calls: Calls) -> None:
    calls.fall("release")

    row = calls.row()

    assert row["failure"]["error"] == "InsufficientFunds"
    assert row["reversed_for"] == {
        "step": "fee",
        "error": "KycRejected",
        "cause": "kyc: the provider says no",
    }


def test_a_second_settlement_joins_the_first_on_the_account(calls: Calls) -> None:
    found = due(calls, "release")
    calls.ledger.open("bob", 0, limbo_keys={"order-2026-000099"})

    calls.limbo(found)

    assert calls.account("bob")["limbo_keys"] == {"order-2026-000099", KEY}


def test_a_blocked_account_places_no_hold(calls: Calls) -> None:
    calls.fall("hold")
    other = WIRE | {"key": "order-2026-000102"}
    calls("ClaimKey", other)

    with calls.writes_nothing(), pytest.raises(AccountInLimbo):
        calls("HoldFunds", other)


@pytest.mark.parametrize(("stuck", "gone"), [("release", "bob"), ("hold", "alice"), ("nothing", "alice")])
def test_an_account_that_is_gone_does_not_keep_its_settlement_out_of_limbo(
    calls: Calls, later: Callable[[], None], stuck: str, gone: str
) -> None:
    found = due(calls, stuck)
    calls.close(gone)
    later()

    calls.limbo(found, step=failed_step(stuck))

    assert calls.entry("limbo:1") == {"account": gone, **SPENT_ON_RECORD, "posted_at": LATER_AT}
    assert calls.row()["status"] == "LIMBO"
    assert calls.ledger.row(keys.account(gone)) is None
    with calls.writes_nothing():
        calls.limbo(found, step=failed_step(stuck))


@STUCK
@pytest.mark.parametrize("error", [SPENT, {"Error": "States.Timeout", "Cause": ""}])
def test_a_call_whose_answer_was_lost_is_replayed_and_the_first_reason_stays(
    calls: Calls,
    later: Callable[[], None],
    stuck: str,
    error: dict[str, str],
    counted: Callable[[], dict[str, float]],
) -> None:
    found = due(calls, stuck)
    calls.limbo(found, step=failed_step(stuck))
    first = calls.entry("limbo:1")
    later()
    counted()

    with calls.writes_nothing():
        calls.limbo(found, step=failed_step(stuck), error=error)

    assert (calls.entry("limbo:1"), first["posted_at"]) == (first, CLAIMED_AT)
    assert counted() == {"StepCalled": 1, "StepReplayed": 1}


def test_a_case_after_a_decision_has_the_next_number_and_an_entry_of_its_own(calls: Calls) -> None:
    calls.fall("release")
    found = calls.begin(calls.resolve("retry"))

    calls.limbo(found, error={"Error": "StoreUnavailable", "Cause": "DynamoDB: x"})

    assert calls.entry("limbo:1")["error"] == "InsufficientFunds"
    assert calls.entry("limbo:2")["error"] == "StoreUnavailable"
    assert calls.account("bob")["limbo_keys"] == {KEY}


@pytest.mark.parametrize("case", [0, 1, 3])
def test_a_case_that_is_not_open_is_fenced(
    calls: Calls, case: int, counted: Callable[[], dict[str, float]]
) -> None:
    calls.fall("release")
    found = calls.begin(calls.resolve("retry"))
    assert found["case"] == 2
    counted()

    with (
        calls.writes_nothing(),
        pytest.raises(StepFenced, match=not_stuck("release")),
    ):
        calls.limbo(found, case=case)

    assert counted() == {"StepCalled": 1, "StepFenced": 1}


@STUCK
def test_a_settlement_that_is_not_being_reversed_does_not_get_stuck(calls: Calls, stuck: str) -> None:
    calls.after(LIMBO_AFTER[stuck])

    with calls.writes_nothing(), pytest.raises(StepFenced, match=not_stuck(failed_step(stuck))):
        calls.limbo({"case": 1, "reversed": []}, step=failed_step(stuck))


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.COMPENSATING])
@STUCK
def test_only_a_compensation_gets_stuck(calls: Calls, stuck: str, status: Status) -> None:
    found = due(calls, stuck)
    calls.alter(status=status)

    with calls.writes_nothing(), pytest.raises(StepFenced, match=f"^limbo: the settlement is {status} with"):
        calls.limbo(found, step=failed_step(stuck))


@pytest.mark.parametrize(
    "since", [{"resolutions": 1}, {"reversed": {"release"}}, {"status": Status.COMPENSATED}]
)
def test_a_settlement_that_moved_on_between_the_read_and_the_write_is_not_stuck(
    calls: Calls, freeze_reads: Callable[[], None], since: dict[str, Any]
) -> None:
    found = due(calls, "release")
    freeze_reads()
    calls.alter(**since)

    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls.limbo(found)


def test_a_key_that_was_never_claimed_is_not_stuck(calls: Calls) -> None:
    with calls.writes_nothing(), pytest.raises(StepFenced, match=not_stuck("release")):
        calls.limbo({"case": 1, "reversed": []})


@pytest.mark.parametrize("other", OTHER_CONTENT)
@pytest.mark.parametrize("entered", [True, False])
def test_other_content_is_refused(calls: Calls, other: dict[str, str], entered: bool) -> None:
    calls.ledger.open("carol", 10_000)
    found = due(calls, "release")
    if entered:
        calls.limbo(found)

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls.limbo(found, other)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    found = due(calls, "release")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.limbo(found, settlement)
