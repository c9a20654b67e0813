"""Out of LIMBO with nothing at risk: the stuck reversal only goes on record, as its step never committed."""

import pytest

from settlement.model.errors import ResolutionRefused
from settlement.model.orders import Resolution
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.policy import compensation
from tests.store.books import assert_conserved
from tests.store.reversal import AVAILABLE, DECIDED_AT, DUE_AGAIN, begun, book, decision, entry, posted, said
from tests.store.saga import COMPLETE, RETRY, WRITE_OFF, Saga
from tests.store.test_limbo import ACCOUNT, limbo_entry

NEVER_COMMITTED = [
    *((None, step) for step in REVERSIBLE),
    *((last, Step.FEE) for last in (Step.HOLD, Step.VERIFY, Step.RELEASE)),
    *((last, Step.RELEASE) for last in (Step.HOLD, Step.VERIFY)),
]
"""The last committed step of a settlement, and a step that never committed."""


def stuck(saga: Saga, last: Step | None, step: Step) -> None:
    """Enter LIMBO at the skipped reversal of `step`, with nothing to reverse before it."""
    saga.begun(last)
    saga.enter(failure={"step": step.reversal, "error": "InsufficientFunds", "cause": "payee: has spent it"})


@pytest.mark.parametrize(("last", "step"), NEVER_COMMITTED)
def test_to_retry_lets_the_reversal_continue(saga: Saga, last: Step | None, step: Step) -> None:
    stuck(saga, last, step)

    resolved = saga.resolve(RETRY)

    assert resolved == entry("resolve:1", DECIDED_AT, account=ACCOUNT[step], **said(RETRY))
    row = begun(last, resolutions=1, resolution=decision(RETRY), **DUE_AGAIN)
    alice, bob = AVAILABLE[last]
    entries = [*posted(last), limbo_entry(step), resolved]
    assert saga.books() == book(row, *entries, alice=alice, bob=bob)
    for each in REVERSIBLE:
        saga.reverse(each)
    assert saga.row()["status"] == Status.COMPENSATED
    assert [row["available"] for row in saga.books()[:2]] == [10_000, 500]


@pytest.mark.parametrize(("last", "step"), NEVER_COMMITTED)
def test_nothing_is_written_off_for_a_step_that_never_committed(
    saga: Saga, last: Step | None, step: Step
) -> None:
    """The check refuses it, and so does the write if a caller passes the check."""
    stuck(saga, last, step)

    with pytest.raises(ResolutionRefused, match=r"^write-off: the escrow lacks nothing .*; use retry$"):
        compensation.ensure_can_resolve(saga.state(), WRITE_OFF.decision)
    with (
        saga.writes_nothing(),
        pytest.raises(ResolutionRefused, match=r"^resolution: .* has moved on since "),
    ):
        saga.resolve(WRITE_OFF)


@pytest.mark.parametrize("step", [Step.FEE, Step.RELEASE])
def test_a_committed_step_may_be_written_off(saga: Saga, step: Step) -> None:
    saga.stuck(step)

    compensation.ensure_can_resolve(saga.state(), WRITE_OFF.decision)
    saga.resolve(WRITE_OFF)

    assert step in saga.row()["reversed"]


@pytest.mark.parametrize("last", [Step.HOLD, Step.VERIFY, Step.RELEASE, Step.FEE])
def test_a_hold_is_not_written_off_as_the_escrow_has_all_of_it(saga: Saga, last: Step) -> None:
    saga.stuck(Step.HOLD, last)

    with pytest.raises(ResolutionRefused, match=r"^write-off: the escrow lacks nothing .*; use retry$"):
        compensation.ensure_can_resolve(saga.state(), WRITE_OFF.decision)


def test_a_release_may_be_accepted_though_the_fee_is_stuck(saga: Saga) -> None:
    stuck(saga, Step.RELEASE, Step.FEE)
    compensation.ensure_can_resolve(saga.state(), COMPLETE.decision)

    resolved = saga.resolve(COMPLETE)

    assert (resolved["amount"], resolved["account"]) == (48, "fees:EUR")
    assert (saga.row()["status"], saga.row()["escrow"]) == ("SETTLED", 0)
    assert assert_conserved(saga.ledger.rows()) == {"external:EUR": -10_500, "fees:EUR": 48}


@pytest.mark.parametrize("resolution", [RETRY, COMPLETE], ids=lambda each: each.decision)
def test_a_block_for_another_settlement_outlives_a_case_that_blocked_no_account(
    saga: Saga, resolution: Resolution
) -> None:
    saga.begun(Step.RELEASE)
    saga.ledger.put(saga.books()[1] | {"limbo_keys": {"order-2026-000099"}})
    saga.enter(failure={"step": "compensate:fee", "error": "StoreUnavailable", "cause": "unreachable"})

    saga.resolve(resolution)

    assert saga.books()[1]["limbo_keys"] == {"order-2026-000099"}
