"""Failure reasons: the meaning of a failed condition, told without an account or an amount."""

import re
from typing import Any

import pytest

from settlement.ledger.failure_reasons import account_refusal, ensure_admits, fenced, reversal_refusal
from settlement.ledger.keys import Row
from settlement.ledger.transaction import AlreadyApplied
from settlement.model.errors import (
    AccountNotFound,
    CurrencyMismatch,
    DeadlineExceeded,
    EscrowMismatch,
    IdempotencyConflict,
    SettlementError,
    StepFenced,
)
from settlement.model.state import AccountState, SettlementState
from settlement.model.status import Status, Step
from settlement.policy.steps import ensure_can_verify
from tests.conftest import NOW
from tests.unit import states
from tests.unit.every_row import AFTER, AT, BEFORE, PREFIXES, settlement_row
from tests.unit.vectors import SETTLEMENT

IN_TURN = {step: set(list(Step)[: list(Step).index(step)]) for step in Step}


def state(*arguments: Any, **changes: Any) -> SettlementState:
    return SettlementState.from_row(settlement_row(*arguments, **changes))


# The settlement's row


@pytest.mark.parametrize("status", Status)
def test_a_write_is_already_applied_if_the_state_says_so(status: Status) -> None:
    found = state(status, set(), AFTER)

    replayed = fenced(SETTLEMENT, "reject", replay_if=lambda state: state.status is Status.REJECTED)(found)

    assert isinstance(replayed, AlreadyApplied) == (status is Status.REJECTED)
    if isinstance(replayed, AlreadyApplied):
        assert replayed.found is found


def test_no_row_and_other_content_are_never_already_applied() -> None:
    meaning = fenced(SETTLEMENT, "reject", replay_if=lambda state: True)

    assert type(meaning(None)) is StepFenced
    assert type(meaning(state(Status.REJECTED, set(), AFTER, same_request=False))) is IdempotencyConflict


def test_any_other_state_is_explained_by_its_write() -> None:
    def explain(step: str, state: SettlementState) -> SettlementError:
        return EscrowMismatch(f"{step} of {state.status}")

    refusal = fenced(SETTLEMENT, "reject", explain=explain)(state(Status.SETTLED, set(), AFTER))

    assert type(refusal) is EscrowMismatch
    assert refusal.step == "reject of SETTLED"


@pytest.mark.parametrize("step", [*Step, "reject"])
def test_a_step_of_an_unclaimed_key_is_fenced(step: str) -> None:
    refusal = fenced(SETTLEMENT, step)(None)

    assert type(refusal) is StepFenced
    assert str(refusal) == f"{step}: the key {SETTLEMENT.key} was never claimed"
    assert (refusal.step, refusal.status) == (step, None)


@pytest.mark.parametrize("step", [*Step, "reject"])
@pytest.mark.parametrize("status", Status)
def test_other_content_comes_before_everything_else(step: str, status: Status) -> None:
    for steps in PREFIXES:
        refusal = fenced(SETTLEMENT, step)(state(status, steps, AFTER, same_request=False))

        assert type(refusal) is IdempotencyConflict
        assert str(refusal) == f"key: {SETTLEMENT.key} was claimed by a request with other content"


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("status", Status)
def test_only_the_next_step_of_a_processing_settlement_can_be_late(step: Step, status: Status) -> None:
    for steps in PREFIXES:
        refusal = fenced(SETTLEMENT, step)(state(status, steps, AFTER))

        late = status is Status.PROCESSING and steps == IN_TURN[step]
        assert type(refusal) is (DeadlineExceeded if late else StepFenced), (status, steps)
        if late:
            assert str(refusal) == f"{step}: the settlement's deadline was {AFTER}"
        else:
            committed = ", ".join(sorted(steps))
            assert str(refusal) == f"{step}: the settlement is {status} with steps [{committed}] committed"


