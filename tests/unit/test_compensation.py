"""Decisions of a compensation: it reverses each committed step once, and loses no money."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.ledger import balances, reversal
from settlement.model.case import Case
from settlement.model.errors import (
    EscrowMismatch,
    IdempotencyConflict,
    InsufficientFunds,
    NotReversible,
    ResolutionRefused,
    StepFenced,
)
from settlement.model.orders import Decision, Reversal
from settlement.model.state import SettlementState
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.model.timestamps import timestamp
from settlement.policy import compensation
from tests.conftest import NOW
from tests.unit import states
from tests.unit.books import LATER, OPENING, claimed, compensating, forward, in_limbo
from tests.unit.conditions import admits
from tests.unit.every_row import rows_met_by
from tests.unit.table import applied
from tests.unit.vectors import (
    CONFIG,
    EXECUTION,
    FAILURE,
    ORDER,
    ORDERS,
    REVERSER,
    SETTLEMENT,
    resolution,
)

COMMITTED = range(len(Step) + 1)
STUCK = [
    *((1, Step.HOLD), (2, Step.HOLD), (3, Step.RELEASE), (3, Step.HOLD)),
    *((4, Step.FEE), (4, Step.RELEASE), (4, Step.HOLD)),
]
"""The number of committed steps, and the stuck reversal: all cases in which something was held."""

UNMOVED = [
    (committed, step) for committed in COMMITTED for step in REVERSIBLE if step not in list(Step)[:committed]
]
"""The number of committed steps, and one that has not: its skipped reversal may get stuck too."""

AMOUNTS = st.integers(1, 10**15 - 1).flatmap(
    lambda amount: st.integers(0, amount - 1).map(lambda fee: replace(SETTLEMENT, amount=amount, fee=fee))
)


# The steps to reverse


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
def test_the_committed_steps_that_moved_money_are_unreversed_until_they_are_reversed(
    steps: tuple[str, ...], reversed_: tuple[str, ...], expected: list[str]
) -> None:
    assert states.state(steps=set(steps), reversed=set(reversed_)).unreversed == expected


@pytest.mark.parametrize(
    ("committed", "step"), [(0, "hold"), (1, "verify"), (2, "release"), (3, "fee"), (4, "fee")]
)
def test_a_settlement_failed_at_the_first_step_that_has_not_committed(committed: int, step: str) -> None:
    assert compensation.failed_step(claimed(committed).state()) == step


def test_the_failure_of_a_settlement_names_the_step_at_which_it_stopped() -> None:
    failure = compensation.failure_of(states.state(steps={"hold"}), {"Error": "KycRejected", "Cause": "why"})

    assert failure == {"step": "verify", "error": "KycRejected", "cause": "why"}


CONTINUING: dict[str, dict[str, Any]] = {
    "under another owner": {"owner": "another"},
    "in review": {"review": "ref-1"},
    "released": {"steps": {"hold", "verify", "release"}},
    **{status.lower(): {"status": status} for status in Status if status is not Status.PROCESSING},
}


def test_a_compensation_that_an_execution_has_started_is_about_to_begin() -> None:
    state = states.state(steps={"hold"})

    after = compensation.about_to_begin(state, {"Error": "KycRejected", "Cause": "why"}, EXECUTION)

    failure = {"step": "verify", "error": "KycRejected", "cause": "why"}
    assert after == replace(state, status=Status.COMPENSATING, failure=failure)


@pytest.mark.parametrize("changes", CONTINUING.values(), ids=CONTINUING)
def test_a_settlement_that_continues_or_is_reversed_already_is_reported_as_it_is(
    changes: dict[str, Any],
) -> None:
    state = states.state(**changes)

    assert compensation.about_to_begin(state, {"Error": "E"}, EXECUTION) is state


def test_a_compensation_is_about_to_begin_exactly_if_its_first_write_would_commit() -> None:
    """An outcome promises the status and the failure that the row is about to have, and nothing else."""
    error, about_to_begin = {"Error": "KycRejected", "Cause": "why"}, 0
    for row in rows_met_by(reversal.begin(SETTLEMENT, FAILURE, owner=EXECUTION, execution=REVERSER)):
        state = SettlementState.from_row(row)
        if not state.same_request(SETTLEMENT):  # no execution gets past the claim with other content
            continue
        failure = compensation.failure_of(state, error)
        write = reversal.begin(SETTLEMENT, failure, owner=EXECUTION, execution=REVERSER)

        told = compensation.about_to_begin(state, error, EXECUTION)

        if admits(write, row):
            about_to_begin += 1
            begun = SettlementState.from_row(applied(write, row))
            assert (told.status, told.failure) == (begun.status, begun.failure)
        else:
            assert told is state
    assert about_to_begin


# Reversing


@given(settlement=AMOUNTS, committed=st.sampled_from(COMMITTED))
def test_a_reversal_gives_every_party_its_balance_back(settlement: Any, committed: int) -> None:
    books = compensating(committed, settlement)

    for step in REVERSIBLE:
        books.reverse(step)
        books.assert_consistent()

    row = books.row()
    assert books.moved() == {}
    assert row["status"] == Status.COMPENSATED
    assert row["escrow"] == 0
    assert row.get("reversed", set()) == {step for step in REVERSIBLE if step in row.get("steps", ())}
    assert row["finished_at"] == timestamp(LATER)
    assert not row.keys() & {"gsi1pk", "gsi1sk"}


@pytest.mark.parametrize("committed", COMMITTED)
def test_each_reversal_is_one_entry_and_a_skipped_one_too(committed: int) -> None:
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
def test_a_repeated_reversal_moves_nothing(committed: int) -> None:
    """With the steps as they were at the beginning, as a machine that is started again may have them."""
    books = compensating(committed)
    steps = sorted(books.row().get("steps", ()))
    books.finish()
    before = books.bytes()

    for step in REVERSIBLE:
        transaction = compensation.reverse_step(SETTLEMENT, step, steps, [], LATER)
        assert transaction is not None
        assert books.table.commit(transaction)["step"] == step.reversal
    assert books.bytes() == before


@pytest.mark.parametrize("step", REVERSIBLE)
@pytest.mark.parametrize("committed", [[], list(Step)])
def test_a_reversed_step_is_left_as_it_is(step: Step, committed: list[str]) -> None:
    assert compensation.reverse_step(SETTLEMENT, step, committed, [step.value], NOW) is None
    others = [other.value for other in REVERSIBLE if other is not step]
    assert compensation.reverse_step(SETTLEMENT, step, committed, others, NOW) is not None


@pytest.mark.parametrize("step", REVERSIBLE)
@pytest.mark.parametrize("committed", [[], list(Step)])
def test_a_reversal_counts_as_compensated_with_its_last_step_only(step: Step, committed: list[str]) -> None:
    transaction = compensation.reverse_step(SETTLEMENT, step, committed, [], NOW)

    assert transaction is not None
    assert transaction.metric == ("Compensated" if step is Step.HOLD else None)


def test_a_case_of_a_reversed_step_is_done_and_has_number_one_without_a_resolution() -> None:
    case = compensation.case_of(states.state(steps={Step.HOLD}, reversed={Step.HOLD}), Step.HOLD)

    assert case == Case(
        step=Step.HOLD, account="alice", blocked_account=None, amount=0, number=1, escrow=0, done=True
    )
    assert not compensation.case_of(states.state(steps={Step.HOLD}), Step.HOLD).done


@pytest.mark.parametrize("committed", range(len(Step)))
def test_no_late_step_commits_at_any_time_after_the_fence(committed: int) -> None:
    books = compensating(committed)
    late = forward(SETTLEMENT)[list(Step)[committed]]

    for step in (None, *REVERSIBLE):
        if step:
            books.reverse(step)
        before = books.bytes()
        with pytest.raises(StepFenced):
            books.table.commit(late)
        assert books.bytes() == before


@pytest.mark.parametrize("step", [Step.HOLD, Step.RELEASE])
def test_a_reversal_out_of_order_is_refused_by_the_escrow(step: Step) -> None:
    """The amount goes back to the payer only when all of it is in escrow."""
    books = compensating(4)

    if step is Step.HOLD:
        before = books.bytes()
        with pytest.raises(EscrowMismatch):
            books.reverse(step)
        assert books.bytes() == before
    else:
        books.reverse(step)
    books.assert_consistent()


@pytest.mark.parametrize("left", [4772, 4771])
def test_a_payee_with_a_cent_too_little_cannot_give_it_back(left: int) -> None:
    books = compensating(3)
    spent = OPENING + 4772 - left
    books.table.transact([balances.debit_payer(replace(SETTLEMENT, payer="bob", amount=spent))])
    before = books.bytes()

    if left == 4772:
        books.reverse(Step.RELEASE)
        assert books.account("bob")["available"] == 0
    else:
        with pytest.raises(InsufficientFunds, match=r"^payee: "):
            books.reverse(Step.RELEASE)
        assert books.bytes() == before


# The machine's state


@pytest.mark.parametrize("status", Status)
def test_the_machines_state_has_the_steps_and_the_rest_of_the_work(status: Status) -> None:
    state = states.state(status=status, steps={"verify", "hold"}, reversed={"hold"}, resolutions=2)

    assert compensation.machine_state(state, CONFIG) == {
        "settlement": SETTLEMENT.to_wire(CONFIG),
        "steps": ["hold", "verify"],
        "reversed": ["hold"],
        "finished": status not in (Status.COMPENSATING, Status.LIMBO),
        "in_limbo": status is Status.LIMBO,
        "case": 3,
        "alerts": 0,
    }


@pytest.mark.parametrize(
    ("status", "resolutions", "named", "expected"),
    [
        (Status.LIMBO, 0, None, 1),
        (Status.LIMBO, 0, 1, 1),
        (Status.LIMBO, 2, None, 3),
        (Status.LIMBO, 2, 3, 3),
        (Status.LIMBO, 2, 1, 1),
        (Status.COMPENSATING, 1, None, 1),
        (Status.SETTLED, 2, 2, 2),
        (Status.COMPENSATED, 2, 1, 1),
    ],
)
def test_a_resolution_means_the_named_case_or_the_latest(
    status: Status, resolutions: int, named: int | None, expected: int
) -> None:
    order = replace(resolution(Decision.RETRY), case=named)

    assert (
        compensation.case_to_resolve(states.state(status=status, resolutions=resolutions), order) == expected
    )


@pytest.mark.parametrize(
    ("status", "resolutions", "named", "message"),
    [
        (Status.PROCESSING, 0, None, "the settlement was never in LIMBO"),
        (Status.COMPENSATING, 0, 1, "the settlement was never in LIMBO"),
        (Status.COMPENSATING, 1, 2, "there is no case number 2, the latest is 1"),
        (Status.LIMBO, 1, 3, "there is no case number 3, the latest is 2"),
        (Status.LIMBO, 1, 0, "there is no case number 0, the latest is 2"),
        (Status.LIMBO, 1, -1, "there is no case number -1, the latest is 2"),
    ],
)
def test_a_resolution_of_a_case_that_never_was_is_refused(
    status: Status, resolutions: int, named: int | None, message: str
) -> None:
    order = replace(resolution(Decision.RETRY), case=named)

    with pytest.raises(ResolutionRefused, match=f"^resolution: {message}$"):
        compensation.case_to_resolve(states.state(status=status, resolutions=resolutions), order)


# On a person's order


def test_a_person_may_order_the_reversal_of_a_settled_or_stalled_settlement() -> None:
    for committed in COMMITTED:
        books = claimed(committed)
        order = ORDERS[Status(books.row()["status"])]

        entry = books.table.commit(compensation.reverse_on_order(SETTLEMENT, order, LATER, CONFIG))

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
@pytest.mark.parametrize("expected_status", ORDERS)
def test_an_order_is_carried_out_only_on_the_expected_status(expected_status: Status, committed: int) -> None:
    """An order for a stalled payment refunds none that has settled meanwhile, and vice versa."""
    books = claimed(committed)
    before, status = books.bytes(), books.row()["status"]
    transaction = compensation.reverse_on_order(SETTLEMENT, ORDERS[expected_status], LATER, CONFIG)

    if status == expected_status:
        books.table.commit(transaction)
        assert books.row()["status"] == Status.COMPENSATING
    else:
        message = f"^reverse: it was to be {expected_status}, but the settlement is {status}$"
        with pytest.raises(NotReversible, match=message):
            books.table.commit(transaction)
        assert books.bytes() == before


def test_the_expected_status_is_no_part_of_the_record() -> None:
    """A repeated order is recognised by its person and reason."""
    entries = [
        compensation.reverse_on_order(SETTLEMENT, order, NOW, CONFIG).entry.parameters["Item"]
        for order in ORDERS.values()
    ]

    assert entries[0] == entries[1]


def test_a_repeated_order_is_replayed() -> None:
    books = compensating(4)
    before = books.bytes()

    entry = books.table.commit(compensation.reverse_on_order(SETTLEMENT, ORDER, NOW, CONFIG))

    assert entry["posted_at"] == timestamp(LATER)
    assert books.bytes() == before


@pytest.mark.parametrize("expected_status", ORDERS)
@pytest.mark.parametrize("committed", [3, 4])
def test_a_reversed_or_completed_settlement_is_not_reversed_again(
    committed: int, expected_status: Status
) -> None:
    """Even by a second order with another reason, if the first one had left no entry."""
    books = in_limbo(3, Step.RELEASE)
    books.resolve(Decision.COMPLETE if committed == 4 else Decision.RETRY)
    before, again = books.bytes(), Reversal(reason="again", by="x", expected_status=expected_status)

    with pytest.raises(NotReversible):
        books.table.commit(compensation.reverse_on_order(SETTLEMENT, again, LATER, CONFIG))
    assert books.bytes() == before


def test_an_order_for_other_content_is_a_conflict() -> None:
    with pytest.raises(IdempotencyConflict):
        claimed(4).table.commit(
            compensation.reverse_on_order(replace(SETTLEMENT, fee=47), ORDER, NOW, CONFIG)
        )
