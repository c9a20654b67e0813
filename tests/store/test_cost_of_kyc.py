"""The cost of a verdict, a review, a webhook and a recovery: one write each, without a read."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.ledger import kyc_review
from settlement.model.errors import StepFenced
from settlement.model.settlement import NAMES, Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.verdict import REASON_LENGTH_MAX, KycDecision, Verdict
from settlement.policy import recovery, steps
from tests.conftest import NOW
from tests.store.saga import DEADLINE, LATER, Saga, state_of
from tests.store.test_cost import LONGEST_REQUEST, UNIT_BYTES, size, units_of, watched
from tests.store.verdicts import (
    EVENT,
    HELD,
    OWNER,
    begin_review,
    event,
    held,
    in_review,
    own,
    take_over,
    webhook,
)
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED

LONGEST = Verdict(
    decision=KycDecision.APPROVED,
    reference="r" * 100,
    reason="w" * REASON_LENGTH_MAX,
    provider="verifications",
)
HOLDING = state_of(HELD)
CALLS: dict[str, tuple[Callable[[Saga], None], Callable[[Saga], Any], str, int]] = {
    "own": (held, own, "TransactWriteItems", 4),
    "rejection": (held, lambda saga: own(saga, REJECTED), "TransactWriteItems", 4),
    "begin_review": (held, begin_review, "UpdateItem", 3),
    "webhook before our answer": (
        held,
        lambda saga: webhook(saga, now=LATER),
        "TransactWriteItems",
        8,
    ),
    "webhook": (in_review, webhook, "TransactWriteItems", 8),
    "take over": (held, lambda saga: take_over(saga, HOLDING, LATER), "UpdateItem", 3),
    "expire": (held, lambda saga: take_over(saga, HOLDING, DEADLINE), "UpdateItem", 3),
}
EACH = pytest.mark.parametrize(("start", "call", "operation", "units"), CALLS.values(), ids=CALLS)


@EACH
def test_each_is_one_write_in_any_state(
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


def test_by_the_published_rule_each_takes_these_units(settlement: Settlement, config: StageConfig) -> None:
    def units(verdict: Verdict) -> int:
        return units_of(steps.verify(settlement, verdict, NOW).writes, per_row=2)

    writes = steps.record_webhook_verdict(settlement, APPROVED, EVENT, OWNER, NOW, config)

    assert (units(APPROVED), units(REJECTED)) == (4, 4)
    assert units_of([kyc_review.begin_review(settlement, IN_REVIEW, DEADLINE, NOW)], per_row=1) == 3
    assert units_of(writes, per_row=2) == 8
    for now in (NOW, DEADLINE):
        takeover = recovery.take_over(HOLDING, now, config)
        assert takeover is not None
        assert units_of([takeover.write], per_row=1) == 3
    assert units_of([recovery.defer_unprocessable(HELD, NOW)], per_row=1) == 3
    assert units_of([recovery.postpone(HOLDING, NOW, config)], per_row=1) == 3


@pytest.mark.parametrize("again", ["the same event", "another event", "after our answer"])
def test_a_webhook_that_finds_its_verdict_is_one_call(saga: Saga, again: str) -> None:
    held(saga)
    own(saga) if again == "after our answer" else webhook(saga, now=LATER)

    with watched(saga.ledger) as calls:
        webhook(saga, APPROVED, event(2) if again == "another event" else EVENT, LATER)

    assert [name for name, _ in calls] == ["TransactWriteItems"]


def test_a_second_review_and_a_recovery_that_comes_too_late_are_one_call_each(
    saga: Saga,
) -> None:
    in_review(saga)

    with watched(saga.ledger) as calls:
        begin_review(saga, now=LATER)
        with pytest.raises(StepFenced):
            take_over(saga, HOLDING, DEADLINE)

    assert [name for name, _ in calls] == ["UpdateItem", "UpdateItem"]


@pytest.mark.parametrize("ledger", ["dynamodb-local"], indirect=True)
def test_no_row_outgrows_one_unit_however_much_the_provider_says_in_ascii(saga: Saga) -> None:
    longest = saga.asking(**{name: each for name, each in LONGEST_REQUEST.items() if name not in NAMES})
    longest.ledger.open("p" * 64, 999_999_999_999_999)
    longest.ledger.open("q" * 64, 0)
    longest.claim(owner="e" * 80)
    entry = longest.ledger.store.commit(steps.hold(longest.settlement, NOW))
    assert entry["step"] == "hold"
    begin_review(longest, LONGEST)
    of_review = size(longest.row())
    assert size(longest.row() | {name: LONGEST_REQUEST[name] for name in NAMES}) <= 2 * UNIT_BYTES
    webhook(longest, LONGEST, kyc_review.WebhookEvent("e" * 200, "d" * 64))

    sizes = {row["sk"][-10:]: size(row) for row in longest.ledger.rows()} | {"in review": of_review}

    assert len(sizes) == 6
    assert max(sizes.values()) <= UNIT_BYTES, sizes
