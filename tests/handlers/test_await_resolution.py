import pytest

from handlers import _dependencies
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from tests.handlers.conftest import Calls
from tests.world.constants import EXECUTION_ARN, KEY


def wait(calls: Calls, token: str, execution_arn: str = EXECUTION_ARN) -> None:
    assert calls("AwaitResolution", token=token, execution_arn=execution_arn) is None


def waiting(token: str, execution: str = EXECUTION_ARN, case: int = 1) -> Row:
    row = {"pk": f"WAITING#{KEY}", "sk": "WAITING", "key": KEY}
    return row | {"case": case, "token": token, "execution": execution}


def test_the_latest_waiting_execution_and_its_token_are_recorded(calls: Calls) -> None:
    calls.fall()
    others = calls.ledger.rows()

    for token, execution in ((("AQC" * 300), EXECUTION_ARN), ("BQC", f"{EXECUTION_ARN}-again")):
        wait(calls, token, execution)

        assert calls.ledger.rows() == [*others, waiting(token, execution)]


def test_a_token_recorded_after_its_case_closed_names_that_case(calls: Calls) -> None:
    """The late record does no harm, because readers ignore a record of a closed case."""
    calls.fall()
    calls.meanwhile(_dependencies.store, "put", lambda: calls.resolve("retry"))

    with pytest.warns(UserWarning, match="No application metrics"):  # the decision has published all of them
        wait(calls, "AQC")

    assert (calls.row()["status"], calls.row()["resolutions"]) == ("COMPENSATING", 1)
    assert calls.ledger.row(keys.waiting(KEY)) == waiting("AQC", case=1)
