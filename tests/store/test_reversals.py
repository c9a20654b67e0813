"""Each reversal: one transaction of entry, settlement and balance, which commits once or not at all."""

import pytest

from settlement.model.errors import IdempotencyConflict, StepFenced
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.policy import compensation
from tests.conftest import NOW
from tests.store.books import assert_conserved
from tests.store.reversal import AVAILABLE, REVERSED, REVERSED_AT, SKIPPED, begun, book, finished, posted
from tests.store.saga import DEADLINE, DECIDED, LATER, Saga

STAGES = [None, *Step]
"""The last committed step of a settlement when its reversal begins."""

DONE = {"status": "COMPENSATED", "finished_at": REVERSED_AT, "escrow": 0}


def test_to_refund_the_fee_takes_it_from_the_fees_to_the_escrow(saga: Saga) -> None:
    saga.begun(Step.FEE)

    assert saga.reverse(Step.FEE) == REVERSED[Step.FEE]

    row = begun(Step.FEE, escrow=48, reversed={"fee"})
    assert saga.books() == book(row, *posted(Step.FEE), REVERSED[Step.FEE], alice=5180, bob=5272)


def test_to_reclaim_takes_the_net_amount_from_the_payee_to_the_escrow(saga: Saga) -> None:
    saga.begun(Step.RELEASE)

    assert saga.reverse(Step.RELEASE) == REVERSED[Step.RELEASE]

    row = begun(Step.RELEASE, escrow=4820, reversed={"release"})
    assert saga.books() == book(row, *posted(Step.RELEASE), REVERSED[Step.RELEASE], alice=5180, bob=500)


@pytest.mark.parametrize("last", [Step.HOLD, Step.VERIFY])
def test_to_void_gives_the_amount_back_to_the_payer_and_finishes_in_one_transaction(
    saga: Saga, last: Step
) -> None:
    saga.begun(last)

    assert saga.reverse(Step.HOLD) == REVERSED[Step.HOLD]

    row = finished(begun(last), **DONE, reversed={"hold"})
    assert saga.books() == book(row, *posted(last), REVERSED[Step.HOLD], alice=10_000, bob=500)


@pytest.mark.parametrize("last", STAGES)
def test_a_settlement_reversed_from_any_step_leaves_both_parties_with_what_they_had(
    saga: Saga, last: Step | None
) -> None:
    saga.begun(last)

    for step in REVERSIBLE:
        saga.reverse(step)

    committed = [step for step in REVERSIBLE if step in begun(last).get("steps", ())]
    entries = [(REVERSED if step in committed else SKIPPED)[step] for step in REVERSIBLE]
    reversed_ = {"reversed": {step.value for step in committed}} if committed else {}
    row = finished(begun(last), **DONE, **reversed_)
    assert saga.books() == book(row, *posted(last), *entries, alice=10_000, bob=500)
    assert assert_conserved(saga.ledger.rows()) == {"external:EUR": -10_500}


@pytest.mark.parametrize("step", [Step.FEE, Step.RELEASE])
def test_the_reversal_of_an_uncommitted_step_is_skipped_on_record_and_moves_nothing(
    saga: Saga, step: Step
) -> None:
    saga.begun(Step.VERIFY)

    assert saga.reverse(step) == SKIPPED[step]

    alice, bob = AVAILABLE[Step.VERIFY]
    assert saga.books() == book(begun(Step.VERIFY), *posted(Step.VERIFY), SKIPPED[step], alice=alice, bob=bob)


@pytest.mark.parametrize("fee", [0, 1, 4819])
def test_any_fee_is_reversed_to_the_last_minor_unit(saga: Saga, fee: int) -> None:
    other = saga.asking(fee=fee)
    other.begun(Step.FEE)

    amounts = [other.reverse(step)["amount"] for step in REVERSIBLE]

    assert amounts == [fee, 4820 - fee, 4820]
    assert [row["available"] for row in other.books()[:2]] == [10_000, 500]


def test_a_reversal_knows_no_deadline(saga: Saga) -> None:
    saga.begun(Step.FEE)

    for step in REVERSIBLE:
        saga.reverse(step, DEADLINE + (DECIDED - NOW) * 1000)

    assert saga.row()["status"] == Status.COMPENSATED


