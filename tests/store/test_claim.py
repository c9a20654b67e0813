"""The claim: one conditional put, which the first caller wins for good."""

import pytest

from settlement.model.errors import IdempotencyConflict
from settlement.model.request import Request
from settlement.model.status import Status
from settlement.policy import steps
from tests.store.saga import CLAIMED, LATER, Saga, state_of


def test_a_claim_puts_the_settlement_in_flight_and_nothing_else(saga: Saga) -> None:
    claimed = saga.claim()

    assert saga.ledger.rows() == [CLAIMED]
    assert claimed == state_of(CLAIMED)


def test_a_key_is_claimed_by_the_first_caller_and_the_second_gets_the_row_of_the_first(saga: Saga) -> None:
    saga.claim()

    with saga.writes_nothing():
        assert saga.claim(LATER, "execution-2") == state_of(CLAIMED)


@pytest.mark.parametrize("status", Status)
def test_a_key_is_never_free_again_in_any_status_of_its_settlement(saga: Saga, status: Status) -> None:
    saga.claim()
    saga.alter(status=status)

    with saga.writes_nothing():
        assert saga.claim(LATER, "execution-2") == state_of(CLAIMED | {"status": status.value})


@pytest.mark.parametrize(
    "other",
    [{"amount": 4821}, {"fee": 49}, {"payer": "carol"}, {"payee": "carol"}, {"currency": "USD"}],
    ids=lambda other: next(iter(other)),
)
def test_a_key_is_refused_to_a_request_that_differs_in_any_field(saga: Saga, other: dict[str, str]) -> None:
    saga.claim()
    asked = saga.asking(**other)

    with saga.writes_nothing():
        found = asked.claim(LATER)

    assert found == state_of(CLAIMED)
    content = asked.settlement
    request = Request(
        key=content.key,
        payer=content.payer,
        payee=content.payee,
        amount=content.amount,
        currency=content.currency,
        fee=content.fee,
        deadline_seconds=None,
    )
    with pytest.raises(IdempotencyConflict, match="order-2026-000101"):
        steps.verify_same_request(request, found)


def test_two_keys_with_equal_content_are_two_settlements(saga: Saga) -> None:
    saga.claim()

    saga.asking(key="order-2026-000102").claim()

    assert [row["pk"] for row in saga.ledger.rows()] == [
        "SETTLEMENT#order-2026-000101",
        "SETTLEMENT#order-2026-000102",
    ]
