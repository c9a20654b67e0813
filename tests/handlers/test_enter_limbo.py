import pytest

from settlement.core.ledger import keys
from settlement.core.model.errors import ResolutionRefused, StepFenced
from tests.handlers.conftest import Calls
from tests.world.constants import KEY, LATER_AT, REVERSALS, STUCK_STEPS
from tests.world.functions import failed_step

ON_RECORD = {"error": "InsufficientFunds", "cause": "payee: has too little"}
PARTIES = {"fee": "fees:EUR", "release": "bob", "hold": "alice", "nothing": "alice"}
STATES = {step: state for state, step in REVERSALS.items()}
TIMED_OUT = {"Error": "States.Timeout", "Cause": ""}


def not_stuck(step: str) -> str:
    return f"^limbo: the reversal of {step} of {KEY} is not what is stuck now$"


@pytest.mark.parametrize("stuck", STUCK_STEPS)
def test_entering_limbo_blocks_the_stuck_account(calls: Calls, stuck: str) -> None:
    found = calls.stuck(stuck)
    before = calls.row()
    accounts = {name: calls.account(name) for name in ("alice", "bob")}
    calls.later()

    assert calls.limbo(found, step=failed_step(stuck)) is None

    assert calls.entry("limbo:1") == {"account": PARTIES[stuck], **ON_RECORD, "posted_at": LATER_AT}
    stuck_step = f"compensate:{failed_step(stuck)}"
    assert calls.row() == before | {
        "status": "LIMBO",
        "sequence": before["sequence"] + 1,
        "stuck_step": stuck_step,
        "failure": {"step": stuck_step, **ON_RECORD},
        "gsi1pk": "LIMBO",
        "gsi1sk": LATER_AT,
    }
    for name, account in accounts.items():
        block = {"limbo_cases": 1} if name == PARTIES[stuck] and stuck != "nothing" else {}
        assert calls.account(name) == account | block


@pytest.mark.parametrize(("stuck", "gone"), [("release", "bob"), ("hold", "alice"), ("nothing", "alice")])
def test_a_missing_account_does_not_stop_its_settlement_entering_limbo(
    calls: Calls, stuck: str, gone: str
) -> None:
    found = calls.stuck(stuck)
    calls.close(gone)
    calls.later()

    calls.limbo(found, step=failed_step(stuck))

    assert calls.entry("limbo:1") == {"account": gone, **ON_RECORD, "posted_at": LATER_AT}
    failure = {"step": f"compensate:{failed_step(stuck)}", **ON_RECORD}
    assert (calls.row()["status"], calls.row()["failure"]) == ("LIMBO", failure)
    assert calls.ledger.row(keys.account(gone)) is None
    with calls.writes_nothing():
        calls.limbo(found, step=failed_step(stuck))


def test_the_first_reason_of_a_case_stays(calls: Calls) -> None:
    found = calls.stuck()
    calls.limbo(found)
    calls.counted()

    with calls.writes_nothing():
        calls.limbo(found, error=TIMED_OUT)

    assert calls.counted() == {"StepCalled": 1, "StepReplayed": 1}


@pytest.mark.parametrize("case", [0, 1, 3])
def test_only_the_next_case_number_can_be_opened(calls: Calls, case: int) -> None:
    calls.fall()
    found = calls.begin(calls.resolve("retry"))
    calls.counted()

    with calls.writes_nothing(), pytest.raises(StepFenced, match=not_stuck("release")):
        calls.limbo(found, case=case)
    calls.limbo(found)

    assert calls.counted() == {"StepCalled": 2, "StepFenced": 1, "LimboEntered": 1}
    assert {"limbo:1", "limbo:2"} <= calls.entries()


def test_a_settlement_outside_compensation_cannot_enter_limbo(calls: Calls) -> None:
    calls.after("ReleaseFunds")

    with calls.writes_nothing(), pytest.raises(StepFenced, match=not_stuck("release")):
        calls.limbo({"case": 1, "reversed": []})


@pytest.mark.parametrize("step", ["fee", "release"])
def test_a_committed_reversal_with_a_lost_answer_is_not_stuck(calls: Calls, step: str) -> None:
    found = calls.reopened(STATES[step])
    calls.reverse(STATES[step], found)

    with calls.writes_nothing(), pytest.raises(StepFenced, match=not_stuck(step)):
        calls.limbo(found, step=step, error=TIMED_OUT)


@pytest.mark.parametrize("step", ["fee", "release"])
def test_a_case_is_opened_if_a_committed_step_keeps_failing(calls: Calls, step: str) -> None:
    """Otherwise the machine would repeat the step and fail again, endlessly."""
    calls.reverse(STATES[step], calls.reopened(STATES[step]))
    known = calls.begin()
    assert step in known["reversed"]

    calls.limbo(known, step=step, error=TIMED_OUT)

    assert (calls.row()["status"], calls.row()["stuck_step"]) == ("LIMBO", f"compensate:{step}")
    assert calls.alert(known)["alert"]["amount_at_risk"] == "0.00"
    with pytest.raises(ResolutionRefused, match=r"^decision: "):
        calls.resolve("write-off")
    calls.resolve("retry")
    assert calls.row()["status"] == "COMPENSATING"
