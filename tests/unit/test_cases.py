"""A case of LIMBO is about the step that failed, and blocks the customer of that step."""

import pytest

from settlement.model.case import Case
from settlement.model.errors import EscrowMismatch
from settlement.model.orders import Decision
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.policy import compensation
from tests.unit.books import compensating, in_limbo
from tests.unit.test_compensation import COMMITTED, STUCK, UNMOVED
from tests.unit.vectors import FAILURE, SETTLEMENT


@pytest.mark.parametrize(
    ("committed", "stuck", "account", "blocked_account", "amount"),
    [
        (2, Step.HOLD, "alice", "alice", 4820),
        (3, Step.RELEASE, "bob", "bob", 4772),
        (4, Step.FEE, "fees:EUR", None, 48),
        (4, Step.RELEASE, "bob", "bob", 4772),
        (4, Step.HOLD, "alice", "alice", 4820),
    ],
)
def test_the_case_has_the_party_of_the_stuck_step(
    committed: int, stuck: Step, account: str, blocked_account: str | None, amount: int
) -> None:
    books = in_limbo(committed, stuck)

    case = compensation.stuck_case(books.state())

    assert (case.step, case.account, case.blocked_account, case.amount, case.number) == (
        stuck,
        account,
        blocked_account,
        amount,
        1,
    )
    for party in ("alice", "bob"):
        assert books.account(party).get("limbo_keys") == (
            {SETTLEMENT.key} if party == blocked_account else None
        )
    (entry,) = (entry for entry in books.entries() if entry["step"] == "limbo:1")
    assert (entry["account"], entry["error"], entry["cause"]) == (account, FAILURE["error"], FAILURE["cause"])


def test_a_case_without_a_held_amount_has_nothing_at_risk() -> None:
    case = compensation.case_of(compensating(0).state(), Step.HOLD)

    assert (case.step, case.account, case.amount) == (Step.HOLD, "alice", 0)
    assert case.blocked_account is None


@pytest.mark.parametrize("committed", COMMITTED)
@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_case_is_about_its_step_and_blocks_no_account_if_nothing_moved(step: Step, committed: int) -> None:
    """The other unreversed steps do not matter: the next reversal in turn may not have been tried at all."""
    state, moved = compensating(committed).state(), step in list(Step)[:committed]

    case = compensation.case_of(state, step)

    account, amount = {
        Step.FEE: ("fees:EUR", 48),
        Step.RELEASE: ("bob", 4772),
        Step.HOLD: ("alice", 4820),
    }[step]
    assert case == Case(
        step=step,
        account=account,
        blocked_account=account if moved and step is not Step.FEE else None,
        amount=amount if moved else 0,
        number=1,
        escrow=state.escrow,
    )


@pytest.mark.parametrize(("committed", "stuck"), UNMOVED)
def test_a_case_of_a_step_that_never_committed_blocks_no_account(committed: int, stuck: Step) -> None:
    books = in_limbo(committed, stuck)

    row = books.row()
    (entry,) = (entry for entry in books.entries() if entry["step"] == "limbo:1")
    assert (row["status"], row["stuck_step"]) == (Status.LIMBO, stuck.reversal)
    assert entry["account"] == compensation.stuck_case(books.state()).account
    for party in ("alice", "bob"):
        assert "limbo_keys" not in books.account(party)
    books.resolve(Decision.RETRY)
    books.finish()
    books.assert_consistent()
    assert (books.moved(), books.row()["status"]) == ({}, Status.COMPENSATED)


@pytest.mark.parametrize("stuck", REVERSIBLE)
def test_the_open_case_is_the_one_on_the_row_and_not_the_next_in_turn(stuck: Step) -> None:
    books = compensating(4)
    assert books.state().unreversed == list(REVERSIBLE)

    case = books.stick(stuck)

    assert compensation.stuck_case(books.state()) == case
    assert case.step is stuck


def test_a_hold_with_another_escrow_is_a_case_for_a_person() -> None:
    """It is the payer's money, so the payer is blocked; nothing moves until the rest is in escrow."""
    books = compensating(4)
    with pytest.raises(EscrowMismatch):
        books.reverse(Step.HOLD)

    case = books.stick(Step.HOLD)

    assert (case.account, case.blocked_account, case.amount) == ("alice", "alice", 4820)
    books.resolve(Decision.RETRY)
    books.finish()
    books.assert_consistent()
    assert (books.moved(), books.row()["status"]) == ({}, Status.COMPENSATED)


@pytest.mark.parametrize(("committed", "stuck"), STUCK)
def test_each_case_of_a_settlement_has_its_own_number_and_entries(committed: int, stuck: Step) -> None:
    books = in_limbo(committed, stuck)

    books.resolve(Decision.RETRY)
    case = books.stick(stuck)
    books.resolve(Decision.RETRY)

    names = [entry["step"] for entry in books.entries()]
    assert case.number == 2
    assert {"limbo:1", "resolve:1", "limbo:2", "resolve:2"} <= set(names)
    assert books.row()["resolutions"] == 2
