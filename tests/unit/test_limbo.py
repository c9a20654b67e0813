"""The writes into LIMBO, in it and out of it: what each demands, and what its refusal is called."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from settlement import limbo, rows
from settlement.errors import AccountNotFound, IdempotencyConflict, ResolutionRefused, StepFenced
from settlement.limbo import Case
from settlement.resolution import Decision
from settlement.rows import Row
from settlement.status import REVERSIBLE, Status, Step
from settlement.writes import Write
from tests.conftest import NOW
from tests.unit.conditions import admits
from tests.unit.every_row import AFTER, rows_met_by, settlement_row
from tests.unit.table import applied
from tests.unit.vectors import CASES, FAILURE, RESOLVER, SETTLEMENT, TERMS, resolution

# Built in their tests and not at import, where mutation testing would no longer reach their builders.


def waiting() -> Write:
    return limbo.await_decision(SETTLEMENT, "token-1", "arn:execution")


def leaving(decision: Decision, step: Step = Step.RELEASE, escrow: int = 48) -> Write:
    case = replace(CASES[step], escrow=escrow)
    return limbo.leave(SETTLEMENT, case, resolution(decision), RESOLVER, NOW, TERMS)


def ours(row: Row) -> bool:
    return bool(row["request_hash"] == SETTLEMENT.request_hash)


# In


@pytest.mark.parametrize("step", REVERSIBLE)
def test_limbo_is_entered_from_compensation_in_its_round_for_what_is_not_reversed(step: Step) -> None:
    write = limbo.enter(SETTLEMENT, CASES[step], FAILURE, NOW)
    for row in rows_met_by(write):
        same_round = row.get("resolutions") == CASES[step].number - 1
        open_ = row["status"] is Status.COMPENSATING and step not in row.get("reversed", ())
        assert admits(write, row) == (ours(row) and open_ and same_round), row
        if not admits(write, row):
            assert type(write.refusal(row)) is (StepFenced if ours(row) else IdempotencyConflict)


def test_whoever_enters_too_late_is_told_how_it_stands() -> None:
    write = limbo.enter(SETTLEMENT, CASES[Step.RELEASE], FAILURE, NOW)
    row = settlement_row(Status.COMPENSATED, {"hold"}, AFTER, reversed={"hold"})

    assert str(write.refusal(row)) == (
        "limbo: the settlement is COMPENSATED with steps [hold] committed and [hold] reversed"
    )
    assert str(write.refusal(None)) == f"limbo: the key {SETTLEMENT.key} was never claimed"


# The account


def account_row(**extra: set[str]) -> Row:
    return {**rows.account_key("bob"), "available": 0, "currency": "EUR", **extra}


@pytest.mark.parametrize("before", [{}, {"limbo_keys": {"k1"}}, {"limbo_keys": {"k1", "k2"}}])
def test_a_case_is_put_on_the_account_and_taken_off_and_no_other(before: dict[str, set[str]]) -> None:
    row, flag, unflag = account_row(**before), limbo.flag("bob", "k3"), limbo.unflag("bob", "k3")

    flagged = applied(flag, row)

    assert flagged["limbo_keys"] == before.get("limbo_keys", set()) | {"k3"}
    assert applied(flag, flagged) == flagged
    assert applied(unflag, flagged) == row
    assert applied(unflag, row) == row


@pytest.mark.parametrize("mark", [limbo.flag, limbo.unflag])
def test_an_account_that_is_gone_is_not_made_by_being_barred(mark: Callable[[str, str], Write]) -> None:
    write = mark("bob", "k")

    assert admits(write, account_row())
    assert not admits(write, None)
    refusal = write.refusal(None)
    assert type(refusal) is AccountNotFound
    assert str(refusal) == "stuck party: there is no such account"


# Waiting


def test_whoever_waits_leaves_word_while_it_is_in_limbo() -> None:
    write = waiting()
    for row in rows_met_by(write):
        assert admits(write, row) == (ours(row) and row["status"] is Status.LIMBO)
        if not admits(write, row):
            assert type(write.refusal(row)) is (StepFenced if ours(row) else IdempotencyConflict)
    assert str(write.refusal(None)) == f"limbo: the key {SETTLEMENT.key} was never claimed"


def test_the_last_to_wait_is_the_one_to_be_woken() -> None:
    row = settlement_row(Status.LIMBO, {"hold"}, AFTER, waiting={"token": "old", "execution": "old"})

    assert applied(waiting(), row)["waiting"] == {"token": "token-1", "execution": "arn:execution"}


# Out


@pytest.mark.parametrize("decision", Decision)
@pytest.mark.parametrize("step", [Step.FEE, Step.RELEASE])
def test_a_decision_is_carried_out_on_what_was_looked_at(decision: Decision, step: Step) -> None:
    """In the same round, with the same escrow, and what is written off or accepted still to be reversed."""
    write = leaving(decision, step)
    accepted = {Decision.RETRY: None, Decision.WRITE_OFF: step, Decision.COMPLETE: Step.RELEASE}[decision]
    for row in rows_met_by(write):
        seen = row["escrow"] == 48 and row.get("resolutions") == 0
        stuck = accepted is None or (
            accepted in row.get("steps", ()) and accepted not in row.get("reversed", ())
        )
        expected = ours(row) and row["status"] is Status.LIMBO and seen and stuck
        assert admits(write, row) == expected, row
        if expected:
            continue
        if not ours(row):
            refused: type[Exception] = IdempotencyConflict
        else:
            refused = ResolutionRefused if row["status"] is Status.LIMBO else StepFenced
        assert type(write.refusal(row)) is refused


@pytest.mark.parametrize("decision", Decision)
def test_a_decision_that_comes_too_late_is_told_why(decision: Decision) -> None:
    write = leaving(decision)
    told = {
        row["status"]: str(write.refusal(row))
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
    assert str(write.refusal(None)) == f"resolve: the key {SETTLEMENT.key} was never claimed"
    assert type(write.refusal(None)) is StepFenced


@pytest.mark.parametrize(
    ("decision", "escrow", "reversed_"),
    [
        (Decision.RETRY, 48, {"fee"}),
        (Decision.WRITE_OFF, 48 + 4772, {"fee", "release"}),
        (Decision.COMPLETE, 0, {"fee"}),
    ],
)
def test_a_decision_moves_the_escrow_by_what_it_covers_or_gives_up(
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
def test_whoever_carries_out_the_decision_is_the_owner_and_whoever_waited_or_paged_is_not(
    decision: Decision,
) -> None:
    row = settlement_row(
        *(Status.LIMBO, set(Step), AFTER),
        **{"escrow": 48, "resolutions": 0, "reversed_for": FAILURE, "recoveries": 3},
        **{"owner": "pager", "recover_at": AFTER, "waiting": {"token": "t", "execution": "e"}},
    )
    write = leaving(decision)
    assert admits(write, row)

    after = applied(write, row)

    assert (after["owner"], after["recoveries"]) == (RESOLVER, 3)
    assert after["in_flight_since"] == rows.timestamp(NOW)
    assert not after.keys() & {"recover_at", "waiting", "stuck_step"}


def test_the_number_of_a_case_counts_the_decisions_before_it() -> None:
    late = Case(step=Step.RELEASE, account="bob", barred="bob", amount=4772, number=3, escrow=48)
    row = settlement_row(Status.LIMBO, set(Step), AFTER, escrow=48, reversed_for=FAILURE, resolutions=2)

    write = limbo.leave(SETTLEMENT, late, resolution(Decision.RETRY), RESOLVER, NOW, TERMS)

    assert admits(write, row)
    assert applied(write, row)["resolutions"] == 3
    assert not admits(write, row | {"resolutions": 3})
