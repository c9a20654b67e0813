"""AwaitResolution: the row has the execution that waits for the decision, and the token that wakes it."""

from typing import Any

import pytest

from settlement.model.errors import IdempotencyConflict, InvalidRequest, StepFenced
from settlement.model.status import Status
from tests.handlers.calls import EXECUTION_ARN, MALFORMED_SETTLEMENTS, OTHER_CONTENT, WIRE, Calls

TOKEN = "AQC" * 300


def wait(calls: Calls, settlement: Any = WIRE, token: str = TOKEN, execution_arn: str = EXECUTION_ARN) -> Any:
    return calls("AwaitResolution", settlement, token=token, execution_arn=execution_arn)


@pytest.mark.parametrize("stuck", ["fee", "release", "hold", "nothing"])
def test_the_token_and_the_execution_are_left_on_the_row(calls: Calls, stuck: str) -> None:
    calls.fall(stuck)
    before, others = calls.row(), calls.ledger.rows()

    assert wait(calls) is None

    after = before | {"waiting": {"token": TOKEN, "execution": EXECUTION_ARN}}
    assert calls.ledger.rows() == [after if row == before else row for row in others]


def test_a_call_whose_answer_was_lost_changes_nothing(calls: Calls) -> None:
    calls.fall("release")
    wait(calls)

    with calls.writes_nothing():
        assert wait(calls) is None


def test_the_execution_that_waits_last_is_the_one_to_wake(calls: Calls) -> None:
    calls.fall("release")
    wait(calls)

    wait(calls, token="BQC", execution_arn=f"{EXECUTION_ARN}-again")

    assert calls.row()["waiting"] == {"token": "BQC", "execution": f"{EXECUTION_ARN}-again"}


def test_a_decision_takes_the_token_off_the_row(calls: Calls) -> None:
    calls.fall("release")
    wait(calls)

    calls.resolve("retry")

    assert "waiting" not in calls.row()


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.LIMBO])
def test_no_execution_waits_outside_limbo(calls: Calls, status: Status) -> None:
    calls.fall("release")
    calls.alter(status=status)

    with calls.writes_nothing(), pytest.raises(StepFenced, match=f"^limbo: the settlement is {status} with"):
        wait(calls)


def test_no_execution_waits_for_an_unclaimed_key(calls: Calls) -> None:
    with calls.writes_nothing(), pytest.raises(StepFenced, match=r"was never claimed$"):
        wait(calls)


@pytest.mark.parametrize("other", OTHER_CONTENT)
def test_other_content_is_refused(calls: Calls, other: dict[str, str]) -> None:
    calls.fall("release")

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        wait(calls, other)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    calls.fall("release")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        wait(calls, settlement)
