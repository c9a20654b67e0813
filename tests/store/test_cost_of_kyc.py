"""What a verdict, a review, a webhook and a recovery cost: one write each, and no read to make it."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement import recovery, reviews, steps
from settlement.errors import StepFenced
from settlement.request import Settlement
from settlement.terms import Terms
from settlement.verdict import REASON_LENGTH_MAX, KycDecision, Verdict
from tests.conftest import NOW
from tests.store.saga import DEADLINE, LATER, Saga
from tests.store.test_cost import UNIT_BYTES, size, units_of, watched
from tests.store.verdicts import EVENT, HELD, OWNER, event, held, own, park, parked, take_over, told
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED

LONGEST = Verdict(
    decision=KycDecision.APPROVED,
    reference="r" * 100,
    reason="w" * REASON_LENGTH_MAX,
    provider="verifications",
)
CALLS: dict[str, tuple[Callable[[Saga], None], Callable[[Saga], Any], str, int]] = {
    "own": (held, own, "TransactWriteItems", 4),
    "rejection": (held, lambda saga: own(saga, REJECTED), "TransactWriteItems", 4),
    "park": (held, park, "UpdateItem", 3),
    "told before our answer": (held, lambda saga: told(saga, now=LATER), "TransactWriteItems", 8),
    "told": (parked, told, "TransactWriteItems", 8),
    "take over": (held, lambda saga: take_over(saga, HELD, LATER), "UpdateItem", 3),
    "give up": (held, lambda saga: take_over(saga, HELD, DEADLINE), "UpdateItem", 3),
}
EACH = pytest.mark.parametrize(("start", "call", "operation", "units"), CALLS.values(), ids=CALLS)


@EACH
def test_each_is_one_write_whatever_it_finds(
    saga: Saga, start: Callable[[Saga], None], call: Callable[[Saga], Any], operation: str, units: int
) -> None:
    start(saga)

    with watched(saga.ledger) as calls:
        call(saga)

    assert [name for name, _ in calls] == [operation]


@EACH
@pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)
def test_each_takes_no_more_units_than_the_rule_says(
    saga: Saga, start: Callable[[Saga], None], call: Callable[[Saga], Any], operation: str, units: int
) -> None:
    start(saga)

    with watched(saga.ledger) as calls:
        call(saga)

    assert 0 < sum(consumed for _, consumed in calls) <= units


def test_by_the_published_rule_they_take_what_they_take(settlement: Settlement, terms: Terms) -> None:
    def units(verdict: Verdict) -> int:
        return units_of(steps.verify(settlement, verdict, NOW).writes, per_row=2)

    webhook = steps.verdict_received(settlement, APPROVED, EVENT, OWNER, NOW, terms)

    assert (units(APPROVED), units(REJECTED)) == (4, 4)
    assert units_of([reviews.park(settlement, IN_REVIEW, DEADLINE, NOW)], per_row=1) == 3
    assert units_of(webhook, per_row=2) == 8
    for now in (NOW, DEADLINE):
        takeover = recovery.take_over(HELD, now, terms)
        assert takeover is not None
        assert units_of([takeover.write], per_row=1) == 3
    assert units_of([recovery.set_aside(HELD, NOW)], per_row=1) == 3
    assert units_of([recovery.postpone(HELD, NOW, terms)], per_row=1) == 3


@pytest.mark.parametrize("again", ["the same event", "another event", "after our answer"])
def test_a_webhook_that_finds_its_verdict_is_one_call(saga: Saga, again: str) -> None:
    held(saga)
    own(saga) if again == "after our answer" else told(saga, now=LATER)

    with watched(saga.ledger) as calls:
        told(saga, APPROVED, event(2) if again == "another event" else EVENT, LATER)

    assert [name for name, _ in calls] == ["TransactWriteItems"]


def test_a_review_that_is_parked_again_and_a_recovery_that_comes_too_late_are_one_call_each(
    saga: Saga,
) -> None:
    parked(saga)

    with watched(saga.ledger) as calls:
        park(saga, now=LATER)
        with pytest.raises(StepFenced):
            take_over(saga, HELD, DEADLINE)

    assert [name for name, _ in calls] == ["UpdateItem", "UpdateItem"]


@pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)
def test_no_row_outgrows_one_unit_however_much_the_provider_says_in_ascii(saga: Saga) -> None:
    longest = saga.asking(
        key="k" * 64, payer="p" * 64, payee="q" * 64, amount=999_999_999_999_999, fee=999_999_999_000_000
    )
    longest.ledger.open("p" * 64, 999_999_999_999_999)
    longest.ledger.open("q" * 64, 0)
    longest.claim(owner="e" * 80)
    held_row = longest.ledger.store.post(steps.hold(longest.settlement, NOW))
    assert held_row["step"] == "hold"
    park(longest, LONGEST)
    in_review = size(longest.row())
    told(longest, LONGEST, reviews.Event("e" * 200, "d" * 64))

    sizes = {row["sk"][-10:]: size(row) for row in longest.ledger.rows()} | {"in review": in_review}

    assert len(sizes) == 6
    assert max(sizes.values()) <= UNIT_BYTES, sizes
