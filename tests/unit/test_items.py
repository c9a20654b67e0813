"""The writes of the forward steps: each condition asked about every row there is, each refusal named."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from settlement import items, rows
from settlement.errors import (
    AccountInLimbo,
    AccountNotFound,
    CapExceeded,
    CurrencyMismatch,
    DeadlineExceeded,
    IdempotencyConflict,
    InsufficientFunds,
    StepFenced,
)
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.writes import Standing, Transfer, Write
from tests.conftest import NOW
from tests.unit import vectors
from tests.unit.conditions import admits, status_set_by
from tests.unit.every_row import AFTER, AT, BEFORE, PREFIXES, settlement_row
from tests.unit.vectors import FAILURE, SETTLEMENT


def settlement_rows() -> Iterator[tuple[Status, set[Any], str, bool]]:
    yield from product(Status, PREFIXES, (BEFORE, AT, AFTER), (True, False))


# The fence


@pytest.mark.parametrize("step", Step)
def test_a_forward_step_commits_only_while_processing(step: Step) -> None:
    write = items.advance(SETTLEMENT, step, escrow_change=0, now=NOW)

    admitted = {
        status
        for status, steps, deadline, same in settlement_rows()
        if admits(write, settlement_row(status, steps, deadline, same_request=same))
    }

    assert admitted == {Status.PROCESSING}


@pytest.mark.parametrize("step", Step)
def test_a_step_commits_in_its_turn_in_time_and_for_its_own_request(step: Step) -> None:
    write = items.advance(SETTLEMENT, step, escrow_change=0, now=NOW)
    before = set(list(Step)[: list(Step).index(step)])

    for status, steps, deadline, same in settlement_rows():
        in_turn = status is Status.PROCESSING and steps == before
        in_time = step is Step.FEE or deadline == AFTER  # after the release there is no way but on
        row = settlement_row(status, steps, deadline, same_request=same)
        assert admits(write, row) == (same and in_turn and in_time), row


@pytest.mark.parametrize("step", Step)
def test_a_refused_step_is_told_why(step: Step) -> None:
    write = items.advance(SETTLEMENT, step, escrow_change=0, now=NOW)
    before = set(list(Step)[: list(Step).index(step)])

    for status, steps, deadline, same in settlement_rows():
        row = settlement_row(status, steps, deadline, same_request=same)
        if admits(write, row):
            continue
        if not same:
            expected: type[Exception] = IdempotencyConflict
        elif status is Status.PROCESSING and steps == before:
            expected = DeadlineExceeded
        else:
            expected = StepFenced
        assert type(write.refusal(row)) is expected, row


@pytest.mark.parametrize("step", Step)
def test_a_step_of_a_key_that_was_never_claimed_is_fenced(step: Step) -> None:
    write = items.advance(SETTLEMENT, step, escrow_change=0, now=NOW)

    assert not admits(write, None)
    assert type(refusal := write.refusal(None)) is StepFenced
    assert str(refusal) == f"{step}: the key {SETTLEMENT.key} was never claimed"


def test_a_fenced_step_is_told_the_status_and_what_has_committed() -> None:
    write = items.advance(SETTLEMENT, Step.RELEASE, escrow_change=0, now=NOW)

    # A list stands in for the set, whose order would change from run to run and hide an unsorted message.
    row = settlement_row(Status.COMPENSATING, set(), AFTER) | {"steps": ["verify", "hold"]}

    assert (
        str(write.refusal(row))
        == "release: the settlement is COMPENSATING with steps [hold, verify] committed"
    )


def test_a_late_step_is_told_the_deadline() -> None:
    write = items.advance(SETTLEMENT, Step.HOLD, escrow_change=0, now=NOW)

    assert str(write.refusal(settlement_row(Status.PROCESSING, set(), BEFORE))).endswith(BEFORE)


@pytest.mark.parametrize("step", Step)
def test_only_the_last_step_finishes_the_settlement_and_takes_it_out_of_the_index(step: Step) -> None:
    write = items.advance(SETTLEMENT, step, escrow_change=0, now=NOW)
    update = write.parameters["UpdateExpression"]

    last = step is Step.FEE
    assert (status_set_by(write) == Status.SETTLED) == last
    assert ("finished_at = :now" in update) == last
    assert ("REMOVE gsi1pk, gsi1sk" in update) == last
    assert write.parameters["ExpressionAttributeValues"][":steps"] == {step.value}


# Rejecting


def test_a_settlement_is_rejected_only_while_nothing_is_held() -> None:
    write = items.reject(SETTLEMENT, FAILURE, NOW)

    for status, steps, deadline, same in settlement_rows():
        row = settlement_row(status, steps, deadline, same_request=same)
        assert admits(write, row) == (same and status is Status.PROCESSING and not steps), row
    assert not admits(write, None)


def test_a_rejection_that_stands_is_returned_and_any_other_row_refuses() -> None:
    write = items.reject(SETTLEMENT, FAILURE, NOW)

    for status, steps, deadline, same in settlement_rows():
        row = settlement_row(status, steps, deadline, same_request=same)
        if admits(write, row):
            continue
        if not same:
            expected: type[Exception] = IdempotencyConflict
        elif status is Status.REJECTED:
            expected = Standing
        else:
            expected = StepFenced
        assert type(write.refusal(row)) is expected, row
    assert type(write.refusal(None)) is StepFenced


# Rows that are put once


PUTS = [
    pytest.param(write, id=name) for name, write in vectors.named_writes().items() if write.action == "Put"
]
ENTRIES = [param for param in PUTS if {"step", "request_hash"} <= param.values[0].parameters["Item"].keys()]


@pytest.mark.parametrize("write", PUTS)
def test_a_row_is_put_only_where_there_is_none(write: Write) -> None:
    assert admits(write, None)
    assert not admits(write, dict(write.parameters["Item"]))


@pytest.mark.parametrize("write", PUTS)
def test_a_row_that_was_put_before_stands(write: Write) -> None:
    row = dict(write.parameters["Item"])

    standing = write.refusal(row)

    assert isinstance(standing, Standing)
    assert standing.row == row


@pytest.mark.parametrize("write", ENTRIES)
def test_an_entry_of_another_request_is_a_conflict_and_not_a_replay(write: Write) -> None:
    entry = dict(write.parameters["Item"])
    key = entry["pk"].removeprefix("SETTLEMENT#")

    refusal = write.refusal(entry | {"request_hash": "another"})

    assert type(refusal) is IdempotencyConflict
    assert str(refusal) == f"key: {key} was claimed by a request with other content"


def test_a_claim_by_another_request_stands_for_the_gate_to_judge() -> None:
    write = items.claim(SETTLEMENT, "owner", NOW, vectors.TERMS)
    earlier = {"request_hash": "another", "owner": "someone"}

    standing = write.refusal(earlier)

    assert isinstance(standing, Standing)
    assert standing.row == earlier


@pytest.mark.parametrize(
    ("debit", "credit", "side", "partition"),
    [
        ("alice", vectors.ESCROW, "debit", "ACCOUNT#alice"),
        (vectors.ESCROW, "bob", "credit", "ACCOUNT#bob"),
        (vectors.ESCROW, "fees:EUR", "credit", "ACCOUNT#fees:EUR#"),
        (vectors.ESCROW, "alice", "credit", "ACCOUNT#alice"),
        ("bob", vectors.ESCROW, "debit", "ACCOUNT#bob"),
        ("fees:EUR", vectors.ESCROW, "debit", "ACCOUNT#fees:EUR#"),
        ("losses:EUR", vectors.ESCROW, "debit", "ACCOUNT#losses:EUR#"),
    ],
)
def test_an_entry_is_listed_under_the_account_on_the_other_side_of_escrow(
    debit: str, credit: str, side: str, partition: str
) -> None:
    transfer = Transfer(debit=debit, credit=credit, amount=1)

    write = items.transfer_entry(SETTLEMENT, Step.HOLD, transfer, NOW)

    assert write.parameters["Item"]["side"] == side
    assert write.parameters["Item"]["gsi1pk"].startswith(partition)
    assert "decision" not in write.parameters["Item"]


def test_an_entry_of_a_transfer_may_carry_evidence_beside_it() -> None:
    transfer = Transfer(debit=vectors.ESCROW, credit="bob", amount=1)
    plain = items.transfer_entry(SETTLEMENT, Step.HOLD, transfer, NOW).parameters["Item"]

    write = items.transfer_entry(SETTLEMENT, Step.HOLD, transfer, NOW, {"decision": "retry"})

    assert write.parameters["Item"] == plain | {"decision": "retry"}


# Balances


def account_row(available: int, currency: str = "EUR", **extra: Any) -> Row:
    return {**rows.account_key("alice"), "available": available, "currency": currency, **extra}


LIMBO: dict[str, Any] = {"limbo_keys": {"order-2026-000001"}}


@pytest.mark.parametrize("row", [account_row(4820), account_row(4821)])
def test_a_payer_with_enough_is_debited(row: Row) -> None:
    assert admits(items.debit_payer(SETTLEMENT), row)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param(None, AccountNotFound, id="no account"),
        pytest.param(account_row(9999, "USD"), CurrencyMismatch, id="other currency"),
        pytest.param(account_row(4819), InsufficientFunds, id="a cent too little"),
        pytest.param(account_row(0), InsufficientFunds, id="nothing"),
        pytest.param(account_row(9999, **LIMBO), AccountInLimbo, id="in LIMBO"),
        pytest.param(account_row(0, **LIMBO), AccountInLimbo, id="in LIMBO with too little"),
        pytest.param(account_row(0, "USD", **LIMBO), CurrencyMismatch, id="all at once"),
    ],
)
def test_a_payer_who_cannot_pay_is_told_why(row: Row | None, expected: type[Exception]) -> None:
    write = items.debit_payer(SETTLEMENT)

    assert not admits(write, row)
    refusal = write.refusal(row)
    assert type(refusal) is expected
    assert str(refusal).startswith("payer: ")
    assert "alice" not in str(refusal)  # a message is logged, and an account is payload


@pytest.mark.parametrize("row", [account_row(777_777_777, **LIMBO), account_row(777)])
def test_a_refusal_does_not_tell_the_balance(row: Row) -> None:
    assert "777" not in str(items.debit_payer(SETTLEMENT).refusal(row))
    assert "777" not in str(items.credit_payee(SETTLEMENT, 800).refusal(row))


@pytest.mark.parametrize(
    ("row", "cap"),
    [
        pytest.param(account_row(10_000 - 4772), 10_000, id="up to the cap"),
        pytest.param(account_row(0, **LIMBO), 10_000, id="in LIMBO, which only helps"),
        pytest.param(account_row(10**15), None, id="where there is no cap"),
    ],
)
def test_a_payee_is_credited(row: Row, cap: int | None) -> None:
    assert admits(items.credit_payee(SETTLEMENT, cap), row)


@pytest.mark.parametrize(
    ("row", "cap", "expected"),
    [
        pytest.param(None, 10_000, AccountNotFound, id="no account"),
        pytest.param(None, None, AccountNotFound, id="no account, no cap"),
        pytest.param(account_row(0, "USD"), 10_000, CurrencyMismatch, id="other currency"),
        pytest.param(account_row(0, "USD"), None, CurrencyMismatch, id="other currency, no cap"),
        pytest.param(account_row(10_000 - 4771), 10_000, CapExceeded, id="a cent over the cap"),
        pytest.param(account_row(0), 4771, CapExceeded, id="a cap below the credit itself"),
    ],
)
def test_a_payee_who_cannot_receive_is_told_why(
    row: Row | None, cap: int | None, expected: type[Exception]
) -> None:
    write = items.credit_payee(SETTLEMENT, cap)

    assert not admits(write, row)
    assert type(write.refusal(row)) is expected
