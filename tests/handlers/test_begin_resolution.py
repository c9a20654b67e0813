"""BeginCompensation with a person's `resolution`: it counts for the case that it means, and for no other."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import IdempotencyConflict, InvalidRequest, ResolutionRefused
from settlement.model.status import Status
from tests.handlers.calls import (
    KEY,
    MALFORMED_SETTLEMENTS,
    ORDER,
    OTHER_CONTENT,
    REJECTED_BY_KYC,
    SPENT,
    WIRE,
    Calls,
)

DECISION = {**ORDER, "decision": "retry"}
STUCK = {
    "settlement": WIRE,
    "steps": ["hold", "release", "verify"],
    "reversed": [],
    "finished": False,
    "in_limbo": True,
    "case": 1,
    "alerts": 0,
}
NOT_FENCED = r"^input: must have the error or the reversal for which it is to be compensated$"
UNCLAIMED = f"^input: compensate: the key {KEY} was never claimed$"
ONE_LINE = "must be one line of at most 500 printable characters, not blank$"
MALFORMED = [
    *[
        pytest.param(raw, "^resolution: must be a JSON object with decision, reason and by$", id=repr(raw))
        for raw in (None, "retry", [DECISION], 5)
    ],
    *[
        pytest.param(
            DECISION | {"decision": raw},
            r"^resolution\.decision: must be one of retry, write-off, complete$",
            id=f"decision={raw!r}",
        )
        for raw in (None, "", "RETRY", "write_off", "give up", 5, ["retry"], {"retry": True})
    ],
    *[
        pytest.param(
            DECISION | {"case": raw},
            r"^resolution\.case: must be the number of a case, or be left out$",
            id=f"case={raw!r}",
        )
        for raw in (0, -1, "1", True, 1.0, [1])
    ],
    pytest.param(DECISION | {"reason": " "}, rf"^resolution\.reason: {ONE_LINE}", id="no reason"),
    pytest.param(DECISION | {"by": ""}, rf"^resolution\.by: {ONE_LINE}", id="no person"),
]


def second_case(calls: Calls) -> dict[str, Any]:
    """Get stuck, decide to retry, and get stuck again; return the machine's state before the decision."""
    first = calls.fall("release")
    calls.limbo(calls.begin(calls.resolve("retry")))
    return first | {"alert": {}, "wait_seconds": 1800}


@pytest.mark.parametrize("case", [{}, {"case": None}, {"case": 1}])
def test_a_decision_on_the_open_case_is_passed_on_with_the_number_of_the_case(
    calls: Calls, case: dict[str, Any]
) -> None:
    calls.fall("release")

    with calls.writes_nothing():
        found = calls.begin(resolution=DECISION | case)

    assert found == STUCK | {"resolution": DECISION | {"case": 1}}


def test_without_a_decision_an_execution_finds_the_settlement_in_limbo(calls: Calls) -> None:
    calls.fall("release")

    with calls.writes_nothing():
        assert calls.begin() == STUCK


@pytest.mark.parametrize(
    ("named", "meant"), [({}, 2), ({"case": None}, 2), ({"case": 2}, 2), ({"case": 1}, 1)]
)
def test_a_start_with_a_decision_means_the_case_it_names_and_the_open_one_by_default(
    calls: Calls, named: dict[str, Any], meant: int
) -> None:
    second_case(calls)

    with calls.writes_nothing():
        found = calls.begin(resolution=DECISION | named)

    assert found == STUCK | {"case": 2, "resolution": DECISION | {"case": meant}}


@pytest.mark.parametrize("meant", [3, 4])
def test_a_start_with_a_decision_on_a_future_case_is_refused(
    calls: Calls, meant: int, counted: Callable[[], dict[str, float]]
) -> None:
    second_case(calls)
    counted()

    with (
        calls.writes_nothing(),
        pytest.raises(
            ResolutionRefused, match=rf"^resolution: there is no case number {meant}, the latest is 2$"
        ),
    ):
        calls.begin(resolution=DECISION | {"case": meant})

    assert counted() == {"StepCalled": 1, "ResolutionRefused": 1}


@pytest.mark.parametrize("named", [{}, {"case": 1}, {"case": None}])
def test_a_machine_forgets_a_decision_that_was_made_on_an_earlier_case(
    calls: Calls, named: dict[str, Any]
) -> None:
    back = second_case(calls) | {"resolution": DECISION | named, "error": {"Error": "StepFenced"}}

    with calls.writes_nothing():
        assert calls.begin(back) == STUCK | {"case": 2}


