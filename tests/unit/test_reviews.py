"""The writes of a verdict and of the review before it: who is let in, and what each refusal means."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from settlement import reviews, rows, steps
from settlement.errors import DeadlineExceeded, IdempotencyConflict, KycUnavailable, StepFenced
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.verdict import KycDecision, Verdict
from settlement.writes import Standing, Write
from tests.conftest import NOW
from tests.unit.conditions import admits
from tests.unit.every_row import AFTER, AT, BEFORE, PREFIXES, settlement_row, verdicts
from tests.unit.table import applied
from tests.unit.vectors import (
    DECIDER,
    EVENT,
    IN_HASTE,
    IN_REVIEW,
    REJECTED,
    REVIEW_ENDS,
    SETTLEMENT,
    TERMS,
    VERDICT,
    VERDICTS,
)

HELD = {Step.HOLD}
WRITES: dict[str, Callable[[], Write]] = {
    **{f"conclude.{how}": partial(reviews.conclude, SETTLEMENT, said, NOW) for how, said in VERDICTS.items()},
    "park": partial(reviews.park, SETTLEMENT, IN_REVIEW, REVIEW_ENDS, NOW),
    **{
        f"decide.{how}": partial(reviews.decide, SETTLEMENT, said, DECIDER, NOW, TERMS)
        for how, said in VERDICTS.items()
    },
}
"""Each is built in its test and not at import, where mutation testing would no longer reach its builder."""

CONCLUDING = {name: write for name, write in WRITES.items() if name != "park"}


def met() -> Iterator[Row]:
    for status in Status:
        for committed in PREFIXES:
            for deadline_at in (BEFORE, AT, AFTER):
                for same in (True, False):
                    for verified in verdicts(committed):
                        row = settlement_row(status, committed, deadline_at, same_request=same, **verified)
                        row |= {"owner": "execution", "gsi1pk": "IN_FLIGHT#2", "gsi1sk": AT}
                        yield from (row, row | {"given_up_at": BEFORE})


def awaiting(**more: Any) -> Row:
    """A settlement that waits for its verdict."""
    return settlement_row(Status.PROCESSING, set(HELD), AFTER, owner="execution", recoveries=0, **more)


# Who is let in


@pytest.mark.parametrize("name", WRITES)
def test_a_verdict_is_taken_only_where_one_is_awaited(name: str) -> None:
    """After the hold and before any verdict, in time, for the same request, and not of another review."""
    reviews_met = (None, "ref-1") if name.startswith("decide") else (None,)
    write = WRITES[name]()

    for row in met():
        awaited = (
            row["status"] == Status.PROCESSING
            and row.get("steps") == HELD
            and "verdict" not in row
            and row["deadline_at"] == AFTER
            and "given_up_at" not in row
            and row["request_hash"] == SETTLEMENT.request_hash
            and row.get("review") in reviews_met
        )
        assert admits(write, row) == awaited, row


@pytest.mark.parametrize("name", WRITES)
def test_none_of_them_makes_a_row(name: str) -> None:
    write = WRITES[name]()

    assert not admits(write, None)
    refusal = write.refusal(None)
    assert type(refusal) is StepFenced
    assert str(refusal) == f"verify: the key {SETTLEMENT.key} was never claimed"


# What they leave


@pytest.mark.parametrize(
    ("name", "review"),
    [
        *((name, {}) for name in CONCLUDING),
        *((name, {"review": "ref-1"}) for name in CONCLUDING if name.startswith("decide")),
    ],
)
def test_a_verdict_ends_the_review_and_only_an_approval_commits_the_step(
    name: str, review: dict[str, str]
) -> None:
    row = awaiting(**review)

    after = applied(CONCLUDING[name](), row)

    approved = name.endswith("approved")
    assert "review" not in after
    assert after["verdict"] == ("APPROVED" if approved else "REJECTED")
    assert after["steps"] == ({Step.HOLD, Step.VERIFY} if approved else HELD)
    assert (after["status"], after["escrow"]) == (row["status"], row["escrow"])


def test_a_verdict_asked_for_leaves_owner_and_deadline_alone() -> None:
    row = awaiting()

    after = applied(reviews.conclude(SETTLEMENT, REJECTED, NOW), row)

    assert after == row | {"verdict": "REJECTED"}


def test_a_decision_hands_over_to_its_own_execution_with_the_time_of_a_new_settlement() -> None:
    row = awaiting(review="ref-1")

    after = applied(reviews.decide(SETTLEMENT, REJECTED, "me-decided", NOW, TERMS), row)

    assert (after["owner"], after["recoveries"]) == ("me-decided", 1)
    assert after["deadline_at"] == rows.timestamp(NOW + timedelta(seconds=TERMS.deadline_seconds))
    due = rows.timestamp(NOW + timedelta(seconds=TERMS.recover_after_seconds))
    listed = rows.in_flight_index(SETTLEMENT.key, due)
    assert {name: after[name] for name in listed} == listed
    assert after["in_flight_since"] == rows.timestamp(NOW)


@pytest.mark.parametrize("said", VERDICTS.values(), ids=VERDICTS)
def test_a_decision_hands_over_but_the_deadline_that_the_request_has_named_stands(said: Verdict) -> None:
    row = awaiting(review="ref-1") | IN_HASTE.to_row() | rows.settlement_key(IN_HASTE.key)

    after = applied(reviews.decide(IN_HASTE, said, "me-decided", NOW, TERMS), row)

    assert after["deadline_at"] == row["deadline_at"] == AFTER
    assert (after["owner"], after["recoveries"]) == ("me-decided", 1)
    due = rows.timestamp(NOW + timedelta(seconds=TERMS.recover_after_seconds))
    assert (after["gsi1sk"], after["in_flight_since"]) == (due, rows.timestamp(NOW))


def test_a_review_moves_the_deadline_and_the_index_to_its_end_and_nothing_else() -> None:
    row = awaiting()

    after = applied(reviews.park(SETTLEMENT, IN_REVIEW, REVIEW_ENDS, NOW), row)

    end = rows.timestamp(REVIEW_ENDS)
    listed = rows.in_flight_index(SETTLEMENT.key, end)
    assert after == row | {"review": "ref-1", "deadline_at": end, "in_flight_since": end} | listed


def test_what_a_review_parks_its_own_decision_finds_again() -> None:
    later = REVIEW_ENDS - timedelta(milliseconds=1)
    parked = applied(WRITES["park"](), awaiting())

    for reference, found in (("ref-1", True), ("ref-2", False)):
        said = replace(VERDICT, reference=reference)
        assert admits(reviews.decide(SETTLEMENT, said, DECIDER, later, TERMS), parked) == found
    assert not admits(reviews.decide(SETTLEMENT, VERDICT, DECIDER, REVIEW_ENDS, TERMS), parked)


# What each refusal means


def test_a_verdict_that_does_not_fit_is_told_as_any_forward_step() -> None:
    write = WRITES["conclude.approved"]()
    for row in met():
        if not admits(write, row):
            refusal = type(write.refusal(row))
            late = row["status"] == Status.PROCESSING and row.get("steps") == HELD and "verdict" not in row
            if row["request_hash"] == "another":
                assert refusal is IdempotencyConflict
            elif "review" in row and row["status"] == Status.PROCESSING:
                assert refusal is KycUnavailable
            else:
                assert refusal is (DeadlineExceeded if late else StepFenced), row


@pytest.mark.parametrize("said", VERDICTS.values(), ids=VERDICTS)
def test_a_verdict_asked_for_gives_way_to_a_review_that_another_call_was_told_of(said: Verdict) -> None:
    """It is asked again, and finds the review: a refusal would reverse what a person is looking at."""
    refusal = reviews.conclude(SETTLEMENT, said, NOW).refusal(awaiting(review="ref-1"))

    assert type(refusal) is KycUnavailable
    assert str(refusal) == "kyc: another call was told meanwhile that the payment is in review"


@pytest.mark.parametrize("row_of_another", [False, True])
@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("verified", [{"verdict": "APPROVED"}, {"verdict": "REJECTED"}, {"review": "ref-1"}])
def test_parking_twice_or_after_the_verdict_changes_nothing(
    verified: dict[str, str], status: Status, row_of_another: bool
) -> None:
    """A verdict stands whatever came of it; a review stands as long as nobody has fenced it off."""
    committed = {Step.HOLD, Step.VERIFY} if verified.get("verdict") == "APPROVED" else HELD
    row = settlement_row(status, set(committed), AT, same_request=not row_of_another) | verified

    refusal = WRITES["park"]().refusal(row)

    stands = not row_of_another and ("verdict" in verified or status is Status.PROCESSING)
    assert isinstance(refusal, Standing) == stands
    if isinstance(refusal, Standing):
        assert refusal.row == row
    else:
        assert type(refusal) is (IdempotencyConflict if row_of_another else StepFenced)


@pytest.mark.parametrize(
    ("status", "error"), [(Status.PROCESSING, DeadlineExceeded), (Status.LIMBO, StepFenced)]
)
def test_parking_late_or_behind_the_fence_is_refused(status: Status, error: type[Exception]) -> None:
    assert type(WRITES["park"]().refusal(settlement_row(status, set(HELD), AT))) is error


def test_a_decision_on_another_verification_is_refused_by_name() -> None:
    refusal = WRITES["decide.approved"]().refusal(awaiting(review="another"))

    assert type(refusal) is StepFenced
    assert str(refusal) == "reference: the settlement waits for another verification"


@pytest.mark.parametrize("review", [{}, {"review": "ref-1"}])
@pytest.mark.parametrize(
    ("status", "error"), [(Status.PROCESSING, DeadlineExceeded), (Status.COMPENSATING, StepFenced)]
)
def test_a_decision_that_comes_too_late_is_told_why(
    status: Status, error: type[Exception], review: dict[str, str]
) -> None:
    row = settlement_row(status, set(HELD), AT) | review

    assert type(WRITES["decide.rejected"]().refusal(row)) is error


# Marker and entry


def test_an_event_again_stands_and_its_id_for_anything_else_is_a_conflict() -> None:
    marker = reviews.event_marker(EVENT, SETTLEMENT, NOW)
    left = applied(marker, None)

    again = marker.refusal(left)
    other = reviews.event_marker(replace(EVENT, digest="0" * 64), SETTLEMENT, NOW).refusal(left)

    assert isinstance(again, Standing)
    assert again.row == left
    assert type(other) is IdempotencyConflict
    assert str(other) == "webhook-id: was used before by an event with other content"


def test_the_same_decision_stands_and_another_is_a_conflict_for_good() -> None:
    for said in VERDICTS.values():
        left = applied(reviews.verdict_entry(SETTLEMENT, said, NOW), None)
        for told in VERDICTS.values():
            again = replace(told, reference="ver_2", reason="told again")
            refusal = reviews.verdict_entry(SETTLEMENT, again, NOW).refusal(left)
            if told.decision is said.decision:
                assert isinstance(refusal, Standing)
                assert refusal.row == left
            else:
                assert type(refusal) is IdempotencyConflict
                assert str(refusal) == f"decision: {said.decision} is on record, for good"


@pytest.mark.parametrize("row", [None, {"request_hash": "another", "decision": "APPROVED"}])
def test_an_entry_of_another_request_is_a_conflict_of_the_key(row: Row | None) -> None:
    refusal = reviews.verdict_entry(SETTLEMENT, VERDICT, NOW).refusal(row)

    assert type(refusal) is IdempotencyConflict
    assert str(refusal).startswith(f"key: {SETTLEMENT.key} was claimed")


def test_a_verdicts_entry_is_found_by_whoever_asks_and_whoever_is_told() -> None:
    """The two ways to a verdict meet in one row, so that there is one verdict."""
    asked = steps.verify(SETTLEMENT, VERDICT, NOW).entry.parameters["Item"]
    told = reviews.verdict_entry(SETTLEMENT, VERDICT, NOW).parameters["Item"]

    assert asked == told


def test_a_review_is_no_verdict_and_never_on_a_row_as_one() -> None:
    """The provider's answer REVIEW goes to `park`; the writes of a verdict are for those who have one."""
    said: list[Verdict] = [VERDICT, REJECTED]
    assert {each.decision for each in said} == set(KycDecision) - {KycDecision.REVIEW}
    assert {build().parameters["ExpressionAttributeValues"].get(":verdict") for build in WRITES.values()} == {
        None,
        *(each.decision.value for each in said),
    }
