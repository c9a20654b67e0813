"""The beginning of a reversal: it takes PROCESSING away, or finds that another execution has."""

import pytest

from settlement.ledger import reversal
from settlement.model.errors import IdempotencyConflict, NotReversible, StepFenced
from settlement.model.orders import Reversal
from settlement.model.state import SettlementState
from settlement.model.status import Status, Step
from settlement.policy import steps
from tests.conftest import NOW
from tests.store.reversal import AVAILABLE, REVERSE, begun, book, posted
from tests.store.saga import (
    COMPLETE,
    FAILURE,
    FINISHED,
    LATER,
    ORDER,
    OTHER_STATUSES,
    POSTED_AT,
    STALLED,
    Saga,
    state_of,
)

OTHER_FAILURE = {"step": "hold", "error": "DeadlineExceeded", "cause": "hold: too late"}
UNCLAIMED = {"step": "claim", "error": "StoreUnavailable", "cause": ""}
NEVER_CLAIMED = FINISHED | {
    "status": "REJECTED",
    "owner": "compensation-1",
    "failure": UNCLAIMED,
    "deadline_at": POSTED_AT,
    "finished_at": POSTED_AT,
}
ORDERS = {Status.SETTLED: ORDER, Status.PROCESSING: STALLED}
"""The orders, by the status that the person saw who gave them."""


def tombstone(saga: Saga) -> SettlementState:
    return saga.ledger.store.claim(reversal.tombstone(saga.settlement, "compensation-1", UNCLAIMED, NOW))


@pytest.mark.parametrize("last", [None, Step.HOLD, Step.VERIFY, Step.RELEASE])
def test_to_begin_takes_processing_away_and_moves_nothing(saga: Saga, last: Step | None) -> None:
    saga.reach(last)

    state = saga.begin()

    alice, bob = AVAILABLE[last]
    assert state == state_of(begun(last))
    assert saga.books() == book(begun(last), *posted(last), alice=alice, bob=bob)


@pytest.mark.parametrize("status", OTHER_STATUSES)
def test_in_any_other_status_the_row_is_unchanged_and_returned_as_it_is(saga: Saga, status: Status) -> None:
    saga.reach(Step.VERIFY)
    saga.alter(status=status)

    with saga.writes_nothing():
        assert saga.begin(OTHER_FAILURE) == saga.state()


def test_the_first_failure_is_the_one_that_is_kept(saga: Saga) -> None:
    saga.begun(Step.HOLD)

    with saga.writes_nothing():
        assert saga.begin(OTHER_FAILURE).reversed_for == FAILURE


@pytest.mark.parametrize("status", Status)
def test_nothing_is_begun_by_a_request_with_other_content(saga: Saga, status: Status) -> None:
    saga.reach(Step.HOLD)
    saga.alter(status=status)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match="other content"):
        saga.asking(amount=4821).begin()


def test_no_reversal_begins_for_an_unclaimed_key(saga: Saga) -> None:
    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^compensate: .* was never claimed$"):
        saga.begin()


# An unclaimed key


def test_a_tombstone_makes_an_unclaimed_key_a_finished_settlement(saga: Saga) -> None:
    state = tombstone(saga)

    assert state == state_of(NEVER_CLAIMED)
    assert saga.ledger.rows() == [NEVER_CLAIMED]
    with saga.writes_nothing():
        assert saga.begin() == state_of(NEVER_CLAIMED)


def test_a_late_claim_finds_the_key_finished_and_runs_nothing(saga: Saga) -> None:
    saga.fund()
    tombstone(saga)

    with saga.writes_nothing():
        claimed = saga.claim(LATER)

    assert claimed == state_of(NEVER_CLAIMED)
    assert steps.is_replay(claimed, "execution-1")
    assert steps.is_replay(claimed, "compensation-1")


@pytest.mark.parametrize("step", Step)
def test_no_late_step_commits_on_a_key_with_a_tombstone(saga: Saga, step: Step) -> None:
    saga.fund()
    tombstone(saga)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=f"^{step}: the settlement is REJECTED "):
        saga.commit(step)


@pytest.mark.parametrize("status", Status)
def test_a_tombstone_changes_no_claimed_key_in_any_status(saga: Saga, status: Status) -> None:
    saga.reach(Step.HOLD)
    saga.alter(status=status)

    with saga.writes_nothing():
        assert tombstone(saga) == saga.state()


