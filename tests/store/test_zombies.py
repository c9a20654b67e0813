"""A Lambda that still runs after its settlement was fenced off: it commits nothing, at any time."""

import pytest

from settlement.model.errors import StepFenced
from settlement.model.orders import Resolution
from settlement.model.status import REVERSIBLE, Step
from tests.store.reversal import posted
from tests.store.saga import COMPLETE, ENTRIES, LATER, RETRY, WRITE_OFF, Saga

NEXT = {None: Step.HOLD, Step.HOLD: Step.VERIFY, Step.VERIFY: Step.RELEASE, Step.RELEASE: Step.FEE}
"""The step that may run when the steps up to another have committed."""

LAST_BEFORE = [None, Step.HOLD, Step.VERIFY, Step.RELEASE]


def assert_fenced(saga: Saga, last: Step | None) -> None:
    """Check that each uncommitted step is refused, and each committed one replayed from its entry."""
    status = saga.row()["status"]
    with saga.writes_nothing():
        for step in Step:
            if ENTRIES[step] in posted(last):
                assert saga.commit(step, LATER) == ENTRIES[step]
            else:
                with pytest.raises(StepFenced, match=f"^{step}: the settlement is {status} "):
                    saga.commit(step, LATER)


@pytest.mark.parametrize("last", LAST_BEFORE)
def test_no_late_step_commits_after_the_fence_nor_between_two_reversals_nor_after_them(
    saga: Saga, last: Step | None
) -> None:
    saga.begun(last)
    assert_fenced(saga, last)

    for step in REVERSIBLE:
        saga.reverse(step)
        assert_fenced(saga, last)

    assert [row["available"] for row in saga.books()[:2]] == [10_000, 500]


@pytest.mark.parametrize("last", LAST_BEFORE)
def test_but_for_the_fence_the_next_step_would_have_committed(saga: Saga, last: Step | None) -> None:
    saga.reach(last)

    assert saga.commit(NEXT[last], LATER)["posted_at"] == "2026-11-20T12:00:07.123Z"


@pytest.mark.parametrize("step", REVERSIBLE)
def test_no_late_step_commits_between_the_reversals_of_a_settled_settlement(saga: Saga, step: Step) -> None:
    saga.begun(Step.FEE)
    for earlier in REVERSIBLE[: REVERSIBLE.index(step) + 1]:
        saga.reverse(earlier)

    assert_fenced(saga, Step.FEE)


@pytest.mark.parametrize("resolution", [RETRY, WRITE_OFF, COMPLETE], ids=lambda each: each.decision)
def test_no_late_step_commits_in_limbo_nor_after_the_decision(saga: Saga, resolution: Resolution) -> None:
    """The fee is the late step: nothing but LIMBO keeps it from committing."""
    saga.stuck(Step.RELEASE, last=Step.RELEASE)
    assert_fenced(saga, Step.RELEASE)

    saga.resolve(resolution)
    assert_fenced(saga, Step.RELEASE)

    saga.books()
