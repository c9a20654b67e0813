from typing import Any

import pytest

from settlement.core.model.errors import InvalidRequest, StepFenced
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, KEY, ORDER, WIRE

DECISIONS = ["retry", "write-off", "complete"]


def notice(decision: str, case: int = 1, at: str = CLAIMED_AT) -> dict[str, Any]:
    return {
        "summary": f"{KEY} is out of LIMBO: {decision} by {ORDER['by']}",
        "key": KEY,
        "case": case,
        "decided_at": at,
        "account": "bob",
        "decision": decision,
        **ORDER,
    }


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("named", [{"case": 1}, {}, {"case": None}, None, "done", {"by": "eve"}])
def test_the_notice_announces_the_recorded_decision(calls: Calls, decision: str, named: Any) -> None:
    calls.fall()
    calls.decide(decision)

    with calls.writes_nothing():
        found = calls("ResolveLimbo", resolution=named, case=1)

    assert found == {"settlement": WIRE, "case": 1, "notice": notice(decision)}


@pytest.mark.parametrize(
    "forged", [{**ORDER, "decision": "write-off"}, {"case": 1, **ORDER, "decision": "complete"}, {}, "yes"]
)
def test_the_tokens_holder_cannot_forge_a_decision(calls: Calls, forged: Any) -> None:
    calls.fall()

    message = f"^resolve: case 1 of {KEY} is not decided$"
    with calls.writes_nothing(), pytest.raises(StepFenced, match=message):
        calls("ResolveLimbo", resolution=forged, case=1)


def test_the_orders_case_number_selects_the_announced_decision(calls: Calls) -> None:
    calls.fall()
    first = calls.resolve("retry")
    calls.limbo(calls.begin(first))

    with calls.writes_nothing():
        assert calls("ResolveLimbo", resolution={"case": 1}, case=2) == first
        with pytest.raises(StepFenced, match=r"^resolve: case 2 "):
            calls("ResolveLimbo", resolution={}, case=2)


@pytest.mark.parametrize("case", [0, -1, "1", 1.0, True, [1]])
def test_a_case_that_is_not_a_positive_integer_is_refused(calls: Calls, case: Any) -> None:
    calls.fall()
    calls.decide("retry")

    with pytest.raises(InvalidRequest, match=r"^resolution\.case: "):
        calls("ResolveLimbo", resolution={"case": case}, case=1)


@pytest.mark.parametrize("decision", DECISIONS)
def test_an_execution_named_after_the_order_announces_a_missed_decision(calls: Calls, decision: str) -> None:
    calls.fall()
    first = calls.resolve(decision)
    found = calls.begin(order="resolve:1")

    with calls.writes_nothing():
        assert calls("ResolveLimbo", resolution=found["resolution"], case=found["case"]) == first
        found = calls.begin(first)
    assert "resolution" not in found
    if not found["finished"]:
        calls.unwind(found)

    assert calls.row()["status"] == ("SETTLED" if decision == "complete" else "COMPENSATED")
