import pytest

from settlement.core.model.errors import IdempotencyConflict, StepFenced
from settlement.core.model.orders import Reversal
from settlement.core.model.status import REVERSIBLE, Step
from settlement.core.policy import steps
from tests.store.rows import AVAILABLE, REVERSE, REVERSED, REVERSED_AT, begun, book, finished, posted, undone
from tests.world.books import assert_conserved
from tests.world.saga import (
    DECIDED,
    FAILURE,
    FINISHED,
    LATER,
    ORDER,
    POSTED_AT,
    STALLED,
    WRITE_OFF,
    Saga,
    state_of,
    up_to,
)

STAGES = [None, *Step]

DONE = {"status": "COMPENSATED", "finished_at": REVERSED_AT, "escrow": 0}
OTHER_FAILURE = {"step": "hold", "error": "DeadlineExceeded", "cause": "hold: too late"}
UNCLAIMED = {"step": "claim", "error": "StoreUnavailable", "cause": ""}
NEVER_CLAIMED = FINISHED | {
    "status": "REJECTED",
    "owner": "compensation-1",
    "failure": UNCLAIMED,
    "deadline_at": POSTED_AT,
    "finished_at": POSTED_AT,
}


# The beginning, for a failure


@pytest.mark.parametrize("last", [None, Step.HOLD, Step.VERIFY, Step.RELEASE])
def test_beginning_a_compensation_ends_processing_and_moves_nothing(saga: Saga, last: Step | None) -> None:
    saga.reach(last)

    state = saga.begin()

    alice, bob = AVAILABLE[last]
    assert state == state_of(begun(last))
    assert saga.books() == book(begun(last), *posted(last), alice=alice, bob=bob)
    with saga.writes_nothing():
        assert saga.begin(OTHER_FAILURE).reversed_for == FAILURE


# The beginning, for an unclaimed key


def test_a_tombstone_fences_a_late_claim_of_its_key(
    saga: Saga,
) -> None:
    saga.fund()
    assert saga.tombstone(UNCLAIMED) == state_of(NEVER_CLAIMED)

    with saga.writes_only_evidence():
        assert saga.begin() == state_of(NEVER_CLAIMED)
        claimed = saga.claim(LATER)
        for step in Step:
            with pytest.raises(StepFenced, match=f"^{step}: the settlement is REJECTED "):
                saga.send(step)

    assert claimed == state_of(NEVER_CLAIMED)
    assert steps.is_replay(claimed, "execution-1")
    assert steps.is_replay(claimed, "compensation-1")
    assert saga.row() == NEVER_CLAIMED


# The beginning, on a person's order


@pytest.mark.parametrize("last", STAGES)
def test_an_order_begins_a_reversal_and_records_who_and_why(saga: Saga, last: Step | None) -> None:
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


def test_a_second_reversal_order_returns_the_first(saga: Saga, counted: list[str]) -> None:
    saga.begun(Step.FEE)

    with saga.writes_nothing():
        for again in (ORDER, STALLED, Reversal(reason="again", by="another person")):
            assert saga.order(again, LATER) == REVERSE
        with pytest.raises(IdempotencyConflict, match="other content"):
            saga.asking(fee=49).order()

    assert counted == ["Settled", *["StepReplayed"] * 3]


# The reversals


@pytest.mark.parametrize("last", [Step.HOLD, Step.VERIFY, Step.RELEASE, Step.FEE])
def test_each_reversal_moves_settlement_entry_and_balance_in_one_transaction(saga: Saga, last: Step) -> None:
    """Uncommitted steps get no reversal and no entry. A reversal has no deadline."""
    saga.begun(last)
    row, (alice, bob), others = begun(last), AVAILABLE[last], posted(last)
    due = saga.state().unreversed

    for step in due:
        assert saga.reverse(step) == REVERSED[step]
        others.append(REVERSED[step])
        row = row | undone(step) | {"escrow": row["escrow"] + REVERSED[step]["amount"]}
        row["sequence"] += 1
        bob -= 4772 * (step is Step.RELEASE)
        alice += 4820 * (step is Step.HOLD)
        row = finished(row, **DONE) if step is Step.HOLD else row
        assert saga.books() == book(row, *others, alice=alice, bob=bob)

    assert due == [step for step in REVERSIBLE if step in up_to(last)]
    assert (alice, bob) == (10_000, 500)
    assert assert_conserved(saga.ledger.rows()) == {"external:EUR": -10_500}


def test_a_settlement_without_a_hold_finishes_without_an_entry(saga: Saga) -> None:
    saga.begun(None)

    assert saga.finish_unheld() == saga.state()

    assert saga.books() == book(finished(begun(None, events=1), **DONE), alice=10_000, bob=500)
    with saga.writes_nothing():
        assert saga.finish_unheld(DECIDED) == saga.state()


def test_a_repeated_reversal_finds_its_first_commit(saga: Saga, counted: list[str]) -> None:
    saga.begun(Step.FEE)
    done: list[Step] = []
    for step in REVERSIBLE:
        assert saga.send_reversal(step) is None
        done.append(step)
        with saga.writes_nothing():
            for each in done:
                found = saga.send_reversal(each, DECIDED)
                assert found == saga.state()
                assert found.reversed[each] == REVERSED_AT
            with pytest.raises(IdempotencyConflict, match="other content"):
                saga.asking(amount=4821).reverse(step)

    assert [saga.entry(step.reversal) for step in REVERSIBLE] == list(REVERSED.values())
    assert counted == ["Settled", *["StepReplayed"] * 3, "Compensated", *["StepReplayed"] * 3]


@pytest.mark.parametrize("step", [Step.FEE, Step.RELEASE])
def test_a_step_covered_by_a_write_off_is_not_reversed(saga: Saga, step: Step) -> None:
    saga.stuck(step)
    saga.resolve(WRITE_OFF)

    with saga.writes_nothing():
        found = saga.send_reversal(step)

    assert found is not None
    assert found.reversed[step] == saga.row()["resolution"]["decided_at"]