# Again


def outcomes_of(last: Step | None, step: Step) -> list[str]:
    """Return the metrics of a settlement that came as far as `last` and is reversed as far as `step`."""
    return ["Settled"] * (last is Step.FEE) + ["Compensated"] * (step is Step.HOLD)


@pytest.mark.parametrize("last", [None, Step.FEE])
@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_reversal_that_is_called_again_returns_the_entry_of_the_first_call(
    saga: Saga, last: Step | None, step: Step, counted: list[str]
) -> None:
    saga.begun(last)
    for earlier in REVERSIBLE[: REVERSIBLE.index(step)]:
        saga.reverse(earlier)
    first = saga.reverse(step)
    outcomes = outcomes_of(last, step)
    assert counted == outcomes

    with saga.writes_nothing():
        assert saga.reverse(step, DECIDED) == first

    assert counted == [*outcomes, "StepReplayed"]


@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_reversal_is_replayed_after_the_end(saga: Saga, step: Step) -> None:
    saga.begun(Step.FEE)
    for each in REVERSIBLE:
        saga.reverse(each)

    with saga.writes_nothing():
        assert saga.reverse(step, DECIDED) == REVERSED[step]


@pytest.mark.parametrize("step", REVERSIBLE)
def test_no_transaction_is_made_for_a_step_known_to_be_reversed(saga: Saga, step: Step) -> None:
    assert compensation.reverse_step(saga.settlement, step, list(Step), [step], NOW) is None


@pytest.mark.parametrize(
    ("last", "step"), [(None, Step.HOLD), (Step.HOLD, Step.HOLD), *((Step.FEE, step) for step in REVERSIBLE)]
)
def test_a_first_reversal_with_other_content_is_a_conflict(saga: Saga, last: Step | None, step: Step) -> None:
    saga.begun(last)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match="other content"):
        saga.asking(amount=4821).reverse(step)


@pytest.mark.parametrize("step", REVERSIBLE)
@pytest.mark.parametrize("last", [None, Step.FEE])
def test_a_repeated_reversal_with_other_content_is_a_conflict(
    saga: Saga, step: Step, last: Step | None, counted: list[str]
) -> None:
    saga.begun(last)
    for each in REVERSIBLE[: REVERSIBLE.index(step) + 1]:
        saga.reverse(each)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match="other content"):
        saga.asking(amount=4821).reverse(step)

    assert counted == outcomes_of(last, step)


# In another status

OTHERS = [status for status in Status if status is not Status.COMPENSATING]


@pytest.mark.parametrize("step", REVERSIBLE)
@pytest.mark.parametrize("status", OTHERS)
def test_nothing_is_reversed_unless_the_settlement_is_being_reversed(
    saga: Saga, step: Step, status: Status
) -> None:
    saga.begun(Step.FEE)
    for earlier in REVERSIBLE[: REVERSIBLE.index(step)]:
        saga.reverse(earlier)
    saga.alter(status=status)

    with (
        saga.writes_nothing(),
        pytest.raises(StepFenced, match=f"^compensate:{step}: the settlement is {status} with steps "),
    ):
        saga.reverse(step)


@pytest.mark.parametrize("status", OTHERS)
def test_no_unheld_settlement_is_finished_unless_it_is_being_reversed(saga: Saga, status: Status) -> None:
    saga.begun(None)
    saga.alter(status=status)

    with (
        saga.writes_nothing(),
        pytest.raises(StepFenced, match=f"^compensate:hold: the settlement is {status} "),
    ):
        saga.reverse(Step.HOLD)


@pytest.mark.parametrize(
    ("step", "committed"), [*((step, tuple(Step)) for step in REVERSIBLE), (Step.HOLD, ())]
)
def test_nothing_is_reversed_for_an_unclaimed_key(
    saga: Saga, step: Step, committed: tuple[Step, ...]
) -> None:
    saga.fund()

    with saga.writes_nothing(), pytest.raises(StepFenced, match=f"^compensate:{step}: .* was never claimed$"):
        saga.reverse(step, LATER, committed)
