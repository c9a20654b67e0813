from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from settle.door import embedded_url
from settle.permissions.people import Kind
from settlement_client import (
    Client,
    NotCancellable,
    NotFound,
    Request,
    SequenceChanged,
    SettlementClientError,
)
from tests.e2e.embedded import Embedded, at_once, new_key
from tests.e2e.people import Person, of_kind
from tests.e2e.provider import Payment, in_review, payment
from tests.e2e.test_starters import starter

pytestmark = pytest.mark.long


def client(embedded: Embedded, who: Person) -> Client:
    address = embedded_url(embedded.stack.outputs["SettlementsApiUrl"], str(embedded.stack.endpoint_url))
    return Client(api_url=address, session=who.session)


def request_of(one: Payment) -> Request:
    fields: dict[str, Any] = dict(one.request)
    return Request(**fields)


@pytest.fixture
def shop(embedded: Embedded) -> Iterator[Client]:
    with starter(embedded) as who:
        yield client(embedded, who)


def test_a_payment_in_review_is_cancelled_once_and_fully_reversed(embedded: Embedded, shop: Client) -> None:
    one = in_review(embedded)
    request, seen = request_of(one), embedded.settlement(one.key)["sequence"]

    with pytest.raises(SequenceChanged):
        shop.cancel(request, seen - 1)
    answers = at_once([lambda: shop.cancel(request, seen)] * 4)

    assert {answer.outcome.key for answer in answers} == {one.key}
    embedded.wait_for(lambda: embedded.settlement(one.key)["status"] == "COMPENSATED")
    again = shop.cancel(request, seen)
    assert again.outcome.status == "COMPENSATED"
    assert again.outcome.failure
    assert again.outcome.failure.error == "Cancelled"
    assert embedded.entries(one.key) == ["compensate:hold", "hold"]
    assert embedded.available(request.payer) == "100.00"


def test_settled_payments_and_unclaimed_keys_cannot_be_cancelled(embedded: Embedded, shop: Client) -> None:
    one = payment(embedded, "approve")
    assert one.start()["status"] == "SETTLED"

    with embedded.writes_nothing():
        with pytest.raises(NotCancellable, match="a person's order reverses what has not been given back"):
            shop.cancel(request_of(one))
        with pytest.raises(NotFound):
            shop.cancel(replace(request_of(one), key=new_key("never")))


def test_an_approver_cannot_cancel_by_the_starters_route(embedded: Embedded) -> None:
    one = in_review(embedded)

    with of_kind(embedded, Kind.APPROVER) as pete, pytest.raises(SettlementClientError, match="403"):
        client(embedded, pete).cancel(request_of(one))

    assert embedded.settlement(one.key)["status"] == "PROCESSING"
