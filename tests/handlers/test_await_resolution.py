"""AwaitResolution: the row has the execution that waits for the decision, and the token that wakes it."""

from tests.world.constants import EXECUTION_ARN
from tests.world.functions import Calls


def wait(calls: Calls, token: str, execution_arn: str = EXECUTION_ARN) -> None:
    assert calls("AwaitResolution", token=token, execution_arn=execution_arn) is None


def test_the_token_and_the_execution_that_waits_last_are_left_on_the_row(calls: Calls) -> None:
    calls.fall()
    before, others = calls.row(), calls.ledger.rows()

    for token, execution in ((("AQC" * 300), EXECUTION_ARN), ("BQC", f"{EXECUTION_ARN}-again")):
        wait(calls, token, execution)

        after = before | {"waiting": {"token": token, "execution": execution}}
        assert calls.ledger.rows() == [after if row == before else row for row in others]


def test_a_decision_takes_the_token_off_the_row(calls: Calls) -> None:
    calls.fall()
    wait(calls, "AQC")

    calls.resolve("retry")

    assert "waiting" not in calls.row()
