"""The owner of a reversal: the execution that begins it, and then each one that resumes it."""

import pytest

from settlement.ledger.keys import Row
from settlement.model.errors import IdempotencyConflict, StepFenced
from settlement.model.status import Status, Step
from tests.store.saga import REVERSER, Saga

# The one that begins it


@pytest.mark.parametrize("owner", [None, "execution-1"])
def test_the_owner_or_a_caller_without_a_name_begins_the_reversal(saga: Saga, owner: str | None) -> None:
    saga.reach(Step.HOLD)
    before = saga.row()

    assert saga.begin(owner=owner).status is Status.COMPENSATING
    assert (before["owner"], saga.row()["owner"]) == ("execution-1", REVERSER)


def test_a_former_owner_reverses_nothing_and_gets_the_row(saga: Saga) -> None:
    saga.reach(Step.HOLD)
    before = saga.state()

    with saga.writes_nothing():
        assert saga.begin(owner="execution-2") == before

    assert before.status is Status.PROCESSING


@pytest.mark.parametrize(
    ("last", "changed", "begins"),
    [
        (Step.VERIFY, {}, True),
        (Step.HOLD, {"review": "ver_1"}, False),
        (Step.RELEASE, {}, False),
    ],
    ids=["verified", "in review", "released"],
)
def test_an_owner_reverses_nothing_in_review_or_released_and_a_caller_without_a_name_does(
    saga: Saga, last: Step, changed: Row, begins: bool
) -> None:
    """Such a settlement continues: with the end of the review, or with the fee."""
    saga.reach(last)
    saga.alter(**changed)
    before = saga.state()

    if begins:
        assert saga.begin(owner="execution-1").owner == REVERSER
    else:
        with saga.writes_nothing():
            assert saga.begin(owner="execution-1") == before
        assert saga.begin().status is Status.COMPENSATING


# The ones that resume it


@pytest.mark.parametrize("last", [Step.HOLD, Step.FEE])
def test_an_execution_that_resumes_a_reversal_is_its_owner_and_changes_nothing_else(
    saga: Saga, last: Step
) -> None:
    saga.begun(last)
    before = saga.row()

    assert saga.assign_owner("compensation-2") == saga.state()
    assert saga.row() == before | {"owner": "compensation-2"}


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.COMPENSATING])
def test_no_execution_becomes_the_owner_unless_the_settlement_is_being_reversed(
    saga: Saga, status: Status
) -> None:
    saga.reach(Step.HOLD)
    saga.alter(status=status)

    with saga.writes_nothing():
        assert saga.assign_owner("compensation-2") == saga.state()


def test_no_owner_is_assigned_with_other_content_or_to_an_unclaimed_key(saga: Saga) -> None:
    with saga.writes_nothing(), pytest.raises(StepFenced, match=r"^compensate: .* was never claimed$"):
        saga.assign_owner()
    saga.begun(Step.HOLD)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match="other content"):
        saga.asking(fee=49).assign_owner("compensation-2")
