"""Compensation decides: what is reversed is what has committed, once, and no money is lost on any way."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement import compensation, items, rows
from settlement.errors import (
    EscrowMismatch,
    IdempotencyConflict,
    InsufficientFunds,
    NotReversible,
    StepFenced,
)
from settlement.limbo import Case
from settlement.resolution import Decision, Reversal
from settlement.status import REVERSIBLE, Status, Step
from tests.conftest import NOW
from tests.unit.books import LATER, OPENING, claimed, compensating, forward, in_limbo
from tests.unit.vectors import ORDER, ORDERS, SETTLEMENT, TERMS

COMMITTED = range(len(Step) + 1)
STUCK = [
    *((1, Step.HOLD), (2, Step.HOLD), (3, Step.RELEASE), (3, Step.HOLD)),
    *((4, Step.FEE), (4, Step.RELEASE), (4, Step.HOLD)),
]
"""How many steps have committed, and which reversal gets stuck: all there are where something was held."""

UNMOVED = [
    (committed, step) for committed in COMMITTED for step in REVERSIBLE if step not in list(Step)[:committed]
]
"""How many steps have committed, and one that has not: a bare entry reverses it, and may get stuck too."""

AMOUNTS = st.integers(1, 10**15 - 1).flatmap(
    lambda amount: st.integers(0, amount - 1).map(lambda fee: replace(SETTLEMENT, amount=amount, fee=fee))
)


# What is to be done


@pytest.mark.parametrize(
    ("steps", "reversed_", "expected"),
    [
        ((), (), []),
        (("hold",), (), ["hold"]),
        (("hold", "verify"), (), ["hold"]),
        (("hold", "verify", "release"), (), ["release", "hold"]),
        (("hold", "verify", "release", "fee"), (), ["fee", "release", "hold"]),
        (("hold", "verify", "release", "fee"), ("fee",), ["release", "hold"]),
        (("hold", "verify", "release", "fee"), ("release",), ["fee", "hold"]),
        (("hold", "verify", "release"), ("release",), ["hold"]),
        (("hold", "verify", "release", "fee"), ("fee", "release", "hold"), []),
    ],
)
def test_what_has_moved_money_and_is_not_reversed_is_outstanding(
    steps: tuple[str, ...], reversed_: tuple[str, ...], expected: list[str]
) -> None:
    row: dict[str, Any] = {"steps": set(steps)} if steps else {}
    row |= {"reversed": set(reversed_)} if reversed_ else {}

    assert compensation.outstanding(row) == expected


@pytest.mark.parametrize(
    ("committed", "step"), [(0, "hold"), (1, "verify"), (2, "release"), (3, "fee"), (4, "fee")]
)
def test_a_settlement_failed_at_the_first_step_that_has_not_committed(committed: int, step: str) -> None:
    assert compensation.failed_step(claimed(committed).row()) == step


# Reversing


@given(settlement=AMOUNTS, committed=st.sampled_from(COMMITTED))
def test_what_is_reversed_leaves_everybody_with_what_they_had(settlement: Any, committed: int) -> None:
    books = compensating(committed, settlement)

    for step in REVERSIBLE:
        books.undo(step)
        books.assert_consistent()

    row = books.row()
    assert books.moved() == {}
    assert row["status"] == Status.COMPENSATED
    assert row["escrow"] == 0
    assert row.get("reversed", set()) == {step for step in REVERSIBLE if step in row.get("steps", ())}
    assert row["finished_at"] == rows.timestamp(LATER)
    assert not row.keys() & {"gsi1pk", "gsi1sk"}


@pytest.mark.parametrize("committed", COMMITTED)
def test_each_reversal_is_one_entry_and_what_never_committed_is_on_record_too(committed: int) -> None:
    books = compensating(committed)

    books.finish()

    entries = {entry["step"]: entry for entry in books.entries()}
    for step in REVERSIBLE:
        entry = entries[step.reversal]
        if step in list(Step)[:committed]:
            forth = entries[step]
            assert (entry["debit"], entry["credit"]) == (forth["credit"], forth["debit"])
            assert entry["amount"] == forth["amount"]
        else:
            assert entry["reason"] == f"nothing to reverse: {step} never committed"
            assert not entry.keys() & {"debit", "credit", "amount"}


@pytest.mark.parametrize("committed", COMMITTED)
def test_a_reversal_that_is_repeated_moves_nothing(committed: int) -> None:
    """From the state as it was at the beginning, as a machine that is started again might have it."""
    books = compensating(committed)
    steps = sorted(books.row().get("steps", ()))
    books.finish()
    before = books.bytes()

    for step in REVERSIBLE:
        posting = compensation.undo(SETTLEMENT, step, steps, [], LATER)
        assert posting is not None
        assert books.table.post(posting)["step"] == step.reversal
    assert books.bytes() == before


@pytest.mark.parametrize("step", REVERSIBLE)
@pytest.mark.parametrize("committed", [[], list(Step)])
def test_what_is_reversed_already_is_left_alone(step: Step, committed: list[str]) -> None:
    assert compensation.undo(SETTLEMENT, step, committed, [step.value], NOW) is None
    others = [other.value for other in REVERSIBLE if other is not step]
    assert compensation.undo(SETTLEMENT, step, committed, others, NOW) is not None


@pytest.mark.parametrize("step", REVERSIBLE)
@pytest.mark.parametrize("committed", [[], list(Step)])
def test_a_reversal_counts_as_compensated_with_its_last_step_only(step: Step, committed: list[str]) -> None:
    posting = compensation.undo(SETTLEMENT, step, committed, [], NOW)

    assert posting is not None
    assert posting.counted == ("Compensated" if step is Step.HOLD else None)


def test_a_case_of_what_is_reversed_is_done_and_is_the_first_where_no_decision_was_made() -> None:
    row = {"steps": {Step.HOLD}, "reversed": {Step.HOLD}, "escrow": 0}

    case = compensation.case_of(SETTLEMENT, row, Step.HOLD)

    assert case == Case(step=Step.HOLD, account="alice", barred=None, amount=0, number=1, escrow=0, done=True)
    assert not compensation.case_of(SETTLEMENT, row | {"reversed": set()}, Step.HOLD).done


@pytest.mark.parametrize("committed", range(len(Step)))
def test_no_late_step_commits_at_any_time_after_the_fence(committed: int) -> None:
    books = compensating(committed)
    late = forward(SETTLEMENT)[list(Step)[committed]]

    for step in (None, *REVERSIBLE):
        if step:
            books.undo(step)
        before = books.bytes()
        with pytest.raises(StepFenced):
            books.table.post(late)
        assert books.bytes() == before


@pytest.mark.parametrize("step", [Step.HOLD, Step.RELEASE])
def test_a_reversal_out_of_its_order_is_fenced_by_the_escrow(step: Step) -> None:
    """The amount goes back to the payer only when all of it is there."""
    books = compensating(4)

    if step is Step.HOLD:
        before = books.bytes()
        with pytest.raises(EscrowMismatch):
            books.undo(step)
        assert books.bytes() == before
    else:
        books.undo(step)
    books.assert_consistent()


@pytest.mark.parametrize("left", [4772, 4771])
def test_a_payee_who_has_spent_a_cent_of_it_cannot_give_it_back(left: int) -> None:
    books = compensating(3)
    spent = OPENING + 4772 - left
    books.table.transact([items.debit_payer(replace(SETTLEMENT, payer="bob", amount=spent))])
    before = books.bytes()

    if left == 4772:
        books.undo(Step.RELEASE)
        assert books.account("bob")["available"] == 0
    else:
        with pytest.raises(InsufficientFunds, match=r"^payee: "):
            books.undo(Step.RELEASE)
        assert books.bytes() == before


# On a person's order


def test_a_person_may_have_reversed_what_has_settled_or_stalled() -> None:
    for committed in COMMITTED:
        books = claimed(committed)
        order = ORDERS[Status(books.row()["status"])]

        entry = books.table.post(compensation.requested(SETTLEMENT, order, LATER, TERMS))

        cause = f"{ORDER.reason} (by {ORDER.by})"
        failure = {"step": "reverse", "error": "ReversalRequested", "cause": cause}
        row = books.row()
        assert (entry["reason"], entry["by"], entry["sk"]) == (
            ORDER.reason,
            ORDER.by,
            f"{SETTLEMENT.key}:reverse",
        )
        assert (row["status"], row["failure"], row["reversed_for"]) == (Status.COMPENSATING, failure, failure)
        assert "finished_at" not in row
        assert row["gsi1sk"] == "2026-11-20T13:00:30.123Z"
        books.finish()
        assert books.moved() == {}


@pytest.mark.parametrize("committed", COMMITTED)
@pytest.mark.parametrize("seen", ORDERS)
def test_an_order_is_carried_out_only_on_what_the_person_saw(seen: Status, committed: int) -> None:
    """Who gives up a stalled payment does not refund one that has settled meanwhile, nor the other way."""
    books = claimed(committed)
    before, status = books.bytes(), books.row()["status"]
    posting = compensation.requested(SETTLEMENT, ORDERS[seen], LATER, TERMS)

    if status == seen:
        books.table.post(posting)
        assert books.row()["status"] == Status.COMPENSATING
    else:
        message = f"^reverse: it was to be {seen}, but the settlement is {status}$"
        with pytest.raises(NotReversible, match=message):
            books.table.post(posting)
        assert books.bytes() == before


def test_what_the_person_saw_is_no_part_of_the_record() -> None:
    """An order that is repeated is found by who gave it and why."""
    entries = [
        compensation.requested(SETTLEMENT, order, NOW, TERMS).entry.parameters["Item"]
        for order in ORDERS.values()
    ]

    assert entries[0] == entries[1]


def test_an_order_that_is_repeated_stands() -> None:
    books = compensating(4)
    before = books.bytes()

    entry = books.table.post(compensation.requested(SETTLEMENT, ORDER, NOW, TERMS))

    assert entry["posted_at"] == rows.timestamp(LATER)
    assert books.bytes() == before


@pytest.mark.parametrize("seen", ORDERS)
@pytest.mark.parametrize("committed", [3, 4])
def test_what_is_reversed_or_was_accepted_by_a_person_is_not_reversed_again(
    committed: int, seen: Status
) -> None:
    """A second order of other words, had the first left no entry."""
    books = in_limbo(3, Step.RELEASE)
    books.resolve(Decision.COMPLETE if committed == 4 else Decision.RETRY)
    before, again = books.bytes(), Reversal(reason="again", by="x", seen=seen)

    with pytest.raises(NotReversible):
        books.table.post(compensation.requested(SETTLEMENT, again, LATER, TERMS))
    assert books.bytes() == before


def test_an_order_for_other_content_is_a_conflict() -> None:
    with pytest.raises(IdempotencyConflict):
        claimed(4).table.post(compensation.requested(replace(SETTLEMENT, fee=47), ORDER, NOW, TERMS))
