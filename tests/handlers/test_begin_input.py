"""BeginCompensation takes one cause at a time, and without one it leaves a PROCESSING settlement alone."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import IdempotencyConflict, InvalidRequest
from settlement.model.status import Status
from tests.handlers.calls import (
    KEY,
    LIMBO_AFTER,
    ORDER,
    OTHER_CONTENT,
    REJECTED_BY_KYC,
    STALLED_ORDER,
    Calls,
)
from tests.handlers.test_begin_compensation import FOUND

DECISION = ORDER | {"decision": "retry"}
UNCLAIMED = f"^input: compensate: the key {KEY} was never claimed$"
NO_CAUSE = r"^input: must have the error or the reversal for which it is to be compensated$"


@pytest.mark.parametrize(
    ("state", "message"),
    [(None, UNCLAIMED), *((state, NO_CAUSE) for state in LIMBO_AFTER.values())],
)
def test_without_a_cause_no_settlement_in_flight_is_fenced(
    calls: Calls, state: str | None, message: str, counted: Callable[[], dict[str, float]]
) -> None:
    if state:
        calls.after(state)
        calls.alter(status=Status.PROCESSING)
    counted()

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.begin()

    assert counted() == {"StepCalled": 1, "InvalidRequest": 1}


@pytest.mark.parametrize("back", [{}, {"case": 1, "error": {"Error": "StepFenced"}}])
@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
def test_without_a_cause_a_compensation_is_resumed_and_any_other_status_is_left(
    calls: Calls, status: Status, back: dict[str, Any]
) -> None:
    calls.after("ReleaseFunds")
    calls.alter(status=status, resolutions=0)
    before, others = calls.row(), calls.ledger.rows()

    found = calls.begin(**back)

    after = before | ({"owner": "compensation-1"} if status is Status.COMPENSATING else {})
    assert calls.ledger.rows() == [after if row == before else row for row in others]
    assert found == FOUND | {
        "steps": ["hold", "release", "verify"],
        "finished": status in (Status.SETTLED, Status.REJECTED, Status.COMPENSATED),
        "in_limbo": status is Status.LIMBO,
    }


@pytest.mark.parametrize("other", OTHER_CONTENT)
@pytest.mark.parametrize("back", [{}, {"case": 1}])
def test_without_a_cause_other_content_is_refused(
    calls: Calls, other: dict[str, str], back: dict[str, Any]
) -> None:
    calls.after("HoldFunds")
    calls.begin(error=REJECTED_BY_KYC)

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict, match=rf"^key: {KEY} was claimed"):
        calls.begin(settlement=other, **back)


@pytest.mark.parametrize("state", [None, "HoldFunds", "CollectFee"])
@pytest.mark.parametrize("order", [ORDER, STALLED_ORDER])
@pytest.mark.parametrize(
    "names",
    [
        ("reversal", "resolution"),
        ("error", "reversal"),
        ("error", "resolution"),
        ("error", "reversal", "resolution"),
    ],
)
def test_two_causes_at_once_are_refused(
    calls: Calls, state: str | None, order: dict[str, str], names: tuple[str, ...]
) -> None:
    if state:
        calls.after(state)
    orders = {"reversal": order, "resolution": DECISION, "error": REJECTED_BY_KYC}

    with (
        calls.writes_nothing(),
        pytest.raises(
            InvalidRequest, match=r"^input: must have one of error, reversal and resolution at most$"
        ),
    ):
        calls.begin(**{name: orders[name] for name in names})


def test_a_cause_that_is_null_counts_as_one(calls: Calls) -> None:
    calls.after("HoldFunds")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=r"^input: must have one of"):
        calls.begin(error=REJECTED_BY_KYC, reversal=None)
