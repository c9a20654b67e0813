"""The writes of a compensation: when each commits, and the meaning of each refusal."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from settlement.ledger import balances, forward, keys, reversal
from settlement.ledger.keys import Row
from settlement.ledger.transaction import AlreadyApplied, Write
from settlement.model.errors import (
    AccountNotFound,
    CurrencyMismatch,
    EscrowMismatch,
    IdempotencyConflict,
    InsufficientFunds,
    NotReversible,
    SettlementError,
    StepFenced,
)
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.model.timestamps import timestamp
from settlement.policy import steps
from tests.conftest import NOW
from tests.unit import states
from tests.unit.books import ERROR
from tests.unit.conditions import admits
from tests.unit.every_row import AFTER, rows_met_by, settlement_row
from tests.unit.states import account_row, found
from tests.unit.table import Table, applied
from tests.unit.vectors import CONFIG, FAILURE, ORDERS, REVERSER, SETTLEMENT

# Each write is built in its test: at import, mutation testing would not reach its builder.


def begin() -> Write:
    return reversal.begin(SETTLEMENT, FAILURE, owner=None, execution=REVERSER)


def begin_on_order(expected_status: Status) -> Write:
    return reversal.begin_on_order(SETTLEMENT, expected_status, FAILURE, NOW, CONFIG)


def finish_unheld() -> Write:
    return reversal.finish_unheld(SETTLEMENT, NOW)


def assert_never_committed(step: Step) -> Write:
    return reversal.assert_never_committed(SETTLEMENT, step)


def reverse_step(step: Step) -> Write:
    return reversal.reverse_step(SETTLEMENT, step, escrow_change=0, now=NOW)


# An unclaimed key


def test_a_late_claim_finds_the_tombstone() -> None:
    table = Table()
    table.write(reversal.tombstone(SETTLEMENT, "compensation", ERROR, NOW))

    row = table.write(forward.claim(SETTLEMENT, "execution", NOW, CONFIG))

    assert (row["status"], row["owner"], row["failure"]) == (Status.REJECTED, "compensation", ERROR)
    assert steps.is_replay(found(row), "execution")
    assert len(table.rows()) == 1
    with pytest.raises(StepFenced):
        table.transact([forward.advance(SETTLEMENT, Step.HOLD, escrow_change=4820, now=NOW)])


def test_a_tombstone_is_the_row_of_a_claim_with_its_end() -> None:
    claim = forward.claim(SETTLEMENT, "execution", NOW, CONFIG).parameters["Item"]

    tombstone = reversal.tombstone(SETTLEMENT, "execution", ERROR, NOW).parameters["Item"]

    assert claim.keys() - tombstone.keys() == {"gsi1pk", "gsi1sk"}
    assert tombstone.keys() - claim.keys() == {"failure", "finished_at"}
    differing = {name for name in claim.keys() & tombstone.keys() if claim[name] != tombstone[name]}
    assert differing == {"status", "deadline_at"}
    assert tombstone["finished_at"] == tombstone["claimed_at"] == tombstone["deadline_at"] == timestamp(NOW)


@pytest.mark.parametrize("status", Status)
def test_a_tombstone_leaves_a_claimed_key_as_it_is(status: Status) -> None:
    state = states.state(status=status, steps={"hold"})

    replayed = reversal.tombstone(SETTLEMENT, "execution", ERROR, NOW).on_failure(state)

    assert isinstance(replayed, AlreadyApplied)
    assert replayed.found is state


# The fence


def test_a_compensation_begins_from_processing_and_leaves_any_other_status_as_it_is() -> None:
    write = begin()
    for row in rows_met_by(write):
        same = row["request_hash"] == SETTLEMENT.request_hash
        assert admits(write, row) == (same and row["status"] is Status.PROCESSING)
        if admits(write, row):
            continue
        refusal = write.on_failure(found(row))
        if same:
            assert isinstance(refusal, AlreadyApplied)
            assert refusal.found == found(row)
        else:
            assert type(refusal) is IdempotencyConflict


def test_the_fence_leaves_the_settlement_in_the_index_for_recovery() -> None:
    """Recovery finds a compensation that dies at once by the index, into which the claim has put the row."""
    row = forward.claim(SETTLEMENT, "execution", NOW, CONFIG).parameters["Item"]

    after = applied(begin(), row)

    assert after == row | {
        "status": Status.COMPENSATING,
        "failure": FAILURE,
        "reversed_for": FAILURE,
        "resolutions": 0,
        "owner": REVERSER,
    }


@pytest.mark.parametrize("expected_status", ORDERS)
def test_an_order_reverses_a_settlement_that_has_the_expected_status_and_was_never_resolved(
    expected_status: Status,
) -> None:
    write = begin_on_order(expected_status)
    for row in rows_met_by(write):
        same, decided = row["request_hash"] == SETTLEMENT.request_hash, "resolution" in row
        assert admits(write, row) == (same and row["status"] is expected_status and not decided), row
        if admits(write, row):
            continue
        refusal = write.on_failure(found(row))
        assert type(refusal) is (NotReversible if same else IdempotencyConflict)
        if same:
            completed = " and was completed out of LIMBO" * (decided and row["status"] is Status.SETTLED)
            expected = (
                f"reverse: it was to be {expected_status}, but the settlement is {row['status']}{completed}"
            )
            assert str(refusal) == expected


@pytest.mark.parametrize("expected_status", ORDERS)
def test_a_settlement_that_is_reversed_on_order_is_in_flight_again(expected_status: Status) -> None:
    row = settlement_row(expected_status, set(Step), AFTER, finished_at="then")

    after = applied(begin_on_order(expected_status), row)

    unfinished = {name: value for name, value in row.items() if name != "finished_at"}
    index = keys.in_flight_index(SETTLEMENT.key, "2026-11-20T12:00:30.123Z")
    assert after == unfinished | index | {
        "status": Status.COMPENSATING,
        "failure": FAILURE,
        "reversed_for": FAILURE,
        "resolutions": 0,
        "in_flight_since": timestamp(NOW),
    }


@pytest.mark.parametrize(
    ("build", "step", "expected"),
    [
        (begin, "compensate", StepFenced),
        *((partial(begin_on_order, status), "reverse", NotReversible) for status in ORDERS),
        (finish_unheld, "compensate:hold", StepFenced),
        *((partial(reverse_step, step), step.reversal, StepFenced) for step in REVERSIBLE),
        *((partial(assert_never_committed, step), step.reversal, StepFenced) for step in REVERSIBLE),
    ],
)
def test_an_unclaimed_key_has_nothing_to_reverse(
    build: Callable[[], Write], step: str, expected: type[SettlementError]
) -> None:
    write = build()

    assert not admits(write, None)
    refusal = write.on_failure(None)
    assert type(refusal) is expected
    assert str(refusal) == f"{step}: the key {SETTLEMENT.key} was never claimed"


# The reversals


@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_step_is_reversed_once_if_it_has_committed_and_compensation_has_begun(step: Step) -> None:
    write = reverse_step(step)
    for row in rows_met_by(write):
        same = row["request_hash"] == SETTLEMENT.request_hash
        due = step in row.get("steps", ()) and step not in row.get("reversed", ())
        whole = step is not Step.HOLD or row["escrow"] == SETTLEMENT.amount
        expected = same and row["status"] is Status.COMPENSATING and due and whole
        assert admits(write, row) == expected, row
        if expected:
            continue
        refusal = write.on_failure(found(row))
        if same and row["status"] is Status.COMPENSATING and due:
            assert type(refusal) is EscrowMismatch, row
            assert str(refusal) == f"{step.reversal}: the escrow holds something else than was held"
        else:
            assert type(refusal) is (StepFenced if same else IdempotencyConflict), row


def test_a_wrong_escrow_is_no_fence() -> None:
    """The machine tries a fenced reversal again, for ever in this case; a mismatch waits for a person."""
    write, due = reverse_step(Step.HOLD), {"steps": {"hold"}, "escrow": SETTLEMENT.amount - 1}
    row = settlement_row(Status.COMPENSATING, set(), AFTER) | due

    told = {
        type(write.on_failure(found(row | change)))
        for change in ({"status": Status.LIMBO}, {"reversed": {"hold"}}, {"steps": {"verify"}})
    }

    assert type(write.on_failure(found(row))) is EscrowMismatch
    assert told == {StepFenced}
    assert type(write.on_failure(found(row | {"request_hash": "another"}))) is IdempotencyConflict


def test_a_settlement_of_which_nothing_was_held_is_finished() -> None:
    write = finish_unheld()
    for row in rows_met_by(write):
        same = row["request_hash"] == SETTLEMENT.request_hash
        expected = same and row["status"] is Status.COMPENSATING and "steps" not in row
        assert admits(write, row) == expected, row
        if not expected:
            assert type(write.on_failure(found(row))) is (StepFenced if same else IdempotencyConflict)


@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_reversal_is_skipped_if_its_step_never_committed_and_compensation_has_begun(step: Step) -> None:
    write = assert_never_committed(step)
    for row in rows_met_by(write):
        same = row["request_hash"] == SETTLEMENT.request_hash
        expected = same and row["status"] is Status.COMPENSATING and step not in row.get("steps", ())
        assert admits(write, row) == expected, row
        if expected:
            assert applied(write, row) == row
        else:
            refusal = write.on_failure(found(row))
            assert type(refusal) is (StepFenced if same else IdempotencyConflict)
            assert not same or str(refusal).startswith(f"{step.reversal}: the settlement is {row['status']} ")


def test_a_fenced_reversal_is_told_the_committed_and_the_reversed_steps() -> None:
    # Lists in the place of the sets, whose order would change from run to run and hide an unsorted message.
    state = replace(
        states.state(status=Status.COMPENSATED),
        steps=["verify", "release", "hold"],  # type: ignore[arg-type]
        reversed=["release", "hold"],  # type: ignore[arg-type]
    )

    assert str(reverse_step(Step.HOLD).on_failure(state)) == (
        "compensate:hold: the settlement is COMPENSATED with steps [hold, release, verify] committed"
        " and [hold, release] reversed"
    )


# Balances


@pytest.mark.parametrize("extra", [{}, {"limbo_keys": {"order-2026-000001"}}])
@pytest.mark.parametrize("available", [4772, 4773])
def test_a_payee_with_enough_gives_it_back_blocked_or_not(available: int, extra: dict[str, Any]) -> None:
    row = account_row("bob", available, **extra)

    write = balances.debit_payee(SETTLEMENT)

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
    write = balances.debit_payee(SETTLEMENT)

    assert not admits(write, row)
    refusal = write.on_failure(found(row))
    assert type(refusal) is expected
    assert str(refusal).startswith("payee: ")
    assert not [secret for secret in ("bob", "477", "4771") if secret in str(refusal)]


@pytest.mark.parametrize("extra", [{}, {"limbo_keys": {"order-2026-000001"}}])
@pytest.mark.parametrize("available", [0, 10**15])
def test_a_payer_gets_it_back_though_blocked_or_over_the_cap(available: int, extra: dict[str, Any]) -> None:
    row = account_row("alice", available, **extra)

    write = balances.credit_payer(SETTLEMENT)

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
    write = balances.credit_payer(SETTLEMENT)

    assert not admits(write, row)
    refusal = write.on_failure(found(row))
    assert type(refusal) is expected
    assert str(refusal) == f"payer: {message}"
