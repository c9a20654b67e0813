"""BeginCompensation with a person's `resolution`: taken for the case it was made on, and for no other."""

from typing import Any

import pytest

from settlement.errors import InvalidRequest, ResolutionRefused
from settlement.status import Status
from tests.handlers.calls import (
    KEY,
    MALFORMED_SETTLEMENTS,
    ORDER,
    OTHER_CONTENT,
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
    "pages": 0,
}
NEVER = rf"^resolution: {KEY} is no settlement that was ever in LIMBO$"
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
    pytest.param(DECISION | {"by": ""}, rf"^resolution\.by: {ONE_LINE}", id="nobody"),
]


def second_case(calls: Calls) -> dict[str, Any]:
    """Get stuck, decide to try again, and get stuck again; return the machine's state before the decision."""
    first = calls.fall("release")
    calls.limbo(calls.begin(calls.resolve("retry")))
    return first | {"page": {}, "wait_seconds": 1800}


@pytest.mark.parametrize("case", [{}, {"case": None}, {"case": 1}])
def test_a_decision_on_the_open_case_is_handed_on_with_the_cases_number(
    calls: Calls, case: dict[str, Any]
) -> None:
    calls.fall("release")

    with calls.writes_nothing():
        found = calls.begin(resolution=DECISION | case)

    assert found == STUCK | {"resolution": DECISION | {"case": 1}}


def test_without_a_decision_whoever_finds_it_in_limbo_pages(calls: Calls) -> None:
    calls.fall("release")

    with calls.writes_nothing():
        assert calls.begin() == STUCK


@pytest.mark.parametrize("meant", [1, 3])
def test_a_start_with_a_decision_on_another_case_is_refused(calls: Calls, meant: int) -> None:
    second_case(calls)

    with (
        calls.writes_nothing(),
        pytest.raises(ResolutionRefused, match=rf"^resolution: the open case is number 2, not {meant}$"),
    ):
        calls.begin(resolution=DECISION | {"case": meant})


@pytest.mark.parametrize("named", [{}, {"case": 1}, {"case": None}])
def test_a_machine_forgets_a_decision_that_was_made_on_an_earlier_case(
    calls: Calls, named: dict[str, Any]
) -> None:
    back = second_case(calls) | {"resolution": DECISION | named, "error": {"Error": "StepFenced"}}

    with calls.writes_nothing():
        assert calls.begin(back) == STUCK | {"case": 2}


def test_a_machine_keeps_a_decision_that_names_the_open_case_though_it_waited_on_an_earlier_one(
    calls: Calls,
) -> None:
    back = second_case(calls) | {"resolution": DECISION | {"case": 2}}

    with calls.writes_nothing():
        assert calls.begin(back) == STUCK | {"case": 2, "resolution": DECISION | {"case": 2}}


def test_a_machine_keeps_a_decision_on_the_case_that_is_still_open(calls: Calls) -> None:
    back = calls.fall("release") | {"resolution": DECISION, "error": {"Error": "StepFenced"}}

    with calls.writes_nothing():
        assert calls.begin(back) == STUCK | {"resolution": DECISION | {"case": 1}}


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
def test_a_decision_that_finds_no_open_case_decides_nothing(
    calls: Calls, status: Status, finished: bool
) -> None:
    calls.fall("release")
    calls.alter(status=status, resolutions=1)

    with calls.writes_nothing():
        found = calls.begin(resolution=DECISION)

    assert found == STUCK | {"finished": finished, "in_limbo": False, "case": 2}


@pytest.mark.parametrize("state", ["ClaimKey", "HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"])
def test_a_decision_fences_nothing_that_was_never_in_limbo(calls: Calls, state: str) -> None:
    calls.after(state)

    with calls.writes_nothing(), pytest.raises(ResolutionRefused, match=NEVER):
        calls.begin(resolution=DECISION, error=SPENT)


def test_a_decision_on_what_was_rejected_is_refused(calls: Calls) -> None:
    calls.before("HoldFunds")
    calls("RejectSettlement", error=SPENT)

    with calls.writes_nothing(), pytest.raises(ResolutionRefused, match=NEVER):
        calls.begin(resolution=DECISION)


def test_a_decision_takes_no_key_that_was_never_claimed(calls: Calls) -> None:
    with calls.writes_nothing(), pytest.raises(ResolutionRefused, match=NEVER):
        calls.begin(resolution=DECISION)


@pytest.mark.parametrize("other", OTHER_CONTENT)
def test_a_decision_on_other_content_is_refused(calls: Calls, other: dict[str, str]) -> None:
    calls.fall("release")

    with calls.writes_nothing(), pytest.raises(ResolutionRefused, match=NEVER):
        calls.begin(settlement=other, resolution=DECISION)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    calls.fall("release")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.begin(settlement=settlement, resolution=DECISION)