# On a person's order


@pytest.mark.parametrize("last", [None, *Step])
def test_an_order_begins_to_reverse_a_settled_or_stalled_settlement_and_records_who_and_why(
    saga: Saga, last: Step | None
) -> None:
    saga.reach(last)

    entry = saga.order(ORDER if last is Step.FEE else STALLED)

    alice, bob = AVAILABLE[last]
    failure = begun(Step.FEE)["failure"]
    row = begun(last, failure=failure, reversed_for=failure, in_flight_since=POSTED_AT, owner="execution-1")
    entries = [*posted(last), *([] if last is Step.FEE else [REVERSE])]
    assert entry == REVERSE
    assert saga.books() == book(row, *entries, alice=alice, bob=bob)


def test_an_ordered_reversal_is_due_for_recovery_again(saga: Saga) -> None:
    saga.reach(Step.FEE)

    saga.order(now=LATER)

    row = saga.row()
    assert (row["gsi1pk"], row["gsi1sk"]) == ("IN_FLIGHT#2", "2026-11-20T12:00:37.123Z")
    assert "finished_at" not in row


@pytest.mark.parametrize(
    ("seen", "status"), [(seen, status) for seen in ORDERS for status in Status if status is not seen]
)
def test_an_order_is_refused_in_every_status_but_the_one_that_was_seen(
    saga: Saga, seen: Status, status: Status
) -> None:
    saga.reach(Step.VERIFY)
    saga.alter(status=status)

    with (
        saga.writes_nothing(),
        pytest.raises(NotReversible, match=f"^reverse: it was to be {seen}, but the settlement is {status}$"),
    ):
        saga.order(ORDERS[seen])


def test_an_order_on_a_stalled_settlement_is_refused_if_it_has_settled_since(saga: Saga) -> None:
    saga.reach(Step.RELEASE)
    saga.commit(Step.FEE)

    with saga.writes_nothing(), pytest.raises(NotReversible, match=r"but the settlement is SETTLED$"):
        saga.order(STALLED)


@pytest.mark.parametrize("seen", ORDERS)
def test_a_settlement_completed_out_of_limbo_is_not_reversed(saga: Saga, seen: Status) -> None:
    saga.stuck(Step.RELEASE, last=Step.RELEASE)
    saga.resolve(COMPLETE)

    with (
        saga.writes_nothing(),
        pytest.raises(
            NotReversible,
            match=f"^reverse: it was to be {seen}, but the settlement is SETTLED"
            " and was completed out of LIMBO$",
        ),
    ):
        saga.order(ORDERS[seen])


@pytest.mark.parametrize("status", [Status.COMPENSATING, Status.COMPENSATED, Status.LIMBO])
@pytest.mark.parametrize("seen", ORDERS)
def test_only_a_completed_settlement_is_reported_as_completed(
    saga: Saga, status: Status, seen: Status
) -> None:
    """A decision other than to complete leaves its mark on the row as well."""
    saga.reach(Step.VERIFY)
    saga.alter(status=status, resolution={"decision": "write-off"})

    with (
        saga.writes_nothing(),
        pytest.raises(NotReversible, match=f"^reverse: it was to be {seen}, but the settlement is {status}$"),
    ):
        saga.order(ORDERS[seen])


@pytest.mark.parametrize(
    "again",
    [ORDER, STALLED, Reversal(reason="again", by="another person")],
    ids=["same", "seen in another status", "other"],
)
def test_a_second_order_is_answered_with_the_first(saga: Saga, again: Reversal, counted: list[str]) -> None:
    saga.begun(Step.FEE)

    with saga.writes_nothing():
        assert saga.order(again, LATER) == REVERSE

    assert counted == ["Settled", "StepReplayed"]


@pytest.mark.parametrize("before", [False, True])
def test_an_order_with_other_content_than_the_key_was_claimed_with_is_a_conflict(
    saga: Saga, before: bool
) -> None:
    saga.reach(Step.FEE)
    if before:
        saga.order()

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match="other content"):
        saga.asking(fee=49).order()


def test_an_order_to_reverse_an_unclaimed_key_is_refused(saga: Saga) -> None:
    with saga.writes_nothing(), pytest.raises(NotReversible, match=r"^reverse: .* was never claimed$"):
        saga.order()
