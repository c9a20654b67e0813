"""Each end of a settlement is counted once, by the call that commits it, and by no replay."""

from collections.abc import Callable

import pytest

from tests.handlers.calls import CLAIMED_AT, ORDER, REJECTED_BY_KYC, SPENT, Calls
from tests.handlers.conftest import Counted

ONCE = {"StepCalled": 1}
REPLAYED = {"StepCalled": 1, "StepReplayed": 1}


def ended(counted: Counted, call: Callable[[], object]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the metrics of a call, and those of its repetition."""
    counted()
    call()
    first = counted()
    call()
    return first, counted()


def test_a_settlement_is_counted_as_settled_once(calls: Calls, counted: Counted) -> None:
    calls.before("CollectFee")

    first, again = ended(counted, lambda: calls("CollectFee", claimed_at=CLAIMED_AT))

    assert (first, again) == (ONCE | {"Settled": 1}, REPLAYED)


def test_a_settlement_that_a_person_completes_is_counted_as_settled_once(
    calls: Calls, counted: Counted
) -> None:
    calls.fall("release")

    first, again = ended(counted, lambda: calls.resolve("complete"))

    assert (first, again) == (ONCE | {"Settled": 1}, ONCE)


@pytest.mark.parametrize("decision", ["retry", "write-off"])
def test_a_decision_to_continue_is_no_end(calls: Calls, counted: Counted, decision: str) -> None:
    calls.fall("release")

    assert ended(counted, lambda: calls.resolve(decision)) == (ONCE, ONCE)


@pytest.mark.parametrize("state", ["ClaimKey", "HoldFunds", "ReleaseFunds"])
def test_a_settlement_is_counted_as_compensated_once(calls: Calls, counted: Counted, state: str) -> None:
    calls.after(state)
    found = calls.begin(error=REJECTED_BY_KYC)
    calls.unwind(found, "VoidHold")

    first, again = ended(counted, lambda: calls.reverse("VoidHold", found))

    assert (first, again) == (ONCE | {"Compensated": 1}, REPLAYED)


@pytest.mark.parametrize("state", ["RefundFee", "ReclaimFunds"])
def test_a_reversal_before_the_last_is_no_end(calls: Calls, counted: Counted, state: str) -> None:
    found = calls.reopened(state)

    assert ended(counted, lambda: calls.reverse(state, found)) == (ONCE, REPLAYED)


def test_a_case_of_limbo_is_counted_once_and_the_next_one_again(calls: Calls, counted: Counted) -> None:
    calls.after("ReleaseFunds")
    found = calls.begin(error=REJECTED_BY_KYC)
    first, again = ended(counted, lambda: calls.limbo(found))
    assert (first, again.get("LimboEntered")) == (ONCE | {"LimboEntered": 1}, None)

    second = calls.begin(calls.resolve("retry"))

    first, again = ended(counted, lambda: calls.limbo(second))
    assert (first, again.get("LimboEntered")) == (ONCE | {"LimboEntered": 1}, None)


def test_a_rejection_is_counted_once(calls: Calls, counted: Counted, later: Callable[[], None]) -> None:
    calls.before("HoldFunds")

    def reject() -> None:
        calls("RejectSettlement", error=SPENT)
        later()

    assert ended(counted, reject) == (ONCE | {"Rejected": 1}, ONCE)


def test_an_order_to_reverse_is_no_end(calls: Calls, counted: Counted) -> None:
    calls.after("CollectFee")

    first, again = ended(counted, lambda: calls.begin(reversal=ORDER))

    assert (first, again) == (ONCE, REPLAYED)