@pytest.mark.parametrize("named", [{}, {"case": 2}])
def test_a_machine_that_returns_asks_again_even_if_its_decision_names_the_open_case(
    calls: Calls, named: dict[str, Any]
) -> None:
    back = second_case(calls) | {"case": 2, "resolution": DECISION | named, "error": {"Error": "StepFenced"}}

    with calls.writes_nothing():
        assert calls.begin(back) == STUCK | {"case": 2}


@pytest.mark.parametrize("number", [1, 2, None, "1"])
def test_a_state_with_a_case_of_any_number_returns(calls: Calls, number: Any) -> None:
    back = calls.fall("release") | {"case": number, "resolution": DECISION}

    with calls.writes_nothing():
        assert calls.begin(back) == STUCK


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("resolution", "message"), MALFORMED)
def test_a_malformed_decision_is_refused(calls: Calls, resolution: Any, message: str) -> None:
    calls.fall("release")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.begin(resolution=resolution)


@pytest.mark.parametrize("resolution", [None, "retry", DECISION | {"decision": "give up"}])
def test_a_machine_forgets_a_malformed_decision_on_an_earlier_case_too(calls: Calls, resolution: Any) -> None:
    back = second_case(calls) | {"resolution": resolution, "error": {"Error": "StepFenced"}}

    with calls.writes_nothing():
        assert calls.begin(back) == STUCK | {"case": 2}


@pytest.mark.parametrize(
    ("status", "finished"),
    [
        (Status.SETTLED, True),
        (Status.COMPENSATING, False),
        (Status.COMPENSATED, True),
    ],
)
@pytest.mark.parametrize("named", [{}, {"case": None}, {"case": 1}])
def test_a_decision_that_finds_no_open_case_is_passed_on_with_the_last_closed_one(
    calls: Calls, status: Status, finished: bool, named: dict[str, Any]
) -> None:
    calls.fall("release")
    calls.alter(status=status, resolutions=1)

    with calls.writes_nothing():
        found = calls.begin(resolution=DECISION | named)

    reported = {"finished": finished, "in_limbo": False, "case": 2}
    assert found == STUCK | reported | {"resolution": DECISION | {"case": 1}}


@pytest.mark.parametrize("status", [Status.SETTLED, Status.COMPENSATING, Status.COMPENSATED])
def test_a_decision_on_the_case_after_the_last_closed_one_is_refused(calls: Calls, status: Status) -> None:
    calls.fall("release")
    calls.alter(status=status, resolutions=1)

    with (
        calls.writes_nothing(),
        pytest.raises(ResolutionRefused, match=r"^resolution: there is no case number 2, the latest is 1$"),
    ):
        calls.begin(resolution=DECISION | {"case": 2})


@pytest.mark.parametrize("state", ["ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds"])
def test_a_decision_does_not_fence_a_settlement_in_flight(calls: Calls, state: str) -> None:
    calls.after(state)

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=NOT_FENCED):
        calls.begin(resolution=DECISION)


@pytest.mark.parametrize("state", ["ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"])
def test_a_decision_beside_an_error_fences_nothing(calls: Calls, state: str) -> None:
    calls.after(state)

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=r"^input: must have one of error"):
        calls.begin(resolution=DECISION, error=SPENT)


@pytest.mark.parametrize("named", [{}, {"case": None}, {"case": 1}])
@pytest.mark.parametrize("status", ["SETTLED", "REJECTED", "COMPENSATING", "COMPENSATED"])
def test_a_decision_on_a_settlement_that_was_never_in_limbo_is_refused(
    calls: Calls, status: str, named: dict[str, Any]
) -> None:
    calls.after("CollectFee" if status == "SETTLED" else "ClaimKey")
    if status == "REJECTED":
        calls("RejectSettlement", error=SPENT)
    if status.startswith("COMP"):
        found = calls.begin(error=REJECTED_BY_KYC)
        calls.unwind(found, "VoidHold" if status == "COMPENSATING" else None)
    assert calls.row()["status"] == status

    with (
        calls.writes_nothing(),
        pytest.raises(ResolutionRefused, match=r"^resolution: the settlement was never in LIMBO$"),
    ):
        calls.begin(resolution=DECISION | named)


def test_a_decision_does_not_claim_an_unclaimed_key(calls: Calls) -> None:
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=UNCLAIMED):
        calls.begin(resolution=DECISION)


@pytest.mark.parametrize("other", OTHER_CONTENT)
def test_a_decision_on_other_content_is_refused(calls: Calls, other: dict[str, str]) -> None:
    calls.fall("release")

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict, match=rf"^key: {KEY} was claimed"):
        calls.begin(settlement=other, resolution=DECISION)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    calls.fall("release")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.begin(settlement=settlement, resolution=DECISION)
