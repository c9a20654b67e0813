"""ResolveLimbo, repeated or too late: a case is decided once, and a repeat returns the same notice."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import ResolutionRefused, StepFenced
from tests.handlers.calls import CLAIMED_AT, KEY, ORDER, WIRE, Calls

DECISIONS = ["retry", "write-off", "complete"]
CLOSED = f"^resolve: case 1 of {KEY} was closed in another way$"
OTHER_ORDERS = [
    pytest.param(ORDER | {"reason": "because"}, id="another reason"),
    pytest.param(ORDER | {"by": "arn:aws:iam::123456789012:user/bea"}, id="another person"),
]


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("raced", [True, False])
def test_a_call_whose_answer_was_lost_returns_the_same_notice_and_writes_nothing(
    calls: Calls,
    later: Callable[..., None],
    freeze_reads: Callable[[], None],
    decision: str,
    raced: bool,
    counted: Callable[[], dict[str, float]],
) -> None:
    calls.fall("release")
    if raced:
        freeze_reads()
    first = calls.resolve(decision)
    later(days=1)
    counted()

    before = calls.ledger.rows()
    assert calls.resolve(decision) == first

    assert calls.ledger.rows() == before
    assert first["notice"]["decided_at"] == CLAIMED_AT
    assert counted() == {"StepCalled": 1} | ({"StepReplayed": 1} if raced else {})


@pytest.mark.parametrize("first", DECISIONS)
@pytest.mark.parametrize("second", DECISIONS)
@pytest.mark.parametrize("raced", [True, False])
def test_a_different_second_decision_is_refused_because_the_case_is_closed(
    calls: Calls, freeze_reads: Callable[[], None], first: str, second: str, raced: bool
) -> None:
    calls.fall("release")
    if raced:
        freeze_reads()
    calls.resolve(first)
    before = calls.ledger.rows()

    with pytest.raises(StepFenced, match=CLOSED):
        calls.resolve(second, reason="because" if first == second else ORDER["reason"])

    assert calls.ledger.rows() == before


@pytest.mark.parametrize("other", OTHER_ORDERS)
@pytest.mark.parametrize("raced", [True, False])
def test_a_decision_is_the_same_only_by_the_same_person_for_the_same_reason(
    calls: Calls, freeze_reads: Callable[[], None], other: dict[str, str], raced: bool
) -> None:
    calls.fall("release")
    if raced:
        freeze_reads()
    calls.resolve("retry")
    before = calls.ledger.rows()

    with pytest.raises(StepFenced, match=CLOSED):
        calls("ResolveLimbo", resolution={**other, "decision": "retry"}, case=1)

    assert calls.ledger.rows() == before


def test_the_notice_of_a_closed_case_is_returned_again_after_the_end(calls: Calls) -> None:
    calls.fall("release")
    first = calls.resolve("write-off")
    calls.unwind(calls.begin(first))
    assert calls.row()["status"] == "COMPENSATED"

    with calls.writes_nothing():
        assert calls.resolve("write-off") == first


def second_case(calls: Calls) -> Any:
    """Get stuck, decide to retry, get stuck again; return the answer to the first decision."""
    calls.fall("release")
    first = calls.resolve("retry")
    calls.limbo(calls.begin(first))
    return first


@pytest.mark.parametrize("named", [{}, {"case": 2}, {"case": None}])
def test_a_second_case_is_decided_by_its_own_number(calls: Calls, named: dict[str, Any]) -> None:
    second_case(calls)

    decision = {**ORDER, "decision": "write-off", **named}
    result = calls("ResolveLimbo", resolution=decision, case=2)

    assert (result["notice"]["case"], result["notice"]["decision"]) == (2, "write-off")
    assert (calls.row()["resolutions"], calls.row()["resolution"]["decision"]) == (2, "write-off")
    assert {"resolve:1", "resolve:2"} <= calls.entries()


def test_the_same_decision_on_the_next_case_is_another_decision(calls: Calls) -> None:
    second_case(calls)

    result = calls.resolve("retry", case=2)

    assert result["notice"]["case"] == 2
    assert calls.row()["resolutions"] == 2


def test_a_decision_closes_the_case_that_it_names_and_not_the_one_that_the_machine_waits_on(
    calls: Calls,
) -> None:
    first = second_case(calls)
    named = {**ORDER, "decision": "retry", "case": 1}

    with calls.writes_nothing():
        assert calls("ResolveLimbo", resolution=named, case=2) == first


def test_a_decision_on_an_earlier_case_does_not_close_the_open_one(calls: Calls) -> None:
    second_case(calls)

    with calls.writes_nothing(), pytest.raises(StepFenced, match=CLOSED):
        calls.resolve("write-off", case=1)

    assert calls.row()["status"] == "LIMBO"


@pytest.mark.parametrize("number", [2, 7])
def test_a_decision_on_a_future_case_is_refused(calls: Calls, number: int) -> None:
    calls.fall("release")
    named = {**ORDER, "decision": "retry", "case": number}

    with (
        calls.writes_nothing(),
        pytest.raises(ResolutionRefused, match=f"^resolution: the open case is number 1, not {number}$"),
    ):
        calls("ResolveLimbo", resolution=named, case=1)


def test_a_key_that_was_never_claimed_has_no_case(calls: Calls) -> None:
    with calls.writes_nothing(), pytest.raises(StepFenced, match=CLOSED):
        calls.resolve("retry")


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_on_an_escrow_that_has_changed_since_it_was_read_is_refused(
    calls: Calls, freeze_reads: Callable[[], None], decision: str
) -> None:
    calls.fall("release")
    freeze_reads()
    calls.alter(escrow=47)

    with (
        calls.writes_nothing(),
        pytest.raises(ResolutionRefused, match=r"has moved on since it was looked at$"),
    ):
        calls.resolve(decision)


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_on_a_case_that_was_closed_since_it_was_read_is_refused(
    calls: Calls, freeze_reads: Callable[[], None], decision: str
) -> None:
    calls.fall("release")
    freeze_reads()
    calls.alter(resolutions=1)

    with (
        calls.writes_nothing(),
        pytest.raises(ResolutionRefused, match=r"has moved on since it was looked at$"),
    ):
        calls.resolve(decision)


@pytest.mark.parametrize("decision", ["write-off", "complete"])
def test_a_step_that_was_reversed_since_it_was_read_is_neither_covered_nor_accepted(
    calls: Calls, freeze_reads: Callable[[], None], decision: str
) -> None:
    calls.fall("release")
    freeze_reads()
    calls.alter(reversed={"release"})

    with (
        calls.writes_nothing(),
        pytest.raises(ResolutionRefused, match=r"has moved on since it was looked at$"),
    ):
        calls.resolve(decision)


def test_the_answer_has_the_settlement_in_its_canonical_form(calls: Calls) -> None:
    calls.fall("release")

    assert calls.resolve("retry", settlement=WIRE | {"amount": "48.2"})["settlement"] == WIRE
