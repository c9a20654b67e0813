"""A case of LIMBO is made of the step that failed, and bars whom that step concerns."""

import pytest

from settlement import compensation
from settlement.errors import EscrowMismatch
from settlement.limbo import Case
from settlement.resolution import Decision
from settlement.status import REVERSIBLE, Status, Step
from tests.unit.books import compensating, in_limbo
from tests.unit.test_compensation import COMMITTED, STUCK, UNMOVED
from tests.unit.vectors import FAILURE, SETTLEMENT


@pytest.mark.parametrize(
    ("committed", "stuck", "account", "barred", "amount"),
    [
        (2, Step.HOLD, "alice", "alice", 4820),
        (3, Step.RELEASE, "bob", "bob", 4772),
        (4, Step.FEE, "fees:EUR", None, 48),
        (4, Step.RELEASE, "bob", "bob", 4772),
        (4, Step.HOLD, "alice", "alice", 4820),
    ],
)
def test_the_case_names_the_party_whose_part_is_stuck(
    committed: int, stuck: Step, account: str, barred: str | None, amount: int
) -> None:
    books = in_limbo(committed, stuck)

    case = compensation.stuck(SETTLEMENT, books.row())

    assert (case.step, case.account, case.barred, case.amount, case.number) == (
        stuck,
        account,
        barred,
        amount,
        1,
    )
    for party in ("alice", "bob"):
        assert books.account(party).get("limbo_keys") == ({SETTLEMENT.key} if party == barred else None)
    (entry,) = (entry for entry in books.entries() if entry["step"] == "limbo:1")
    assert (entry["account"], entry["error"], entry["cause"]) == (account, FAILURE["error"], FAILURE["cause"])


def test_where_nothing_is_held_nothing_is_at_risk() -> None:
    case = compensation.case_of(SETTLEMENT, compensating(0).row(), Step.HOLD)

    assert (case.step, case.account, case.amount) == (Step.HOLD, "alice", 0)
    assert case.barred is None


@pytest.mark.parametrize("committed", COMMITTED)
@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_case_is_made_of_the_step_that_failed_and_bars_nobody_for_what_never_moved(
    step: Step, committed: int
) -> None:
    """Whatever else is outstanding: the reversal that is next may not have been tried at all."""
    row, moved = compensating(committed).row(), step in list(Step)[:committed]

    case = compensation.case_of(SETTLEMENT, row, step)

    account, amount = {
        Step.FEE: ("fees:EUR", 48),
        Step.RELEASE: ("bob", 4772),
        Step.HOLD: ("alice", 4820),
    }[step]
    barred = account if moved and step is not Step.FEE else None
    assert case == Case(
        **{"step": step, "account": account, "barred": barred, "amount": amount if moved else 0},
        **{"number": 1, "escrow": row["escrow"]},
    )


@pytest.mark.parametrize(("committed", "stuck"), UNMOVED)
def test_a_case_of_a_step_that_never_committed_is_entered_and_left_without_barring(
    committed: int, stuck: Step
) -> None:
    books = in_limbo(committed, stuck)

    row = books.row()
    (entry,) = (entry for entry in books.entries() if entry["step"] == "limbo:1")
    assert (row["status"], row["stuck_step"]) == (Status.LIMBO, stuck.reversal)
    assert entry["account"] == compensation.stuck(SETTLEMENT, row).account
    for party in ("alice", "bob"):
        assert "limbo_keys" not in books.account(party)
    books.resolve(Decision.RETRY)
    books.finish()
    books.assert_consistent()
    assert (books.moved(), books.row()["status"]) == ({}, Status.COMPENSATED)


@pytest.mark.parametrize("stuck", REVERSIBLE)
def test_the_case_that_is_open_is_the_one_on_the_row_and_not_the_next_in_turn(stuck: Step) -> None:
    books = compensating(4)
    assert compensation.outstanding(books.row()) == list(REVERSIBLE)

    case = books.stick(stuck)

    assert compensation.stuck(SETTLEMENT, books.row()) == case
    assert case.step is stuck


def test_a_hold_whose_escrow_is_not_what_was_held_is_a_case_for_a_person() -> None:
    """It is the payer's money, so they are barred; nothing moves until the rest is there."""
    books = compensating(4)
    with pytest.raises(EscrowMismatch):
        books.undo(Step.HOLD)

    case = books.stick(Step.HOLD)

    assert (case.account, case.barred, case.amount) == ("alice", "alice", 4820)
    books.resolve(Decision.RETRY)
    books.finish()
    books.assert_consistent()
    assert (books.moved(), books.row()["status"]) == ({}, Status.COMPENSATED)


@pytest.mark.parametrize(("committed", "stuck"), STUCK)
def test_each_case_of_a_settlement_has_a_number_and_entries_of_its_own(committed: int, stuck: Step) -> None:
    books = in_limbo(committed, stuck)

    books.resolve(Decision.RETRY)
    case = books.stick(stuck)
    books.resolve(Decision.RETRY)

    names = [entry["step"] for entry in books.entries()]
    assert case.number == 2
    assert {"limbo:1", "resolve:1", "limbo:2", "resolve:2"} <= set(names)
    assert books.row()["resolutions"] == 2
