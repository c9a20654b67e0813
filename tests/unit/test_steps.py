from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from settlement.core.model import accounts
from settlement.core.model.errors import IdempotencyConflict
from settlement.core.model.request import Request
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import outcome, steps
from tests.unit import books, states
from tests.unit.books import SETTLEMENTS, entries, moved
from tests.unit.conditions import applied
from tests.unit.vectors import CONFIG, SETTLEMENT, slots
from tests.world.saga import LATER

REQUEST = Request(
    key=SETTLEMENT.key,
    payer="alice",
    payee="bob",
    amount=4820,
    currency="EUR",
    fee=None,
    deadline_seconds=None,
)

# The money


@given(settlement=SETTLEMENTS)
def test_the_escrow_is_empty_after_a_settled_payment(settlement: Settlement) -> None:
    amount, fee, net = settlement.amount, settlement.fee, settlement.net
    saga, escrow = books.fresh(settlement), accounts.escrow(settlement.key)
    saga.fund()
    saga.claim()
    expected = {
        Step.HOLD: ({"alice": -amount}, amount, ("alice", escrow, amount)),
        Step.VERIFY: ({"alice": -amount}, amount, (None, None, None)),
        Step.RELEASE: ({"alice": -amount, "bob": net}, fee, (escrow, "bob", net)),
        Step.FEE: ({"alice": -amount, "bob": net, "fees:EUR": fee}, 0, (escrow, "fees:EUR", fee)),
    }

    for step, (changes, held, posted) in expected.items():
        saga.commit(step)
        assert moved(saga) == {account: change for account, change in changes.items() if change}
        assert saga.state().escrow == held
        entry = entries(saga)[step]
        assert (entry.get("debit"), entry.get("credit"), entry.get("amount")) == posted

    assert saga.state().status is Status.SETTLED


# The idempotency check


@pytest.mark.parametrize(("named", "fee"), [(None, 48), (0, 0), (7, 7)])
def test_a_request_without_a_fee_gets_the_stages_fee(named: int | None, fee: int) -> None:
    assert steps.settlement_for(replace(REQUEST, fee=named), CONFIG).fee == fee


@pytest.mark.parametrize(("named", "claimed"), [(48, 48), (None, 48), (None, 24)])
def test_a_retry_stays_the_same_request_after_a_fee_change(named: int | None, claimed: int) -> None:
    settlement = replace(SETTLEMENT, fee=claimed)

    assert steps.verify_same_request(replace(REQUEST, fee=named), states.state(settlement)) == settlement


@pytest.mark.parametrize(
    "changes",
    [{"payer": "carol"}, {"payee": "carol"}, {"amount": 4821}, {"currency": "USD"}, {"fee": 47}, {"fee": 0}],
    ids=str,
)
def test_a_request_with_other_content_is_a_conflict(changes: dict[str, Any]) -> None:
    with pytest.raises(IdempotencyConflict, match=f"^key: {SETTLEMENT.key} was claimed"):
        steps.verify_same_request(replace(REQUEST, **changes), states.state())


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("owner", ["me", "me-too", ""])
def test_only_the_owner_of_a_processing_settlement_gets_no_replay(status: Status, owner: str) -> None:
    claimed = states.state(status=status, owner=owner)

    assert steps.is_replay(claimed, "me") == (status is not Status.PROCESSING or owner != "me")


# The end


def test_the_outcome_after_the_fee_equals_the_rows_outcome(config: StageConfig) -> None:
    row = states.row(**slots(("hold", "verify", "release")), escrow=SETTLEMENT.fee)
    transaction = steps.fee(SETTLEMENT, LATER)
    finished_at = timestamp(LATER)

    told = outcome.of_settled(SETTLEMENT, config, claimed_at=row["claimed_at"], finished_at=finished_at)

    settled = SettlementState.from_row(applied(transaction.settlement, row))
    assert told == outcome.of_state(settled, config, replayed=False)
    assert (told["status"], told["escrow"], told["finished_at"]) == ("SETTLED", "0.00", finished_at)
