"""The writes into LIMBO, in it and out of it: when each commits, and the meaning of its refusal."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from settlement.ledger import balances, limbo
from settlement.ledger.keys import Row
from settlement.ledger.transaction import Write
from settlement.model.case import Case
from settlement.model.errors import AccountNotFound, IdempotencyConflict, ResolutionRefused, StepFenced
from settlement.model.orders import Decision
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.model.timestamps import timestamp
from tests.conftest import NOW
from tests.unit import states
from tests.unit.conditions import admits
from tests.unit.every_row import AFTER, rows_met_by, settlement_row
from tests.unit.states import found
from tests.unit.table import applied
from tests.unit.vectors import CASES, CONFIG, FAILURE, RESOLVER, SETTLEMENT, resolution

# Each write is built in its test: at import, mutation testing would not reach its builder.


def waiting() -> Write:
    return limbo.await_decision(SETTLEMENT, "token-1", "arn:execution")


def leaving(decision: Decision, step: Step = Step.RELEASE, escrow: int = 48) -> Write:
    case = replace(CASES[step], escrow=escrow)
    return limbo.leave(SETTLEMENT, case, resolution(decision), RESOLVER, NOW, CONFIG)


def ours(row: Row) -> bool:
    return bool(row["request_hash"] == SETTLEMENT.request_hash)


# In


@pytest.mark.parametrize("step", REVERSIBLE)
def test_limbo_is_entered_from_a_compensation_with_the_next_case_and_an_unreversed_step(step: Step) -> None:
    write = limbo.enter(SETTLEMENT, CASES[step], FAILURE, NOW)
    for row in rows_met_by(write):
        next_case = row.get("resolutions") == CASES[step].number - 1
        open_ = row["status"] is Status.COMPENSATING and step not in row.get("reversed", ())
        assert admits(write, row) == (ours(row) and open_ and next_case), row
        if not admits(write, row):
            assert type(write.on_failure(found(row))) is (StepFenced if ours(row) else IdempotencyConflict)


def test_a_late_entry_into_limbo_is_told_the_status() -> None:
    write = limbo.enter(SETTLEMENT, CASES[Step.RELEASE], FAILURE, NOW)
    row = settlement_row(Status.COMPENSATED, {"hold"}, AFTER, reversed={"hold"})

    assert str(write.on_failure(found(row))) == (
        "limbo: the settlement is COMPENSATED with steps [hold] committed and [hold] reversed"
    )
    assert str(write.on_failure(None)) == f"limbo: the key {SETTLEMENT.key} was never claimed"


# The account


def account_row(**changes: set[str]) -> Row:
    return states.account_row("bob", 0, **changes)


@pytest.mark.parametrize("before", [{}, {"limbo_keys": {"k1"}}, {"limbo_keys": {"k1", "k2"}}])
def test_a_case_blocks_the_account_and_unblocks_it_beside_any_other_case(before: dict[str, set[str]]) -> None:
    row, block, unblock = account_row(**before), balances.block("bob", "k3"), balances.unblock("bob", "k3")

    blocked = applied(block, row)

    assert blocked["limbo_keys"] == before.get("limbo_keys", set()) | {"k3"}
    assert applied(block, blocked) == blocked
    assert applied(unblock, blocked) == row
    assert applied(unblock, row) == row


@pytest.mark.parametrize("mark", [balances.block, balances.unblock])
def test_a_deleted_account_is_not_created_by_a_block(mark: Callable[[str, str], Write]) -> None:
    write = mark("bob", "k")

    assert admits(write, account_row())
    assert not admits(write, None)
    refusal = write.on_failure(None)
    assert type(refusal) is AccountNotFound
    assert str(refusal) == "stuck party: there is no such account"


# Waiting


def test_a_waiting_execution_is_recorded_only_in_limbo() -> None:
    write = waiting()
    for row in rows_met_by(write):
        assert admits(write, row) == (ours(row) and row["status"] is Status.LIMBO)
        if not admits(write, row):
            assert type(write.on_failure(found(row))) is (StepFenced if ours(row) else IdempotencyConflict)
    assert str(write.on_failure(None)) == f"limbo: the key {SETTLEMENT.key} was never claimed"


def test_the_latest_waiting_execution_replaces_the_earlier_one() -> None:
    row = settlement_row(Status.LIMBO, {"hold"}, AFTER, waiting={"token": "old", "execution": "old"})

    assert applied(waiting(), row)["waiting"] == {"token": "token-1", "execution": "arn:execution"}


# Out


@pytest.mark.parametrize("decision", Decision)
@pytest.mark.parametrize("step", [Step.FEE, Step.RELEASE])
def test_a_decision_commits_on_the_state_that_the_person_saw(decision: Decision, step: Step) -> None:
    """With the same case and escrow, and a step to write off or to accept that is not reversed."""
    write = leaving(decision, step)
    step_left = {Decision.RETRY: None, Decision.WRITE_OFF: step, Decision.COMPLETE: Step.RELEASE}[decision]
    for row in rows_met_by(write):
        seen = row["escrow"] == 48 and row.get("resolutions") == 0
        stuck = step_left is None or (
            step_left in row.get("steps", ()) and step_left not in row.get("reversed", ())
        )
        expected = ours(row) and row["status"] is Status.LIMBO and seen and stuck
        assert admits(write, row) == expected, row
        if expected:
            continue
        if not ours(row):
            refused: type[Exception] = IdempotencyConflict
        else:
            refused = ResolutionRefused if row["status"] is Status.LIMBO else StepFenced
        assert type(write.on_failure(found(row))) is refused


@pytest.mark.parametrize("decision", Decision)
def test_a_late_decision_is_told_why(decision: Decision) -> None:
    write = leaving(decision)
    told = {
        row["status"]: str(write.on_failure(found(row)))
        for row in rows_met_by(write)
        if ours(row) and not admits(write, row)
    }

    assert told == {
        status: (
            "resolution: the settlement has moved on since it was looked at"
            if status is Status.LIMBO
            else f"resolve: the settlement is {status}, not in LIMBO"
        )
        for status in Status
    }
    assert str(write.on_failure(None)) == f"resolve: the key {SETTLEMENT.key} was never claimed"
    assert type(write.on_failure(None)) is StepFenced


@pytest.mark.parametrize(
    ("decision", "escrow", "reversed_"),
    [
        (Decision.RETRY, 48, {"fee"}),
        (Decision.WRITE_OFF, 48 + 4772, {"fee", "release"}),
        (Decision.COMPLETE, 0, {"fee"}),
    ],
)
def test_a_decision_changes_the_escrow_by_the_amount_that_it_covers_or_takes(
    decision: Decision, escrow: int, reversed_: set[str]
) -> None:
    row = settlement_row(
        *(Status.LIMBO, set(Step), AFTER), escrow=48, reversed={"fee"}, resolutions=0, reversed_for=FAILURE
    )
    write = leaving(decision)
    assert admits(write, row)

    after = applied(write, row)

    assert (after["escrow"], after["reversed"], after["resolutions"]) == (escrow, reversed_, 1)


@pytest.mark.parametrize("decision", Decision)
def test_the_execution_that_carries_out_the_decision_becomes_the_owner(decision: Decision) -> None:
    row = settlement_row(
        *(Status.LIMBO, set(Step), AFTER),
        **{"escrow": 48, "resolutions": 0, "reversed_for": FAILURE, "owner_epoch": 3},
        **{"owner": "pager", "recover_at": AFTER, "waiting": {"token": "t", "execution": "e"}},
    )
    write = leaving(decision)
    assert admits(write, row)

    after = applied(write, row)

    assert (after["owner"], after["owner_epoch"]) == (RESOLVER, 3)
    assert after["in_flight_since"] == timestamp(NOW)
    assert not after.keys() & {"recover_at", "waiting", "stuck_step"}


def test_the_number_of_a_case_counts_the_decisions_before_it() -> None:
    late = Case(step=Step.RELEASE, account="bob", blocked_account="bob", amount=4772, number=3, escrow=48)
    row = settlement_row(Status.LIMBO, set(Step), AFTER, escrow=48, reversed_for=FAILURE, resolutions=2)

    write = limbo.leave(SETTLEMENT, late, resolution(Decision.RETRY), RESOLVER, NOW, CONFIG)

    assert admits(write, row)
    assert applied(write, row)["resolutions"] == 3
    assert not admits(write, row | {"resolutions": 3})
