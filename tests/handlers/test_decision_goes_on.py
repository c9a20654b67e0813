"""A decision whose execution died is given to a new one: the same news go out, and its reversals go on."""

import pytest

from settlement.errors import StepFenced
from settlement.rows import Row
from tests.handlers.calls import KEY, ORDER, Calls

DECISIONS = ["retry", "write-off", "complete"]
ENDS = {"retry": "COMPENSATED", "write-off": "COMPENSATED", "complete": "SETTLED"}
CLOSED = f"^resolve: case 1 of {KEY} was closed in another way$"


def handed_on(calls: Calls, decision: str, **named: int) -> Row:
    """What a new execution, started with the decision, makes of it."""
    found = calls.begin(resolution={**ORDER, "decision": decision, **named})
    decided = {"resolution": found["resolution"], "case": found["case"]}
    result: Row = calls("ResolveLimbo", **decided, execution="compensation-1")
    return result


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("named", [{}, {"case": 1}])
def test_a_decision_that_was_carried_out_is_told_again_and_driven_on(
    calls: Calls, decision: str, named: dict[str, int]
) -> None:
    calls.fall("release")
    first = calls.resolve(decision)

    with calls.writes_nothing():
        again = handed_on(calls, decision, **named)
    found = calls.begin(again)
    if not found["finished"]:
        calls.unwind(found)

    assert again == first
    assert calls.row()["status"] == ENDS[decision]
    with calls.writes_nothing():
        assert handed_on(calls, decision, **named) == first


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_on_the_open_case_is_carried_out_by_the_execution_that_starts_with_it(
    calls: Calls, decision: str
) -> None:
    calls.fall("release")

    result = handed_on(calls, decision)

    assert (result["news"]["case"], result["news"]["decision"]) == (1, decision)
    assert calls.row()["status"] == ("SETTLED" if decision == "complete" else "COMPENSATING")


@pytest.mark.parametrize("first", DECISIONS)
@pytest.mark.parametrize("second", DECISIONS)
def test_another_decision_on_a_closed_case_changes_nothing_and_its_execution_drives_on(
    calls: Calls, first: str, second: str
) -> None:
    calls.fall("release")
    calls.resolve(first)
    order = {**ORDER, "decision": second, "reason": "because"}

    with calls.writes_nothing():
        found = calls.begin(resolution=order)
        with pytest.raises(StepFenced, match=CLOSED):
            calls("ResolveLimbo", resolution=found["resolution"], case=found["case"])
        found = calls.begin(found | {"error": {"Error": "StepFenced", "Cause": ""}})
    assert "resolution" not in found
    if not found["finished"]:
        calls.unwind(found)

    assert calls.row()["status"] == ENDS[first]


def test_the_news_of_an_earlier_case_go_out_while_a_later_one_is_open(calls: Calls) -> None:
    calls.fall("release")
    first = calls.resolve("retry")
    calls.limbo(calls.begin(first))

    with calls.writes_nothing():
        assert handed_on(calls, "retry", case=1) == first
        found = calls.begin(first | {"put": {"FailedEntryCount": 0}})

    assert (found["in_limbo"], found["case"]) == (True, 2)
