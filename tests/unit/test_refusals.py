"""What the row that stands in the way means, told without an account or an amount."""

import re
from typing import Any

import pytest

from settlement.errors import (
    AccountNotFound,
    CurrencyMismatch,
    DeadlineExceeded,
    IdempotencyConflict,
    StepFenced,
)
from settlement.refusals import (
    account_mismatch,
    account_refusal,
    check_admits,
    fence_refusal,
    other_content,
    standing,
)
from settlement.status import Status, Step
from settlement.steps import check_verifiable
from tests.conftest import NOW
from tests.unit.every_row import AFTER, AT, BEFORE, PREFIXES, settlement_row
from tests.unit.vectors import SETTLEMENT

IN_TURN = {step: set(list(Step)[: list(Step).index(step)]) for step in Step}


@pytest.mark.parametrize("row", [{}, {"status": "SETTLED"}])
def test_whatever_is_there_stands(row: dict[str, Any]) -> None:
    assert standing(row).row == row


def test_where_nothing_is_shown_nothing_stands() -> None:
    assert standing(None).row == {}


@pytest.mark.parametrize("step", [*Step, "reject"])
def test_a_key_that_was_never_claimed_is_fenced(step: str) -> None:
    refusal = fence_refusal(SETTLEMENT, step, None)

    assert type(refusal) is StepFenced
    assert str(refusal) == f"{step}: the key {SETTLEMENT.key} was never claimed"


@pytest.mark.parametrize("step", [*Step, "reject"])
@pytest.mark.parametrize("status", Status)
def test_other_content_comes_before_everything_else(step: str, status: Status) -> None:
    for steps in PREFIXES:
        row = settlement_row(status, steps, AFTER, same_request=False)
        assert type(fence_refusal(SETTLEMENT, step, row)) is IdempotencyConflict


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("status", Status)
def test_only_a_step_in_its_turn_and_in_process_can_have_been_late(step: Step, status: Status) -> None:
    for steps in PREFIXES:
        refusal = fence_refusal(SETTLEMENT, step, settlement_row(status, steps, AFTER))

        late = status is Status.PROCESSING and steps == IN_TURN[step]
        assert type(refusal) is (DeadlineExceeded if late else StepFenced), (status, steps)
        if late:
            assert str(refusal) == f"{step}: the settlement's deadline was {AFTER}"
        else:
            committed = ", ".join(sorted(steps))
            assert str(refusal) == f"{step}: the settlement is {status} with steps [{committed}] committed"


@pytest.mark.parametrize("status", Status)
def test_what_is_no_step_is_never_late(status: Status) -> None:
    for steps in PREFIXES:
        assert type(fence_refusal(SETTLEMENT, "reject", settlement_row(status, steps, AFTER))) is StepFenced


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("status", Status)
def test_what_would_be_refused_is_refused_before_anything_is_done_for_it(step: Step, status: Status) -> None:
    """With the refusal that the write would meet, and the deadline itself is late."""
    for steps in PREFIXES:
        for deadline_at in (BEFORE, AT, AFTER):
            row = settlement_row(status, steps, deadline_at)
            refusal = fence_refusal(SETTLEMENT, step, row)
            in_turn = status is Status.PROCESSING and steps == IN_TURN[step]
            if in_turn and deadline_at == AFTER:
                check_admits(SETTLEMENT, step, row, NOW)
            else:
                with pytest.raises(type(refusal), match=f"^{re.escape(str(refusal))}$"):
                    check_admits(SETTLEMENT, step, row, NOW)


@pytest.mark.parametrize("step", [Step.HOLD, Step.VERIFY, Step.RELEASE])
def test_what_recovery_has_given_up_is_late_whatever_the_callers_clock_says(step: Step) -> None:
    row = settlement_row(Status.PROCESSING, IN_TURN[step], AFTER)
    check_admits(SETTLEMENT, step, row, NOW)

    with pytest.raises(DeadlineExceeded):
        check_admits(SETTLEMENT, step, row | {"given_up_at": AT}, NOW)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (None, StepFenced),
        (settlement_row(Status.PROCESSING, {Step.HOLD}, AFTER, same_request=False), IdempotencyConflict),
    ],
)
def test_nobody_is_asked_about_what_was_never_claimed_or_is_another_request(
    row: dict[str, Any] | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        check_verifiable(SETTLEMENT, row, NOW)


@pytest.mark.parametrize("party", ["payer", "payee"])
@pytest.mark.parametrize(
    ("row", "expected", "message"),
    [
        (None, AccountNotFound, "there is no such account"),
        ({"currency": "USD", "available": 777}, CurrencyMismatch, "the account is kept in USD, not in EUR"),
        ({"currency": "eur"}, CurrencyMismatch, "the account is kept in eur, not in EUR"),
    ],
)
def test_an_account_that_cannot_take_part_is_told_why(
    party: str, row: dict[str, Any] | None, expected: type[Exception], message: str
) -> None:
    for refusal in (account_refusal(party, "EUR", row), account_mismatch(party, "EUR", row)):
        assert type(refusal) is expected
        assert str(refusal) == f"{party}: {message}"


@pytest.mark.parametrize("extra", [{}, {"available": 0}, {"limbo_keys": {"k"}}])
def test_an_account_that_can_take_part_is_not_refused_for_anything_else(extra: dict[str, Any]) -> None:
    assert account_refusal("payer", "EUR", {"currency": "EUR", **extra}) is None


def test_another_request_is_told_of_by_the_key_alone() -> None:
    refusal = other_content(SETTLEMENT)

    assert type(refusal) is IdempotencyConflict
    assert str(refusal) == f"key: {SETTLEMENT.key} was claimed by a request with other content"
