"""Whom a reversal belongs to: an execution begins its own, and whoever drives it on is the owner then."""

import pytest

from settlement.errors import IdempotencyConflict
from settlement.rows import Row
from settlement.status import Status, Step
from tests.store.saga import REVERSER, Saga

# By whom


@pytest.mark.parametrize("owner", [None, "execution-1"])
def test_who_drives_it_or_names_nobody_begins_to_reverse_it(saga: Saga, owner: str | None) -> None:
    saga.reach(Step.HOLD)
    before = saga.row()

    assert saga.begin(owner=owner)["status"] == Status.COMPENSATING
    assert (before["owner"], saga.row()["owner"]) == ("execution-1", REVERSER)


def test_who_drives_it_no_more_reverses_nothing_and_is_shown_the_row(saga: Saga) -> None:
    saga.reach(Step.HOLD)
    before = saga.row()

    with saga.writes_nothing():
        assert saga.begin(owner="execution-2") == before

    assert before["status"] == Status.PROCESSING


@pytest.mark.parametrize(
    ("last", "changed", "begins"),
    [
        (Step.VERIFY, {}, True),
        (Step.HOLD, {"review": "ver_1"}, False),
        (Step.RELEASE, {}, False),
    ],
    ids=["verified", "in review", "released"],
)
def test_an_owner_reverses_nothing_that_is_in_review_or_released_and_who_names_none_does(
    saga: Saga, last: Step, changed: Row, begins: bool
) -> None:
    """Whoever waits for the review, or has only the fee left to collect, is to go on with it."""
    saga.reach(last)
    saga.alter(**changed)
    before = saga.row()

    if begins:
        assert saga.begin(owner="execution-1")["owner"] == REVERSER
    else:
        with saga.writes_nothing():
            assert saga.begin(owner="execution-1") == before
        assert saga.begin()["status"] == Status.COMPENSATING


# Who drives it


@pytest.mark.parametrize("last", [Step.HOLD, Step.FEE])
def test_whoever_comes_to_drive_what_is_being_reversed_is_its_owner_and_changes_nothing_else(
    saga: Saga, last: Step
) -> None:
    saga.begun(last)
    before = saga.row()

    assert saga.drive("compensation-2") == saga.row() == before | {"owner": "compensation-2"}


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.COMPENSATING])
def test_what_is_not_being_reversed_stands_whoever_comes_to_drive_it(saga: Saga, status: Status) -> None:
    saga.reach(Step.HOLD)
    saga.alter(status=status)

    with saga.writes_nothing():
        assert saga.drive("compensation-2") == saga.row()


def test_nobody_drives_with_other_content_or_makes_a_row_of_a_key_that_was_never_claimed(saga: Saga) -> None:
    with saga.writes_nothing():
        assert saga.drive() == {}
    saga.begun(Step.HOLD)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match="other content"):
        saga.asking(fee=49).drive("compensation-2")