def test_a_verification_that_is_decided_is_not_late() -> None:
    """A rejection is a verdict, but commits no step."""
    found = state(Status.PROCESSING, {Step.HOLD}, BEFORE, verdict="REJECTED")

    assert type(fenced(SETTLEMENT, Step.VERIFY)(found)) is StepFenced


@pytest.mark.parametrize("status", Status)
def test_a_rejection_is_never_late(status: Status) -> None:
    for steps in PREFIXES:
        assert type(fenced(SETTLEMENT, "reject")(state(status, steps, AFTER))) is StepFenced


def test_a_reversal_that_is_refused_tells_what_is_committed_and_reversed() -> None:
    found = state(Status.COMPENSATED, set(Step), AFTER, reversed={"release", "hold", "fee"})

    refusal = reversal_refusal("compensate:fee", found)

    assert type(refusal) is StepFenced
    assert str(refusal) == (
        "compensate:fee: the settlement is COMPENSATED with steps [fee, hold, release, verify] committed"
        " and [fee, hold, release] reversed"
    )


# Before the write


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("status", Status)
def test_a_step_is_refused_in_advance_as_its_write_would_be(step: Step, status: Status) -> None:
    """With the very refusal of the write; at the deadline itself it is late."""
    for steps in PREFIXES:
        for deadline_at in (BEFORE, AT, AFTER):
            found = state(status, steps, deadline_at)
            refusal = fenced(SETTLEMENT, step)(found)
            in_turn = status is Status.PROCESSING and steps == IN_TURN[step]
            if in_turn and deadline_at == AFTER:
                ensure_admits(SETTLEMENT, step, found, NOW)
            else:
                with pytest.raises(type(refusal), match=f"^{re.escape(str(refusal))}$"):
                    ensure_admits(SETTLEMENT, step, found, NOW)


@pytest.mark.parametrize("step", [Step.HOLD, Step.VERIFY, Step.RELEASE])
def test_an_expired_settlement_is_late_even_for_a_caller_whose_clock_lags(step: Step) -> None:
    ensure_admits(SETTLEMENT, step, state(Status.PROCESSING, IN_TURN[step], AFTER), NOW)

    with pytest.raises(DeadlineExceeded):
        ensure_admits(SETTLEMENT, step, state(Status.PROCESSING, IN_TURN[step], AFTER, expired_at=AT), NOW)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (None, StepFenced),
        (settlement_row(Status.PROCESSING, {Step.HOLD}, AFTER, same_request=False), IdempotencyConflict),
    ],
    ids=["unclaimed", "other content"],
)
def test_the_provider_is_not_asked_about_an_unclaimed_key_or_another_request(
    row: Row | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        ensure_can_verify(SETTLEMENT, states.found(row), NOW)


# An account's row


@pytest.mark.parametrize("party", ["payer", "payee"])
@pytest.mark.parametrize(
    ("currency", "expected", "message"),
    [
        (None, AccountNotFound, "there is no such account"),
        ("USD", CurrencyMismatch, "the account is kept in USD, not in EUR"),
        ("eur", CurrencyMismatch, "the account is kept in eur, not in EUR"),
    ],
)
def test_an_account_that_cannot_take_part_is_told_why(
    party: str, currency: str | None, expected: type[Exception], message: str
) -> None:
    found = AccountState(account="alice", available=777, currency=currency) if currency else None

    refusal = account_refusal(party, "EUR", found)

    assert type(refusal) is expected
    assert str(refusal) == f"{party}: {message}"


@pytest.mark.parametrize(("available", "limbo_keys"), [(1, set()), (0, set()), (1, {"k"})])
def test_an_account_of_the_currency_is_not_refused_for_anything_else(
    available: int, limbo_keys: set[str]
) -> None:
    found = AccountState(
        account="alice", available=available, currency="EUR", limbo_keys=frozenset(limbo_keys)
    )

    assert account_refusal("payer", "EUR", found) is None
