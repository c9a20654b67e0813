"""A decision whose execution died gets a new one: it returns the same notice, and resumes the reversals."""

import pytest

from settlement.ledger.keys import Row
from settlement.model.errors import StepFenced
from tests.handlers.calls import KEY, ORDER, Calls

DECISIONS = ["retry", "write-off", "complete"]
ENDS = {"retry": "COMPENSATED", "write-off": "COMPENSATED", "complete": "SETTLED"}
CLOSED = f"^resolve: case 1 of {KEY} was closed in another way$"


def carry_out(calls: Calls, decision: str, **named: int) -> Row:
    """Carry out the decision by a new execution that starts with it; return the answer of ResolveLimbo."""
    found = calls.begin(resolution={**ORDER, "decision": decision, **named})
    decided = {"resolution": found["resolution"], "case": found["case"]}
    result: Row = calls("ResolveLimbo", **decided, execution="compensation-1")
    return result


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("named", [{}, {"case": 1}])
def test_a_decision_that_was_carried_out_returns_its_notice_again_and_is_resumed(
    calls: Calls, decision: str, named: dict[str, int]
) -> None:
    calls.fall("release")
    first = calls.resolve(decision)

    with calls.writes_nothing():
        again = carry_out(calls, decision, **named)
    found = calls.begin(again)
    if not found["finished"]:
        calls.unwind(found)

    assert again == first
    assert calls.row()["status"] == ENDS[decision]
    with calls.writes_nothing():
        assert carry_out(calls, decision, **named) == first


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_on_the_open_case_is_carried_out_by_the_execution_that_starts_with_it(
    calls: Calls, decision: str
) -> None:
    calls.fall("release")

    result = carry_out(calls, decision)

    assert (result["notice"]["case"], result["notice"]["decision"]) == (1, decision)
    assert calls.row()["status"] == ("SETTLED" if decision == "complete" else "COMPENSATING")


@pytest.mark.parametrize("first", DECISIONS)
@pytest.mark.parametrize("second", DECISIONS)
def test_another_decision_on_a_closed_case_changes_nothing_and_its_execution_resumes(
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


def test_the_notice_of_an_earlier_case_is_returned_while_a_later_one_is_open(calls: Calls) -> None:
    calls.fall("release")
    first = calls.resolve("retry")
    calls.limbo(calls.begin(first))

    with calls.writes_nothing():
        assert carry_out(calls, "retry", case=1) == first
        found = calls.begin(first | {"put": {"FailedEntryCount": 0}})

    assert (found["in_limbo"], found["case"]) == (True, 2)
