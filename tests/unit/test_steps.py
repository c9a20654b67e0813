"""The steps: all that goes into escrow comes out of it, and a key stands for one request."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.ledger import keys
from settlement.ledger.transaction import StepTransaction
from settlement.model import accounts
from settlement.model.errors import IdempotencyConflict
from settlement.model.request import Request
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.state import SettlementState
from settlement.model.status import Status
from settlement.model.timestamps import timestamp
from settlement.policy import outcome, steps
from tests.conftest import NOW
from tests.unit import states
from tests.unit.table import applied
from tests.unit.vectors import SETTLEMENT, VERDICT

REQUEST = Request(
    key=SETTLEMENT.key,
    payer="alice",
    payee="bob",
    amount=4820,
    currency="EUR",
    fee=None,
    deadline_seconds=None,
)


def transactions(settlement: Settlement, config: StageConfig) -> list[StepTransaction]:
    return [
        steps.hold(settlement, NOW),
        steps.verify(settlement, VERDICT, NOW),
        steps.release(settlement, config, NOW),
        steps.fee(settlement, NOW),
    ]


def escrow_change(transaction: StepTransaction) -> int:
    """Return the change of the escrow by the transaction."""
    assert transaction.settlement is not None
    after: int = applied(transaction.settlement, {"escrow": 0})["escrow"]
    return after


# The money


@given(amount=st.integers(1, 10**15 - 1), data=st.data())
def test_all_that_goes_into_escrow_comes_out_of_it(
    amount: int, data: st.DataObject, config: StageConfig
) -> None:
    fee = data.draw(st.integers(0, amount - 1))
    settlement = replace(SETTLEMENT, amount=amount, fee=fee)

    balances = {"alice": 0, "bob": 0, "fees:EUR": 0, accounts.escrow(settlement.key): 0}
    escrow = 0
    for transaction in transactions(settlement, config):
        entry = transaction.entry.parameters["Item"]
        escrow += escrow_change(transaction)
        if "amount" in entry:
            assert entry["amount"] >= 0
            balances[entry["debit"]] -= entry["amount"]
            balances[entry["credit"]] += entry["amount"]
        assert escrow == balances[accounts.escrow(settlement.key)] >= 0

    assert balances == {
        "alice": -amount,
        "bob": amount - fee,
        "fees:EUR": fee,
        accounts.escrow(settlement.key): 0,
    }


def test_a_balance_moves_by_the_amount_of_its_entry(settlement: Settlement, config: StageConfig) -> None:
    hold, verify, release, fee = transactions(settlement, config)
    assert hold.balance is not None
    assert release.balance is not None

    for transaction, account, update in (
        (hold, "alice", "SET available = available - :amount"),
        (release, "bob", "SET available = available + :net"),
    ):
        assert transaction.balance is not None
        parameters = transaction.balance.parameters
        assert parameters["Key"] == keys.account(account)
        assert parameters["UpdateExpression"] == update
        moved = parameters["ExpressionAttributeValues"][update.rpartition(" ")[2]]
        assert moved == transaction.entry.parameters["Item"]["amount"]
    assert verify.balance is None
    assert fee.balance is None


@pytest.mark.parametrize(("currency", "cap"), [("EUR", 100_000_000), ("JPY", None)])
def test_a_release_keeps_to_the_cap_of_its_currency(
    currency: str, cap: int | None, settlement: Settlement, config: StageConfig
) -> None:
    release = steps.release(replace(settlement, currency=currency), config, NOW)

    assert release.balance is not None
    bound = release.balance.parameters["ExpressionAttributeValues"].get(":highest_before")
    assert bound == (None if cap is None else cap - settlement.net)


# The idempotency check


def test_a_request_without_a_fee_takes_the_stages(config: StageConfig) -> None:
    assert steps.settlement_for(REQUEST, config).fee == 48
    assert steps.settlement_for(replace(REQUEST, fee=0), config).fee == 0
    assert steps.settlement_for(replace(REQUEST, fee=7), config).fee == 7


def test_the_request_that_claimed_the_key_is_the_same(settlement: Settlement) -> None:
    claimed = states.state(settlement)

    assert steps.verify_same_request(replace(REQUEST, fee=48), claimed) == settlement
    assert steps.verify_same_request(REQUEST, claimed) == settlement


def test_a_new_fee_schedule_does_not_make_a_retry_a_conflict(settlement: Settlement) -> None:
    earlier = replace(settlement, fee=24)

    assert steps.verify_same_request(REQUEST, states.state(earlier)) == earlier


@pytest.mark.parametrize(
    "changes",
    [
        {"payer": "carol"},
        {"payee": "carol"},
        {"amount": 4821},
        {"amount": 1},
        {"currency": "USD"},
        {"fee": 47},
        {"fee": 0},
    ],
    ids=str,
)
def test_a_request_with_other_content_is_a_conflict(changes: dict[str, Any], settlement: Settlement) -> None:
    with pytest.raises(IdempotencyConflict, match=f"^key: {settlement.key} was claimed"):
        steps.verify_same_request(replace(REQUEST, **changes), states.state(settlement))


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("owner", ["me", "me-too", ""])
def test_only_the_owner_of_a_processing_settlement_runs_it(status: Status, owner: str) -> None:
    claimed = states.state(status=status, owner=owner)

    assert steps.is_replay(claimed, "me") == (status is not Status.PROCESSING or owner != "me")


# The end


def test_the_outcome_of_the_fee_is_the_one_of_the_row_after_its_transaction(config: StageConfig) -> None:
    later = NOW + timedelta(seconds=7)
    row = states.row(steps={"hold", "verify", "release"}, escrow=SETTLEMENT.fee)
    transaction = steps.fee(SETTLEMENT, later)

    told = outcome.of_settled(
        SETTLEMENT,
        config,
        claimed_at=row["claimed_at"],
        finished_at=transaction.entry.parameters["Item"]["posted_at"],
    )

    settled = SettlementState.from_row(applied(transaction.settlement, row))
    assert told == outcome.of_state(settled, config, replayed=False)
    assert (told["status"], told["escrow"]) == ("SETTLED", "0.00")
    assert told["finished_at"] == timestamp(later)
