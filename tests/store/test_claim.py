"""The claim: one conditional put, which whoever comes first wins for good."""

import pytest

from settlement import steps
from settlement.errors import IdempotencyConflict
from settlement.request import Request
from settlement.status import Status
from tests.store.saga import CLAIMED, LATER, Saga


def test_a_claim_puts_the_settlement_in_flight_and_nothing_else(saga: Saga) -> None:
    claimed = saga.claim()

    assert saga.ledger.rows() == [CLAIMED]
    assert claimed == CLAIMED


def test_a_key_is_claimed_by_the_first_caller_and_the_second_gets_the_row_that_stands(saga: Saga) -> None:
    saga.claim()

    with saga.writes_nothing():
        assert saga.claim(LATER, "execution-2") == CLAIMED


@pytest.mark.parametrize("status", Status)
def test_a_key_is_never_free_again_whatever_became_of_its_settlement(saga: Saga, status: Status) -> None:
    saga.claim()
    saga.alter(status=status)

    with saga.writes_nothing():
        assert saga.claim(LATER, "execution-2") == CLAIMED | {"status": status.value}


@pytest.mark.parametrize(
    "other",
    [{"amount": 4821}, {"fee": 49}, {"payer": "carol"}, {"payee": "carol"}, {"currency": "USD"}],
    ids=lambda other: next(iter(other)),
)
def test_a_key_is_refused_to_a_request_that_differs_in_any_field(saga: Saga, other: dict[str, str]) -> None:
    saga.claim()
    asked = saga.asking(**other)

    with saga.writes_nothing():
        standing = asked.claim(LATER)

    assert standing == CLAIMED
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
        steps.admitted(request, standing)


def test_two_keys_with_equal_content_are_two_settlements(saga: Saga) -> None:
    saga.claim()

    saga.asking(key="order-2026-000102").claim()

    assert [row["pk"] for row in saga.ledger.rows()] == [
        "SETTLEMENT#order-2026-000101",
        "SETTLEMENT#order-2026-000102",
    ]
