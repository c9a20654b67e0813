"""The reasons for which a reversal gets stuck: the payee, the payer, the escrow."""

import pytest

from settlement.ledger import keys
from settlement.model.errors import (
    AccountNotFound,
    CurrencyMismatch,
    EscrowMismatch,
    IdempotencyConflict,
    InsufficientFunds,
    StepFenced,
)
from settlement.model.status import REVERSIBLE, Status, Step
from tests.store.reversal import REVERSED
from tests.store.saga import CAP, LATER, RETRY, WRITE_OFF, Saga

MISMATCH = "^compensate:hold: the escrow holds something else than was held$"
PARTY = {Step.RELEASE: ("payee", "bob"), Step.HOLD: ("payer", "alice")}
"""The party and the account that a reversal moves, by its step."""


def close(saga: Saga, account: str) -> None:
    key = {name: {"S": text} for name, text in keys.account(account).items()}
    saga.ledger.client.delete_item(TableName=saga.ledger.table_name, Key=key)


def begun(saga: Saga, step: Step) -> None:
    """Reverse a settled settlement up to the reversal of `step`, which is next."""
    saga.begun(Step.FEE)
    for earlier in REVERSIBLE[: REVERSIBLE.index(step)]:
        saga.reverse(earlier)


# The payee


@pytest.mark.parametrize("left", [4771, 1, 0])
def test_an_amount_that_the_payee_has_spent_is_not_reclaimed(saga: Saga, left: int) -> None:
    begun(saga, Step.RELEASE)
    saga.spent(5272 - left).commit(Step.HOLD)

    with saga.writes_nothing(), pytest.raises(InsufficientFunds, match=r"^payee: the account has too little"):
        saga.reverse(Step.RELEASE)


def test_the_payee_may_give_back_the_last_minor_unit(saga: Saga) -> None:
    begun(saga, Step.RELEASE)
    saga.spent(500).commit(Step.HOLD)

    assert saga.reverse(Step.RELEASE) == REVERSED[Step.RELEASE]

    assert saga.books()[1]["available"] == 0


def test_a_spent_amount_is_reclaimed_once_it_is_there_again(saga: Saga) -> None:
    begun(saga, Step.RELEASE)
    spent = saga.spent(5272)
    spent.commit(Step.HOLD)
    with pytest.raises(InsufficientFunds):
        saga.reverse(Step.RELEASE)
    spent.begin()
    spent.reverse(Step.HOLD)

    assert saga.reverse(Step.RELEASE) == REVERSED[Step.RELEASE]

    assert saga.books()[1]["available"] == 500


# Either party


@pytest.mark.parametrize("step", PARTY)
def test_no_money_is_moved_from_or_to_an_account_that_is_gone(saga: Saga, step: Step) -> None:
    begun(saga, step)
    party, account = PARTY[step]
    close(saga, account)

    with (
        saga.writes_nothing(),
        pytest.raises(AccountNotFound, match=f"^{party}: there is no such account$"),
    ):
        saga.reverse(step)


@pytest.mark.parametrize("available", [100_000, 0])
@pytest.mark.parametrize("step", PARTY)
def test_no_money_is_moved_from_or_to_an_account_in_another_currency(
    saga: Saga, step: Step, available: int
) -> None:
    begun(saga, step)
    party, account = PARTY[step]
    saga.ledger.open(account, available, "USD")

    with (
        saga.writes_nothing(),
        pytest.raises(CurrencyMismatch, match=f"^{party}: the account is kept in USD, not in EUR$"),
    ):
        saga.reverse(step)


@pytest.mark.parametrize(("step", "other"), [(Step.RELEASE, "alice"), (Step.HOLD, "bob"), (Step.FEE, "bob")])
def test_a_reversal_needs_no_account_but_the_one_that_it_moves(saga: Saga, step: Step, other: str) -> None:
    begun(saga, step)
    close(saga, other)

    assert saga.reverse(step) == REVERSED[step]


@pytest.mark.parametrize("step", PARTY)
def test_a_reversal_continues_though_another_settlement_blocks_its_account(saga: Saga, step: Step) -> None:
    begun(saga, step)
    _, account = PARTY[step]
    row = saga.ledger.row(keys.account(account))
    assert row is not None
    saga.ledger.put(row | {"limbo_keys": {"order-2026-000099"}})

    assert saga.reverse(step) == REVERSED[step]

    after = saga.ledger.row(keys.account(account))
    assert after == row | {
        "available": {Step.RELEASE: 500, Step.HOLD: 10_000}[step],
        "limbo_keys": {"order-2026-000099"},
    }


@pytest.mark.parametrize("available", [CAP - 4819, CAP, CAP + 1])
def test_the_payer_is_refunded_whatever_the_cap(saga: Saga, available: int) -> None:
    begun(saga, Step.HOLD)
    saga.ledger.open("alice", available)

    saga.reverse(Step.HOLD)

    found = saga.ledger.row(keys.account("alice"))
    assert found is not None
    assert found["available"] == available + 4820


