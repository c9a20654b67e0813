"""EnterLimbo makes its case of the step that failed, and only if that step is stuck."""

from collections.abc import Callable

import pytest

from settlement.ledger import keys
from settlement.model.errors import EscrowMismatch, ResolutionRefused, StepFenced
from tests.handlers.calls import KEY, ORDER, REJECTED_BY_KYC, SPENT, Calls

NEVER_COMMITTED = [
    ("ClaimKey", "fee", "fees:EUR"),
    ("ClaimKey", "release", "bob"),
    ("ClaimKey", "hold", "alice"),
    ("VerifyKyc", "release", "bob"),
    ("ReleaseFunds", "fee", "fees:EUR"),
]


def not_stuck(step: str) -> str:
    return f"^limbo: the reversal of {step} of {KEY} is not what is stuck now$"


@pytest.mark.parametrize("step", ["fee", "release", "hold"])
@pytest.mark.parametrize(
    ("state", "reversed_"),
    [("ClaimKey", set()), ("HoldFunds", {"hold"}), ("CollectFee", {"fee", "release", "hold"})],
)
def test_a_compensation_that_succeeded_after_all_is_not_stuck(
    calls: Calls, state: str, reversed_: set[str], step: str
) -> None:
    calls.after(state)
    found = calls.begin(**({"reversal": ORDER} if state == "CollectFee" else {"error": SPENT}))
    calls.unwind(found)

    message = not_stuck(step) if step in reversed_ else "^limbo: the settlement is COMPENSATED"
    with calls.writes_nothing(), pytest.raises(StepFenced, match=message):
        calls.limbo(found, step=step)


@pytest.mark.parametrize(("step", "state"), [("fee", "RefundFee"), ("release", "ReclaimFunds")])
def test_a_reversal_that_committed_though_its_answer_was_lost_is_not_stuck_and_the_next_was_not_tried(
    calls: Calls, step: str, state: str, counted: Callable[[], dict[str, float]]
) -> None:
    found = calls.reopened(state)
    calls.reverse(state, found)
    counted()

    with calls.writes_nothing(), pytest.raises(StepFenced, match=not_stuck(step)):
        calls.limbo(found, step=step, error={"Error": "States.Timeout", "Cause": ""})

    assert counted() == {"StepCalled": 1, "StepFenced": 1}
    assert calls.begin(found | {"error": {"Error": "StepFenced"}})["reversed"] == sorted(
        calls.row()["reversed"]
    )


@pytest.mark.parametrize(("step", "state"), [("fee", "RefundFee"), ("release", "ReclaimFunds")])
def test_a_function_that_never_answers_is_a_case_though_its_step_is_known_to_be_reversed(
    calls: Calls, step: str, state: str
) -> None:
    """Otherwise the machine would return to it, and it would fail again, without end."""
    calls.reverse(state, calls.reopened(state))
    known = calls.begin()
    assert step in known["reversed"]

    calls.limbo(known, step=step, error={"Error": "States.Timeout", "Cause": ""})

    assert calls.entry("limbo:1")["error"] == "States.Timeout"
    row = calls.row()
    assert (row["status"], row["stuck_step"]) == ("LIMBO", f"compensate:{step}")
    assert calls.alert(known)["alert"]["amount_at_risk"] == "0.00"
    for account in ("alice", "bob"):
        assert "limbo_keys" not in (calls.ledger.row(keys.account(account)) or {})
    with pytest.raises(ResolutionRefused, match=r"^write-off: "):
        calls.resolve("write-off")
    calls.resolve("retry")
    assert calls.row()["status"] == "COMPENSATING"


@pytest.mark.parametrize(("last", "step", "account"), NEVER_COMMITTED)
def test_a_step_that_never_committed_makes_a_case_that_blocks_no_account_and_no_money(
    calls: Calls, last: str, step: str, account: str
) -> None:
    calls.after(last)
    found = calls.begin(error=REJECTED_BY_KYC)
    before = {name: calls.account(name) for name in ("alice", "bob")}

    calls.limbo(found, step=step, error={"Error": "StoreUnavailable", "Cause": "DynamoDB: x"})

    assert (calls.entry("limbo:1")["account"], calls.row()["stuck_step"]) == (account, f"compensate:{step}")
    assert {name: calls.account(name) for name in before} == before
    alert = calls.alert(found)["alert"]
    assert (alert["account"], alert["stuck_step"], alert["amount_at_risk"]) == (
        account,
        f"compensate:{step}",
        "0.00",
    )


