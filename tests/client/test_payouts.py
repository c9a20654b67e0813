import re
from decimal import Decimal
from typing import Any

import boto3
import pytest

from settlement.payouts import told
from settlement.payouts.payout import Status
from settlement_client import (
    Action,
    Client,
    IdempotencyConflict,
    InvalidRequest,
    MalformedAnswer,
    NotFound,
    Payout,
    PayoutOutcome,
    PayoutRefused,
    PayoutStatus,
    Refused,
    SettlementClientError,
    Unavailable,
    Unknown,
)
from tests.client.conftest import DOWN, Api, Clock, Said
from tests.unit.payouts.rows import STATES
from tests.unit.vectors import CONFIG

KEY = "payout-2026-000101"
WIRE: dict[str, Any] = {
    "key": KEY,
    "account": "alice",
    "amount": "48.20",
    "currency": "EUR",
    "destination": "landlord",
}
PAYOUT = Payout(**WIRE)
DOCUMENTS = {status: told.of_state(state, CONFIG) for status, state in STATES.items()}
RESERVED = DOCUMENTS[Status.RESERVED]
THROTTLED: Said = (429, {"message": "Too Many Requests"}, None)


def refused(status: int, error: str) -> Said:
    return status, {"error": error, "message": "as it is"}, None


@pytest.mark.parametrize("status", [200, 202])
def test_a_payout_is_started_with_the_key_in_its_body(api: Api, client: Client, status: int) -> None:
    api.answers = [(status, RESERVED, '"1"')]

    found = client.pay_out(PAYOUT)

    assert (found.key, found.status, found.amount) == (KEY, PayoutStatus.RESERVED, Decimal("48.20"))
    assert (api.asked, api.posted) == ([{"path": "/payouts"}], [(WIRE, None)])


def test_lost_answers_repeat_the_same_payout(api: Api, client: Client, clock: Clock) -> None:
    api.answers = [DOWN, THROTTLED, (200, RESERVED, '"1"')]

    assert client.pay_out(PAYOUT).status is PayoutStatus.RESERVED

    assert api.posted == [(WIRE, None)] * 3
    assert len(clock.slept) == 2


@pytest.mark.parametrize(
    "answer",
    [
        DOWN,
        (200, b"<html>", None),
        (200, RESERVED | {"key": "payout-2026-000999"}, None),
        (200, RESERVED | {"status": "FINE"}, None),
        (200, RESERVED | {"next": {"action": "new_key", "reason": "r"}}, None),
    ],
)
def test_an_unusable_answer_to_a_payout_raises_unknown(api: Api, client: Client, answer: Said) -> None:
    api.answers = [answer]

    with pytest.raises(Unknown, match="Send the same request again"):
        client.pay_out(PAYOUT, seconds=0)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused(400, "InvalidRequest"), InvalidRequest),
        (refused(409, "IdempotencyConflict"), IdempotencyConflict),
        *((refused(422, name), PayoutRefused) for name in ("PayoutRefused", "DestinationRefused")),
        *((refused(422, name), PayoutRefused) for name in ("InsufficientFunds", "AccountFrozen")),
        (refused(404, "AccountNotFound"), PayoutRefused),
    ],
)
def test_a_refused_payout_raises_the_error_of_its_refusal(
    api: Api, client: Client, answer: Said, error: type[Exception]
) -> None:
    api.answers = [answer]

    with pytest.raises(Refused, match=re.escape(KEY)) as raised:
        client.pay_out(PAYOUT)

    assert type(raised.value) is error
    assert len(api.posted) == 1


@pytest.mark.parametrize("status", DOCUMENTS)
def test_each_state_of_a_payout_is_read(api: Api, client: Client, status: str) -> None:
    api.answers = [(200, DOCUMENTS[Status(status)], '"1"')]

    found = client.payout(KEY)

    assert found.status == status
    assert found.is_paid == (status in ("PAID", "CONFIRMED"))
    assert (found.next.action is Action.NEW_KEY) == (status in ("REFUSED", "RETURNED"))
    assert (found.trouble is not None) == (status == "LIMBO")
    assert api.asked == [{"path": f"/payouts/{KEY}"}]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused(404, "PayoutNotFound"), NotFound),
        ((404, {"message": "Not Found"}, None), SettlementClientError),
        (DOWN, Unavailable),
        ((200, RESERVED | {"key": "payout-2026-000999"}, None), MalformedAnswer),
    ],
)
def test_an_unreadable_payout_raises_the_error_of_its_answer(
    api: Api, client: Client, answer: Said, error: type[Exception]
) -> None:
    api.answers = [answer]

    with pytest.raises(error) as raised:
        client.payout(KEY)

    assert type(raised.value) is error


def test_a_malformed_payout_key_is_refused_before_any_call(api: Api, client: Client) -> None:
    with pytest.raises(InvalidRequest, match="key: "):
        client.payout("../settlements")

    assert api.asked == []


def test_a_payout_without_any_answer_raises_unknown(session: boto3.Session) -> None:
    alone = Client(api_url="http://127.0.0.1:1", session=session)

    with pytest.raises(Unknown):
        alone.pay_out(PAYOUT, seconds=0)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"key": "short"}, "key"),
        ({"account": "a/b"}, "account"),
        ({"amount": 48.2}, "amount"),
        ({"amount": "0.00"}, "amount"),
        ({"currency": "eur"}, "currency"),
        ({"destination": "flat 9"}, "destination"),
    ],
)
def test_the_error_about_a_malformed_payout_names_its_field(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{named}: "):
        Payout(**WIRE | changed)


def test_a_decimal_amount_is_sent_without_an_exponent() -> None:
    assert '"amount": "4820"' in Payout(**WIRE | {"amount": Decimal("4.82E3")}).to_json()


@pytest.mark.parametrize("missing", ["status", "next", "reserved_at", "attempts"])
def test_a_payout_answer_without_a_required_field_is_malformed(missing: str) -> None:
    document = {name: value for name, value in RESERVED.items() if name != missing}

    with pytest.raises(MalformedAnswer, match=f"payout.{missing}: missing"):
        PayoutOutcome.from_json(document)
