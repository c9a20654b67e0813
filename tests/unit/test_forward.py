"""The writes of the forward steps: each condition on every row, and the meaning of each refusal."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from settlement.ledger import entries, forward
from settlement.ledger.transaction import AlreadyApplied, Transfer
from settlement.model.errors import DeadlineExceeded, IdempotencyConflict, StepFenced
from settlement.model.status import Status, Step
from tests.conftest import NOW
from tests.unit import states, vectors
from tests.unit.conditions import admits, status_set_by
from tests.unit.every_row import AFTER, AT, BEFORE, PREFIXES, settlement_row
from tests.unit.states import found
from tests.unit.vectors import FAILURE, SETTLEMENT


def settlement_rows() -> Iterator[tuple[Status, set[Any], str, bool]]:
    yield from product(Status, PREFIXES, (BEFORE, AT, AFTER), (True, False))


# The fence


@pytest.mark.parametrize("step", Step)
def test_a_forward_step_commits_only_while_processing(step: Step) -> None:
    write = forward.advance(SETTLEMENT, step, escrow_change=0, now=NOW)

    admitted = {
        status
        for status, steps, deadline, same in settlement_rows()
        if admits(write, settlement_row(status, steps, deadline, same_request=same))
    }

    assert admitted == {Status.PROCESSING}


@pytest.mark.parametrize("step", Step)
def test_a_step_commits_in_its_turn_in_time_and_for_its_own_request(step: Step) -> None:
    write = forward.advance(SETTLEMENT, step, escrow_change=0, now=NOW)
    before = set(list(Step)[: list(Step).index(step)])

    for status, steps, deadline, same in settlement_rows():
        in_turn = status is Status.PROCESSING and steps == before
        in_time = step is Step.FEE or deadline == AFTER  # a released settlement only runs forward
        row = settlement_row(status, steps, deadline, same_request=same)
        assert admits(write, row) == (same and in_turn and in_time), row


@pytest.mark.parametrize("step", Step)
def test_a_refused_step_is_told_why(step: Step) -> None:
    write = forward.advance(SETTLEMENT, step, escrow_change=0, now=NOW)
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
        assert type(write.on_failure(found(row))) is expected, row


@pytest.mark.parametrize("step", Step)
def test_a_step_of_an_unclaimed_key_is_fenced(step: Step) -> None:
    write = forward.advance(SETTLEMENT, step, escrow_change=0, now=NOW)

    assert not admits(write, None)
    assert type(refusal := write.on_failure(None)) is StepFenced
    assert str(refusal) == f"{step}: the key {SETTLEMENT.key} was never claimed"


def test_a_fenced_step_is_told_the_status_and_the_committed_steps() -> None:
    write = forward.advance(SETTLEMENT, Step.RELEASE, escrow_change=0, now=NOW)
    state = states.state(status=Status.COMPENSATING)

    # A list in the place of the set, whose order would change from run to run and hide an unsorted message.
    state = replace(state, steps=["verify", "hold"])  # type: ignore[arg-type]

    assert str(write.on_failure(state)) == (
        "release: the settlement is COMPENSATING with steps [hold, verify] committed"
    )


def test_a_late_step_is_told_the_deadline() -> None:
    write = forward.advance(SETTLEMENT, Step.HOLD, escrow_change=0, now=NOW)

    refusal = write.on_failure(states.state(deadline_at=BEFORE))

    assert type(refusal) is DeadlineExceeded
    assert (refusal.step, refusal.deadline_at) == ("hold", BEFORE)
    assert str(refusal).endswith(BEFORE)


@pytest.mark.parametrize("step", Step)
def test_only_the_last_step_finishes_the_settlement_and_takes_it_out_of_the_index(step: Step) -> None:
    write = forward.advance(SETTLEMENT, step, escrow_change=0, now=NOW)
    update = write.parameters["UpdateExpression"]

    last = step is Step.FEE
    assert (status_set_by(write) == Status.SETTLED) == last
    assert ("finished_at = :now" in update) == last
    assert ("REMOVE gsi1pk, gsi1sk" in update) == last
    assert write.parameters["ExpressionAttributeValues"][":steps"] == {step.value}


# Rejecting


def test_a_settlement_is_rejected_only_while_nothing_is_held() -> None:
    write = forward.reject(SETTLEMENT, FAILURE, NOW)

    for status, steps, deadline, same in settlement_rows():
        row = settlement_row(status, steps, deadline, same_request=same)
        assert admits(write, row) == (same and status is Status.PROCESSING and not steps), row
    assert not admits(write, None)


def test_a_repeated_rejection_is_replayed_and_any_other_row_refuses() -> None:
    write = forward.reject(SETTLEMENT, FAILURE, NOW)

    for status, steps, deadline, same in settlement_rows():
        row = settlement_row(status, steps, deadline, same_request=same)
        if admits(write, row):
            continue
        refusal, replayed = write.on_failure(found(row)), same and status is Status.REJECTED
        expected = AlreadyApplied if replayed else StepFenced if same else IdempotencyConflict
        assert type(refusal) is expected, row
        assert not isinstance(refusal, AlreadyApplied) or refusal.found == found(row)
    assert type(write.on_failure(None)) is StepFenced
    assert str(write.on_failure(None)) == f"reject: the key {SETTLEMENT.key} was never claimed"


# Rows that are put once


PUTS = {name: write for name, write in vectors.named_writes().items() if write.action == "Put"}
ENTRIES = [name for name, put in PUTS.items() if {"step", "request_hash"} <= put.parameters["Item"].keys()]
"""The names only: each write is built in its test, as at import it would not meet its mutants."""


@pytest.mark.parametrize("name", PUTS)
def test_a_row_is_put_only_if_there_is_none(name: str) -> None:
    write = vectors.named_writes()[name]

    assert admits(write, None)
    assert not admits(write, dict(write.parameters["Item"]))


@pytest.mark.parametrize("name", PUTS)
def test_a_row_that_was_put_before_is_already_applied(name: str) -> None:
    write = vectors.named_writes()[name]
    row = dict(write.parameters["Item"])

    replayed = write.on_failure(found(row))

    assert isinstance(replayed, AlreadyApplied)
    assert replayed.found == found(row)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_of_another_request_is_a_conflict_and_not_a_replay(name: str) -> None:
    write = vectors.named_writes()[name]
    entry = dict(write.parameters["Item"])
    key = entry["pk"].removeprefix("SETTLEMENT#")

    refusal = write.on_failure(entry | {"request_hash": "another"})

    assert type(refusal) is IdempotencyConflict
    assert str(refusal) == f"key: {key} was claimed by a request with other content"


def test_a_claim_by_another_request_is_left_for_the_idempotency_check() -> None:
    write = forward.claim(SETTLEMENT, "owner", NOW, vectors.CONFIG)
    earlier = states.state(request_hash="another", owner="another")

    replayed = write.on_failure(earlier)

    assert isinstance(replayed, AlreadyApplied)
    assert replayed.found is earlier


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

    write = entries.transfer(SETTLEMENT, Step.HOLD, transfer, NOW)

    assert write.parameters["Item"]["side"] == side
    assert write.parameters["Item"]["gsi1pk"].startswith(partition)
    assert "decision" not in write.parameters["Item"]


def test_an_entry_of_a_transfer_may_carry_evidence_beside_it() -> None:
    transfer = Transfer(debit=vectors.ESCROW, credit="bob", amount=1)
    plain = entries.transfer(SETTLEMENT, Step.HOLD, transfer, NOW).parameters["Item"]

    write = entries.transfer(SETTLEMENT, Step.HOLD, transfer, NOW, {"decision": "retry"})

    assert write.parameters["Item"] == plain | {"decision": "retry"}
