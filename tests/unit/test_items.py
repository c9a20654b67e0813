"""The writes of the forward steps: each condition asked about every row there is, each refusal named."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from settlement import items
from settlement.errors import (
    DeadlineExceeded,
    IdempotencyConflict,
    StepFenced,
)
from settlement.status import Status, Step
from settlement.writes import Standing, Transfer
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
        refusal, stands = write.refusal(row), same and status is Status.REJECTED
        assert type(refusal) is (Standing if stands else StepFenced if same else IdempotencyConflict), row
        assert not isinstance(refusal, Standing) or refusal.row == row
    assert type(write.refusal(None)) is StepFenced
    assert str(write.refusal(None)) == f"reject: the key {SETTLEMENT.key} was never claimed"


# Rows that are put once


PUTS = {name: write for name, write in vectors.named_writes().items() if write.action == "Put"}
ENTRIES = [name for name, put in PUTS.items() if {"step", "request_hash"} <= put.parameters["Item"].keys()]
"""By their names: each is built in its test, and not at import, where no mutant of its builder is met."""


@pytest.mark.parametrize("name", PUTS)
def test_a_row_is_put_only_where_there_is_none(name: str) -> None:
    write = vectors.named_writes()[name]

    assert admits(write, None)
    assert not admits(write, dict(write.parameters["Item"]))


@pytest.mark.parametrize("name", PUTS)
def test_a_row_that_was_put_before_stands(name: str) -> None:
    write = vectors.named_writes()[name]
    row = dict(write.parameters["Item"])

    standing = write.refusal(row)

    assert isinstance(standing, Standing)
    assert standing.row == row


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_of_another_request_is_a_conflict_and_not_a_replay(name: str) -> None:
    write = vectors.named_writes()[name]
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