@pytest.mark.parametrize(
    ("step", "account", "blocked_account"),
    [("fee", "fees:EUR", None), ("release", "bob", "bob"), ("hold", "alice", "alice")],
)
def test_the_case_is_about_the_step_that_failed_and_not_about_the_first_that_is_due(
    calls: Calls, step: str, account: str, blocked_account: str | None
) -> None:
    found = calls.reopened("RefundFee")

    calls.limbo(found, step=step)

    assert (calls.entry("limbo:1")["account"], calls.row()["stuck_step"]) == (account, f"compensate:{step}")
    in_limbo = [name for name in ("alice", "bob") if "limbo_keys" in calls.account(name)]
    assert in_limbo == ([blocked_account] if blocked_account else [])


@pytest.mark.parametrize("length", [100, 101])
def test_a_long_error_is_cut(calls: Calls, length: int) -> None:
    found = calls.reopened("ReclaimFunds")

    calls.limbo(found, error={"Error": "E" * length, "Cause": "x" * 501})

    kept = {"error": "E" * 100, "cause": "x" * 500}
    assert calls.row()["failure"] == {"step": "compensate:release", **kept}
    assert kept.items() <= calls.entry("limbo:1").items()


@pytest.mark.parametrize(("last", "step", "account"), NEVER_COMMITTED)
def test_a_case_of_a_step_that_never_committed_is_left_by_a_retry_and_not_by_a_write_off(
    calls: Calls, last: str, step: str, account: str
) -> None:
    calls.after(last)
    calls.limbo(calls.begin(error=REJECTED_BY_KYC), step=step)
    with (
        calls.writes_nothing(),
        pytest.raises(ResolutionRefused, match=r"^write-off: the escrow lacks nothing that could be covered"),
    ):
        calls.resolve("write-off")

    resolved = calls.resolve("retry")
    calls.unwind(calls.begin(resolved))

    assert resolved["notice"]["account"] == account
    assert (calls.row()["status"], calls.row()["escrow"]) == ("COMPENSATED", 0)
    assert calls.account("alice") == {"available": 10_000, "currency": "EUR"}
    assert calls.account("bob") == {"available": 500, "currency": "EUR"}


def test_a_case_of_a_fee_that_never_committed_is_completed_with_what_is_in_escrow(calls: Calls) -> None:
    calls.after("ReleaseFunds")
    calls.limbo(calls.begin(error=REJECTED_BY_KYC), step="fee")

    calls.resolve("complete")

    assert (calls.entry("resolve:1")["credit"], calls.entry("resolve:1")["amount"]) == ("fees:EUR", 48)
    assert (calls.row()["status"], calls.row()["escrow"]) == ("SETTLED", 0)


@pytest.mark.parametrize("escrow", [4819, 4821])
def test_an_escrow_that_holds_another_amount_waits_for_a_person_and_resumes_when_it_is_right(
    calls: Calls, escrow: int
) -> None:
    found = calls.reopened("VoidHold")
    calls.alter(escrow=escrow)
    with pytest.raises(EscrowMismatch) as mismatch:
        calls.reverse("VoidHold", found)
    calls.limbo(found, step="hold", error={"Error": "EscrowMismatch", "Cause": str(mismatch.value)})
    assert calls.row()["failure"]["error"] == "EscrowMismatch"
    assert calls.account("alice")["limbo_keys"] == {KEY}

    calls.alter(escrow=4820)
    calls.unwind(calls.begin(calls.resolve("retry")))

    assert (calls.row()["status"], calls.row()["escrow"]) == ("COMPENSATED", 0)
    assert calls.account("alice") == {"available": 10_000, "currency": "EUR"}