# The escrow and the settlement's row


@pytest.mark.parametrize(
    ("last", "first"),
    [(Step.FEE, []), (Step.FEE, [Step.FEE]), (Step.FEE, [Step.RELEASE]), (Step.RELEASE, [])],
)
def test_the_hold_is_not_voided_before_every_other_reversal(
    saga: Saga, last: Step, first: list[Step]
) -> None:
    saga.begun(last)
    for step in first:
        saga.reverse(step)

    with saga.writes_nothing(), pytest.raises(EscrowMismatch, match=MISMATCH):
        saga.reverse(Step.HOLD)


@pytest.mark.parametrize("escrow", [0, 48, 4819, 4821])
def test_the_hold_is_voided_only_out_of_an_escrow_of_exactly_its_amount(saga: Saga, escrow: int) -> None:
    begun(saga, Step.HOLD)
    saga.alter(escrow=escrow)

    with saga.writes_nothing(), pytest.raises(EscrowMismatch, match=MISMATCH):
        saga.reverse(Step.HOLD)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.COMPENSATING])
def test_a_reversal_in_another_status_is_fenced_whatever_the_escrow_holds(saga: Saga, status: Status) -> None:
    """An escrow mismatches only while the settlement is being reversed: a finished one is empty."""
    begun(saga, Step.HOLD)
    saga.alter(status=status, escrow=0)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=f"^compensate:hold: .* is {status} with "):
        saga.reverse(Step.HOLD)


@pytest.mark.parametrize("escrow", [0, 4820])
def test_other_content_is_a_conflict_whatever_the_escrow_holds(saga: Saga, escrow: int) -> None:
    begun(saga, Step.HOLD)
    saga.alter(escrow=escrow)

    with saga.writes_nothing(), pytest.raises(IdempotencyConflict, match="other content"):
        saga.asking(payer="carol").reverse(Step.HOLD)


def test_an_escrow_mismatch_leads_into_limbo_and_a_retry_finds_the_escrow_corrected(
    saga: Saga,
) -> None:
    begun(saga, Step.HOLD)
    saga.alter(escrow=4819)
    with pytest.raises(EscrowMismatch):
        saga.reverse(Step.HOLD)
    saga.enter(failure={"step": "compensate:hold", "error": "EscrowMismatch", "cause": "it holds less"})
    saga.alter(escrow=4820)
    saga.resolve(RETRY)

    saga.reverse(Step.HOLD)

    assert (saga.row()["status"], saga.row()["escrow"]) == ("COMPENSATED", 0)
    assert [row["available"] for row in saga.books()[:2]] == [10_000, 500]


@pytest.mark.parametrize("escrow", [0, 4820])
@pytest.mark.parametrize("step", REVERSIBLE)
def test_no_step_is_reversed_that_the_row_does_not_have(saga: Saga, step: Step, escrow: int) -> None:
    """A caller that believes a step committed is corrected by the row."""
    saga.begun(None)
    saga.alter(escrow=escrow)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r" with steps \[\] committed and \[\] "):
        saga.reverse(step, LATER, tuple(Step))


@pytest.mark.parametrize("last", [Step.HOLD, Step.VERIFY, Step.RELEASE, Step.FEE])
def test_a_held_settlement_is_not_finished_as_unheld(saga: Saga, last: Step) -> None:
    saga.begun(last)

    with (
        saga.writes_nothing(),
        pytest.raises(StepFenced, match=r"^compensate:hold: .*\[.*hold.*\] committed"),
    ):
        saga.reverse(Step.HOLD, LATER, ())


@pytest.mark.parametrize("escrow", [0, 4820])
@pytest.mark.parametrize("step", REVERSIBLE)
def test_a_reversed_step_is_never_reversed_again_even_if_its_entry_is_lost(
    saga: Saga, step: Step, escrow: int
) -> None:
    begun(saga, step)
    saga.reverse(step)
    saga.alter(status=Status.COMPENSATING, escrow=escrow)
    key = {name: {"S": text} for name, text in keys.entry(saga.settlement.key, step.reversal).items()}
    saga.ledger.client.delete_item(TableName=saga.ledger.table_name, Key=key)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=r" and \[.*\] reversed$"):
        saga.reverse(step)


@pytest.mark.parametrize("step", [Step.FEE, Step.RELEASE])
def test_a_step_that_a_write_off_has_covered_is_not_reversed_on_top_of_it(saga: Saga, step: Step) -> None:
    saga.stuck(step)
    saga.resolve(WRITE_OFF)

    with saga.writes_nothing(), pytest.raises(StepFenced, match=rf" and \[.*{step}.*\] reversed$"):
        saga.reverse(step)


def test_the_settlement_is_named_before_the_balance_when_both_refuse(saga: Saga) -> None:
    begun(saga, Step.RELEASE)
    saga.ledger.open("bob", 0)
    saga.alter(status=Status.LIMBO)

    with saga.writes_nothing(), pytest.raises(StepFenced):
        saga.reverse(Step.RELEASE)
