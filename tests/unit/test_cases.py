import pytest

from settlement.core.model.case import Case
from settlement.core.model.errors import EscrowMismatch
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.policy import compensation
from tests.unit import books, states
from tests.unit.books import LAST, STUCK, UNMOVED, entries, moved
from tests.unit.vectors import slots
from tests.world.saga import RETRY, Saga, up_to

PARTIES = {Step.FEE: ("fees:EUR", 48), Step.RELEASE: ("bob", 4772), Step.HOLD: ("alice", 4820)}
"""By step: account and amount of the case in which its reversal is stuck."""


def blocked(saga: Saga) -> dict[str, int]:
    return {row["pk"]: row["limbo_cases"] for row in saga.ledger.rows() if row.get("limbo_cases")}


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_case_of_an_uncommitted_step_blocks_no_account(step: Step, last: Step | None) -> None:
    """A case blocks only its own step's account: the other reversals may not have been tried."""
    state, is_moved = books.begun(last).state(), step in up_to(last)
    account, amount = PARTIES[step]

    assert compensation.case_of(state, step) == Case(
        step=step,
        account=account,
        blocked_account=account if is_moved and step is not Step.FEE else None,
        amount=amount if is_moved else 0,
        number=1,
        escrow=state.escrow,
    )


def test_a_case_of_an_already_reversed_step_blocks_no_account() -> None:
    state = states.state(**slots({Step.HOLD}, {Step.HOLD}))

    assert compensation.case_of(state, Step.HOLD) == Case(
        step=Step.HOLD, account="alice", blocked_account=None, amount=0, number=1, escrow=0, done=True
    )


@pytest.mark.parametrize(("last", "step"), [*STUCK, *UNMOVED])
def test_a_stuck_reversal_blocks_its_customer_until_its_cases_end(last: Step | None, step: Step) -> None:
    account, _ = PARTIES[step]
    blocks = {f"ACCOUNT#{account}": 1} if (last, step) in STUCK and ":" not in account else {}
    saga = books.stuck(last, step)

    for number in (1, 2):
        state = saga.state()
        case = compensation.stuck_case(state)
        assert (state.status, state.stuck_step) == (Status.LIMBO, step.reversal)
        assert (case.step, case.account, case.number) == (step, account, number)
        assert blocked(saga) == blocks
        entry = entries(saga)[f"limbo:{number}"]
        assert (entry["account"], entry["error"]) == (account, "InsufficientFunds")
        saga.resolve(RETRY)
        assert blocked(saga) == {}
        if number == 1:
            saga.enter(saga.case(step))

    assert entries(saga).keys() >= {"limbo:1", "resolve:1", "limbo:2", "resolve:2"}
    saga.unwind()
    assert (moved(saga), saga.state().status) == ({}, Status.COMPENSATED)


@pytest.mark.parametrize("step", REVERSIBLE)
def test_the_open_case_is_the_recorded_one_not_the_next(step: Step) -> None:
    saga = books.begun(Step.FEE)
    case = saga.case(step)

    saga.enter(case)

    assert saga.state().unreversed == list(REVERSIBLE)
    assert compensation.stuck_case(saga.state()) == case


def test_a_hold_with_a_wrong_escrow_becomes_a_case() -> None:
    """The payer owns the money and is blocked. Nothing moves until the missing rest is in escrow."""
    saga = books.begun(Step.HOLD)
    held = saga.state().escrow
    saga.alter(escrow=held - 1)
    with pytest.raises(EscrowMismatch):
        saga.reverse(Step.HOLD)

    saga.enter(saga.case(Step.HOLD))
    saga.alter(escrow=held)

    assert blocked(saga) == {"ACCOUNT#alice": 1}
    saga.resolve(RETRY)
    saga.unwind()
    assert (moved(saga), saga.state().status) == ({}, Status.COMPENSATED)
