"""The writes of a verdict and of the review before it: when each commits, and the meaning of each refusal."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from settlement.ledger import entries, keys, kyc_review
from settlement.ledger.keys import Row
from settlement.ledger.transaction import AlreadyApplied, Write
from settlement.model.errors import DeadlineExceeded, IdempotencyConflict, KycUnavailable, StepFenced
from settlement.model.status import Status, Step
from settlement.model.timestamps import timestamp
from settlement.model.verdict import KycDecision, Verdict
from settlement.policy import steps
from tests.conftest import NOW
from tests.unit.conditions import admits
from tests.unit.every_row import AFTER, AT, BEFORE, PREFIXES, settlement_row, verdicts
from tests.unit.states import found
from tests.unit.table import applied
from tests.unit.vectors import (
    CONFIG,
    DECIDER,
    EVENT,
    IN_HASTE,
    IN_REVIEW,
    REJECTED,
    REVIEW_ENDS,
    SETTLEMENT,
    VERDICT,
    VERDICTS,
)

HELD = {Step.HOLD}
WRITES: dict[str, Callable[[], Write]] = {
    **{
        f"record_verdict.{variant}": partial(kyc_review.record_verdict, SETTLEMENT, verdict, NOW)
        for variant, verdict in VERDICTS.items()
    },
    "begin_review": partial(kyc_review.begin_review, SETTLEMENT, IN_REVIEW, REVIEW_ENDS, NOW),
    **{
        f"end_review.{variant}": partial(kyc_review.end_review, SETTLEMENT, verdict, DECIDER, NOW, CONFIG)
        for variant, verdict in VERDICTS.items()
    },
}
"""Each is built in its test: at import, mutation testing would not reach its builder."""

RECORDING = {name: write for name, write in WRITES.items() if name != "begin_review"}


def met() -> Iterator[Row]:
    for status in Status:
        for committed in PREFIXES:
            for deadline_at in (BEFORE, AT, AFTER):
                for same in (True, False):
                    for verified in verdicts(committed):
                        row = settlement_row(status, committed, deadline_at, same_request=same, **verified)
                        row |= {"owner": "execution", "gsi1pk": "IN_FLIGHT#2", "gsi1sk": AT}
                        yield from (row, row | {"expired_at": BEFORE})


def awaiting(**more: Any) -> Row:
    """Return the row of a settlement that waits for its verdict."""
    return settlement_row(Status.PROCESSING, set(HELD), AFTER, owner="execution", owner_epoch=0, **more)


# When they commit


@pytest.mark.parametrize("name", WRITES)
def test_a_verdict_is_recorded_only_while_it_is_awaited(name: str) -> None:
    """After the hold, before any verdict, in time, for the same request, and not for another review."""
    reviews_met = (None, "ref-1") if name.startswith("end_review") else (None,)
    write = WRITES[name]()

    for row in met():
        awaited = (
            row["status"] == Status.PROCESSING
            and row.get("steps") == HELD
            and "verdict" not in row
            and row["deadline_at"] == AFTER
            and "expired_at" not in row
            and row["request_hash"] == SETTLEMENT.request_hash
            and row.get("review") in reviews_met
        )
        assert admits(write, row) == awaited, row


@pytest.mark.parametrize("name", WRITES)
def test_none_of_them_makes_a_row(name: str) -> None:
    write = WRITES[name]()

    assert not admits(write, None)
    refusal = write.on_failure(None)
    assert type(refusal) is StepFenced
    assert str(refusal) == f"verify: the key {SETTLEMENT.key} was never claimed"


# The row after them


@pytest.mark.parametrize(
    ("name", "review"),
    [
        *((name, {}) for name in RECORDING),
        *((name, {"review": "ref-1"}) for name in RECORDING if name.startswith("end_review")),
    ],
)
def test_a_verdict_ends_the_review_and_only_an_approval_commits_the_step(
    name: str, review: dict[str, str]
) -> None:
    row = awaiting(**review)

    after = applied(RECORDING[name](), row)

    approved = name.endswith("approved")
    assert "review" not in after
    assert after["verdict"] == ("APPROVED" if approved else "REJECTED")
    assert after["steps"] == ({Step.HOLD, Step.VERIFY} if approved else HELD)
    assert (after["status"], after["escrow"]) == (row["status"], row["escrow"])


def test_the_providers_verdict_changes_neither_owner_nor_deadline() -> None:
    row = awaiting()

    after = applied(kyc_review.record_verdict(SETTLEMENT, REJECTED, NOW), row)

    assert after == row | {"verdict": "REJECTED"}


def test_the_end_of_a_review_makes_another_execution_the_owner_with_the_time_of_a_new_settlement() -> None:
    row = awaiting(review="ref-1")

    after = applied(kyc_review.end_review(SETTLEMENT, REJECTED, "me-decided", NOW, CONFIG), row)

    assert (after["owner"], after["owner_epoch"]) == ("me-decided", 1)
    assert after["deadline_at"] == timestamp(NOW + timedelta(seconds=CONFIG.deadline_seconds))
    due = timestamp(NOW + timedelta(seconds=CONFIG.recover_after_seconds))
    listed = keys.in_flight_index(SETTLEMENT.key, due)
    assert {name: after[name] for name in listed} == listed
    assert after["in_flight_since"] == timestamp(NOW)


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS)
def test_the_end_of_a_review_keeps_a_deadline_that_the_request_named(verdict: Verdict) -> None:
    row = awaiting(review="ref-1") | IN_HASTE.to_row() | keys.settlement(IN_HASTE.key)

    after = applied(kyc_review.end_review(IN_HASTE, verdict, "me-decided", NOW, CONFIG), row)

    assert after["deadline_at"] == row["deadline_at"] == AFTER
    assert (after["owner"], after["owner_epoch"]) == ("me-decided", 1)
    due = timestamp(NOW + timedelta(seconds=CONFIG.recover_after_seconds))
    assert (after["gsi1sk"], after["in_flight_since"]) == (due, timestamp(NOW))


def test_a_review_moves_the_deadline_and_the_place_in_the_index_to_its_end_and_nothing_else() -> None:
    row = awaiting()

    after = applied(kyc_review.begin_review(SETTLEMENT, IN_REVIEW, REVIEW_ENDS, NOW), row)

    end = timestamp(REVIEW_ENDS)
    listed = keys.in_flight_index(SETTLEMENT.key, end)
    assert after == row | {"review": "ref-1", "deadline_at": end, "in_flight_since": end} | listed


def test_a_review_is_ended_by_the_verdict_on_its_own_verification() -> None:
    later = REVIEW_ENDS - timedelta(milliseconds=1)
    in_review = applied(WRITES["begin_review"](), awaiting())

    for reference, admitted in (("ref-1", True), ("ref-2", False)):
        verdict = replace(VERDICT, reference=reference)
        write = kyc_review.end_review(SETTLEMENT, verdict, DECIDER, later, CONFIG)
        assert admits(write, in_review) == admitted
    late = kyc_review.end_review(SETTLEMENT, VERDICT, DECIDER, REVIEW_ENDS, CONFIG)
    assert not admits(late, in_review)


# The meaning of each refusal


def test_a_refused_verdict_is_told_why_as_any_forward_step() -> None:
    write = WRITES["record_verdict.approved"]()
    for row in met():
        if not admits(write, row):
            refusal = type(write.on_failure(found(row)))
            late = row["status"] == Status.PROCESSING and row.get("steps") == HELD and "verdict" not in row
            if row["request_hash"] == "another":
                assert refusal is IdempotencyConflict
            elif "review" in row and row["status"] == Status.PROCESSING:
                assert refusal is KycUnavailable
            else:
                assert refusal is (DeadlineExceeded if late else StepFenced), row


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS)
def test_the_providers_verdict_gives_way_to_a_review_that_another_call_has_begun(verdict: Verdict) -> None:
    """The retry finds the review: a refusal would reverse a payment that a person is looking at."""
    refusal = kyc_review.record_verdict(SETTLEMENT, verdict, NOW).on_failure(found(awaiting(review="ref-1")))

    assert type(refusal) is KycUnavailable
    assert str(refusal) == "kyc: another call was told meanwhile that the payment is in review"


@pytest.mark.parametrize("of_another", [False, True])
@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("verified", [{"verdict": "APPROVED"}, {"verdict": "REJECTED"}, {"review": "ref-1"}])
def test_a_review_that_begins_twice_or_after_the_verdict_changes_nothing(
    verified: dict[str, str], status: Status, of_another: bool
) -> None:
    """A verdict is replayed in every status; a review only while no write has fenced it off."""
    committed = {Step.HOLD, Step.VERIFY} if verified.get("verdict") == "APPROVED" else HELD
    row = settlement_row(status, set(committed), AT, same_request=not of_another) | verified

    refusal = WRITES["begin_review"]().on_failure(found(row))

    replayed = not of_another and ("verdict" in verified or status is Status.PROCESSING)
    assert isinstance(refusal, AlreadyApplied) == replayed
    if isinstance(refusal, AlreadyApplied):
        assert refusal.found == found(row)
    else:
        assert type(refusal) is (IdempotencyConflict if of_another else StepFenced)


@pytest.mark.parametrize(
    ("status", "error"), [(Status.PROCESSING, DeadlineExceeded), (Status.LIMBO, StepFenced)]
)
def test_a_review_that_begins_late_or_after_the_fence_is_refused(
    status: Status, error: type[Exception]
) -> None:
    assert type(WRITES["begin_review"]().on_failure(found(settlement_row(status, set(HELD), AT)))) is error


def test_a_verdict_on_another_verification_is_refused() -> None:
    refusal = WRITES["end_review.approved"]().on_failure(found(awaiting(review="another")))

    assert type(refusal) is StepFenced
    assert str(refusal) == "reference: the settlement waits for another verification"


@pytest.mark.parametrize("review", [{}, {"review": "ref-1"}])
@pytest.mark.parametrize(
    ("status", "error"), [(Status.PROCESSING, DeadlineExceeded), (Status.COMPENSATING, StepFenced)]
)
def test_a_late_end_of_a_review_is_told_why(
    status: Status, error: type[Exception], review: dict[str, str]
) -> None:
    row = settlement_row(status, set(HELD), AT) | review

    assert type(WRITES["end_review.rejected"]().on_failure(found(row))) is error


# Marker and entry


def test_a_repeated_event_is_replayed_and_its_id_with_other_content_is_a_conflict() -> None:
    marker = kyc_review.event_marker(EVENT, SETTLEMENT, NOW)
    left = applied(marker, None)

    again = marker.on_failure(left)
    other = kyc_review.event_marker(replace(EVENT, digest="0" * 64), SETTLEMENT, NOW).on_failure(left)

    assert isinstance(again, AlreadyApplied)
    assert again.found == left
    assert type(other) is IdempotencyConflict
    assert str(other) == "webhook-id: was used before by an event with other content"


def test_the_same_decision_is_replayed_and_another_is_a_conflict_for_good() -> None:
    for first in VERDICTS.values():
        left = applied(entries.verdict(SETTLEMENT, first, NOW), None)
        for second in VERDICTS.values():
            again = replace(second, reference="ver_2", reason="sent again")
            refusal = entries.verdict(SETTLEMENT, again, NOW).on_failure(left)
            if second.decision is first.decision:
                assert isinstance(refusal, AlreadyApplied)
                assert refusal.found == left
            else:
                assert type(refusal) is IdempotencyConflict
                assert str(refusal) == f"decision: {first.decision} is on record, for good"


@pytest.mark.parametrize("row", [None, {"request_hash": "another", "decision": "APPROVED"}])
def test_an_entry_of_another_request_is_a_conflict_of_the_key(row: Row | None) -> None:
    refusal = entries.verdict(SETTLEMENT, VERDICT, NOW).on_failure(row)

    assert type(refusal) is IdempotencyConflict
    assert str(refusal).startswith(f"key: {SETTLEMENT.key} was claimed")


def test_the_providers_answer_and_its_webhook_write_the_same_entry() -> None:
    """The two ways to a verdict meet in one row, so that there is one verdict."""
    answer = steps.verify(SETTLEMENT, VERDICT, NOW).entry.parameters["Item"]
    webhook = entries.verdict(SETTLEMENT, VERDICT, NOW).parameters["Item"]

    assert answer == webhook


def test_a_review_is_never_on_a_row_as_a_verdict() -> None:
    """The provider's answer REVIEW goes to `begin_review`; the other writes take a verdict."""
    verdicts: list[Verdict] = [VERDICT, REJECTED]
    assert {each.decision for each in verdicts} == set(KycDecision) - {KycDecision.REVIEW}
    assert {build().parameters["ExpressionAttributeValues"].get(":verdict") for build in WRITES.values()} == {
        None,
        *(each.decision.value for each in verdicts),
    }
