"""The writes of compensation: who may take PROCESSING away, and what each refusal is called."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from settlement import items, reversals, rows, steps
from settlement.errors import (
    AccountNotFound,
    CurrencyMismatch,
    EscrowMismatch,
    IdempotencyConflict,
    InsufficientFunds,
    NotReversible,
    SettlementError,
    StepFenced,
)
from settlement.rows import Row
from settlement.status import REVERSIBLE, Status, Step
from settlement.writes import Standing, Write
from tests.conftest import NOW
from tests.unit.books import ERROR
from tests.unit.conditions import admits
from tests.unit.every_row import AFTER, rows_met_by, settlement_row
from tests.unit.table import Table, applied
from tests.unit.vectors import FAILURE, ORDERS, REVERSER, SETTLEMENT, TERMS

# Each write is built in its test and not at import, where mutation testing would no longer reach its builder.


def beginning() -> Write:
    return reversals.begin(SETTLEMENT, FAILURE, owner=None, execution=REVERSER)


def reopening(seen: Status) -> Write:
    return reversals.reopen(SETTLEMENT, seen, FAILURE, NOW, TERMS)


def concluding() -> Write:
    return reversals.conclude(SETTLEMENT, NOW)


def passing_over(step: Step) -> Write:
    return reversals.pass_over(SETTLEMENT, step)


def undoing(step: Step) -> Write:
    return reversals.undo(SETTLEMENT, step, escrow_change=0, now=NOW)


# A key that was never claimed


def test_a_late_claim_finds_the_settlement_finished() -> None:
    table = Table()
    table.write(reversals.refuse_unclaimed(SETTLEMENT, "compensation", ERROR, NOW))

    row = table.write(items.claim(SETTLEMENT, "execution", NOW, TERMS))

    assert (row["status"], row["owner"], row["failure"]) == (Status.REJECTED, "compensation", ERROR)
    assert steps.is_replay(row, "execution")
    assert len(table.rows()) == 1
    with pytest.raises(StepFenced):
        table.transact([items.advance(SETTLEMENT, Step.HOLD, escrow_change=4820, now=NOW)])


def test_a_key_that_was_never_claimed_gets_the_row_of_a_claim_and_its_end() -> None:
    claim = items.claim(SETTLEMENT, "execution", NOW, TERMS).parameters["Item"]

    refused = reversals.refuse_unclaimed(SETTLEMENT, "execution", ERROR, NOW).parameters["Item"]

    assert claim.keys() - refused.keys() == {"gsi1pk", "gsi1sk"}
    assert refused.keys() - claim.keys() == {"failure", "finished_at"}
    differing = {name for name in claim.keys() & refused.keys() if claim[name] != refused[name]}
    assert differing == {"status", "deadline_at"}
    assert refused["finished_at"] == refused["claimed_at"] == refused["deadline_at"] == rows.timestamp(NOW)


@pytest.mark.parametrize("status", Status)
def test_a_key_that_was_claimed_stands_as_it_is(status: Status) -> None:
    row = settlement_row(status, {"hold"}, AFTER)

    standing = reversals.refuse_unclaimed(SETTLEMENT, "execution", ERROR, NOW).refusal(row)

    assert isinstance(standing, Standing)
    assert standing.row == row


# The fence


def test_compensation_begins_from_processing_and_in_any_other_status_the_row_stands() -> None:
    write = beginning()
    for row in rows_met_by(write):
        same = row["request_hash"] == SETTLEMENT.request_hash
        assert admits(write, row) == (same and row["status"] is Status.PROCESSING)
        if admits(write, row):
            continue
        refusal = write.refusal(row)
        if same:
            assert isinstance(refusal, Standing)
            assert refusal.row == row
        else:
            assert type(refusal) is IdempotencyConflict


def test_the_fence_leaves_the_settlement_where_recovery_looks_for_it() -> None:
    """A compensation that dies at once is found by the index, where the claim has put the row."""
    row = items.claim(SETTLEMENT, "execution", NOW, TERMS).parameters["Item"]

    after = applied(beginning(), row)

    assert after == row | {
        "status": Status.COMPENSATING,
        "failure": FAILURE,
        "reversed_for": FAILURE,
        "resolutions": 0,
        "owner": REVERSER,
    }


@pytest.mark.parametrize("seen", ORDERS)
def test_a_person_may_reverse_what_still_is_what_they_saw_and_nobody_has_accepted(seen: Status) -> None:
    write = reopening(seen)
    for row in rows_met_by(write):
        same, decided = row["request_hash"] == SETTLEMENT.request_hash, "resolution" in row
        assert admits(write, row) == (same and row["status"] is seen and not decided), row
        if admits(write, row):
            continue
        refusal = write.refusal(row)
        assert type(refusal) is (NotReversible if same else IdempotencyConflict)
        if same:
            completed = " and was completed out of LIMBO" * (decided and row["status"] is Status.SETTLED)
            expected = f"reverse: it was to be {seen}, but the settlement is {row['status']}{completed}"
            assert str(refusal) == expected


@pytest.mark.parametrize("seen", ORDERS)
def test_what_is_reversed_on_an_order_is_in_flight_again_and_not_finished(seen: Status) -> None:
    row = settlement_row(seen, set(Step), AFTER, finished_at="then")

    after = applied(reopening(seen), row)

    unfinished = {name: value for name, value in row.items() if name != "finished_at"}
    index = rows.in_flight_index(SETTLEMENT.key, "2026-11-20T12:00:30.123Z")
    assert after == unfinished | index | {
        "status": Status.COMPENSATING,
        "failure": FAILURE,
        "reversed_for": FAILURE,
        "resolutions": 0,
        "in_flight_since": rows.timestamp(NOW),
    }


@pytest.mark.parametrize(
    ("build", "what", "expected"),
    [
        (beginning, "compensate", StepFenced),
        *((partial(reopening, seen), "reverse", NotReversible) for seen in ORDERS),
        (concluding, "compensate:hold", StepFenced),
        *((partial(undoing, step), step.reversal, StepFenced) for step in REVERSIBLE),
        *((partial(passing_over, step), step.reversal, StepFenced) for step in REVERSIBLE),
    ],
)
def test_a_key_that_was_never_claimed_has_nothing_to_reverse(
    build: Callable[[], Write], what: str, expected: type[SettlementError]
) -> None:
    write = build()

    assert not admits(write, None)
    refusal = write.refusal(None)
    assert type(refusal) is expected
    assert str(refusal) == f"{what}: the key {SETTLEMENT.key} was never claimed"


# The reversals


@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_step_is_reversed_once_if_it_has_committed_and_compensation_has_begun(step: Step) -> None:
    write = undoing(step)
    for row in rows_met_by(write):
        same = row["request_hash"] == SETTLEMENT.request_hash
        due = step in row.get("steps", ()) and step not in row.get("reversed", ())
        whole = step is not Step.HOLD or row["escrow"] == SETTLEMENT.amount
        expected = same and row["status"] is Status.COMPENSATING and due and whole
        assert admits(write, row) == expected, row
        if expected:
            continue
        refusal = write.refusal(row)
        if same and row["status"] is Status.COMPENSATING and due:
            assert type(refusal) is EscrowMismatch, row
            assert str(refusal) == f"{step.reversal}: the escrow holds something else than was held"
        else:
            assert type(refusal) is (StepFenced if same else IdempotencyConflict), row


def test_an_escrow_with_something_else_is_no_fence_for_the_void_would_come_back_for_ever() -> None:
    """A fenced reversal is asked for again by whoever drives on; a mismatch waits for a person."""
    write, due = undoing(Step.HOLD), {"steps": {"hold"}, "escrow": SETTLEMENT.amount - 1}
    row = settlement_row(Status.COMPENSATING, set(), AFTER) | due

    told = {
        type(write.refusal(row | change))
        for change in ({"status": Status.LIMBO}, {"reversed": {"hold"}}, {"steps": {"verify"}})
    }

    assert type(write.refusal(row)) is EscrowMismatch
    assert told == {StepFenced}
    assert type(write.refusal(row | {"request_hash": "another"})) is IdempotencyConflict


def test_a_settlement_of_which_nothing_was_held_is_concluded() -> None:
    write = concluding()
    for row in rows_met_by(write):
        same = row["request_hash"] == SETTLEMENT.request_hash
        expected = same and row["status"] is Status.COMPENSATING and "steps" not in row
        assert admits(write, row) == expected, row
        if not expected:
            assert type(write.refusal(row)) is (StepFenced if same else IdempotencyConflict)


@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_step_is_passed_over_if_it_never_committed_and_compensation_has_begun(step: Step) -> None:
    write = passing_over(step)
    for row in rows_met_by(write):
        same = row["request_hash"] == SETTLEMENT.request_hash
        expected = same and row["status"] is Status.COMPENSATING and step not in row.get("steps", ())
        assert admits(write, row) == expected, row
        if expected:
            assert applied(write, row) == row
        else:
            refusal = write.refusal(row)
            assert type(refusal) is (StepFenced if same else IdempotencyConflict)
            assert not same or str(refusal).startswith(f"{step.reversal}: the settlement is {row['status']} ")


def test_whoever_is_fenced_is_told_how_far_it_has_come() -> None:
    # Lists stand in for the sets, whose order would change from run to run and hide an unsorted message.
    row = settlement_row(Status.COMPENSATED, set(), AFTER, reversed=["release", "hold"])
    row |= {"steps": ["verify", "release", "hold"]}

    assert str(undoing(Step.HOLD).refusal(row)) == (
        "compensate:hold: the settlement is COMPENSATED with steps [hold, release, verify] committed"
        " and [hold, release] reversed"
    )


# Balances


def account_row(account: str, available: int, currency: str = "EUR", **extra: Any) -> Row:
    return {**rows.account_key(account), "available": available, "currency": currency, **extra}


@pytest.mark.parametrize("extra", [{}, {"limbo_keys": {"order-2026-000001"}}])
@pytest.mark.parametrize("available", [4772, 4773])
def test_a_payee_who_has_it_gives_it_back_in_limbo_or_not(available: int, extra: dict[str, Any]) -> None:
    row = account_row("bob", available, **extra)

    write = reversals.debit_payee(SETTLEMENT)

    assert admits(write, row)
    assert applied(write, row) == row | {"available": available - 4772}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param(None, AccountNotFound, id="no account"),
        pytest.param(account_row("bob", 9999, "USD"), CurrencyMismatch, id="other currency"),
        pytest.param(account_row("bob", 4771), InsufficientFunds, id="a cent too little"),
        pytest.param(account_row("bob", 0), InsufficientFunds, id="nothing"),
    ],
)
def test_a_payee_who_cannot_give_it_back_is_told_why(row: Row | None, expected: type[Exception]) -> None:
    write = reversals.debit_payee(SETTLEMENT)

    assert not admits(write, row)
    refusal = write.refusal(row)
    assert type(refusal) is expected
    assert str(refusal).startswith("payee: ")
    assert not [secret for secret in ("bob", "477", "4771") if secret in str(refusal)]


@pytest.mark.parametrize("extra", [{}, {"limbo_keys": {"order-2026-000001"}}])
@pytest.mark.parametrize("available", [0, 10**15])
def test_a_payer_gets_it_back_in_limbo_or_over_any_cap(available: int, extra: dict[str, Any]) -> None:
    row = account_row("alice", available, **extra)

    write = reversals.credit_payer(SETTLEMENT)

    assert admits(write, row)
    assert applied(write, row) == row | {"available": available + 4820}


@pytest.mark.parametrize(
    ("row", "expected", "message"),
    [
        pytest.param(None, AccountNotFound, "there is no such account", id="no account"),
        pytest.param(
            account_row("alice", 0, "USD"),
            CurrencyMismatch,
            "the account is kept in USD, not in EUR",
            id="other currency",
        ),
    ],
)
def test_a_payer_who_cannot_get_it_back_is_told_why(
    row: Row | None, expected: type[Exception], message: str
) -> None:
    write = reversals.credit_payer(SETTLEMENT)

    assert not admits(write, row)
    refusal = write.refusal(row)
    assert type(refusal) is expected
    assert str(refusal) == f"payer: {message}"
