"""Tests reading, waiting and cancelling in cases that the conformance cases lack."""

import re

import boto3
import pytest

from settlement_client import (
    Client,
    IdempotencyConflict,
    InvalidRequest,
    MalformedAnswer,
    NotCancellable,
    NotFound,
    Outcome,
    Reading,
    Refused,
    SequenceChanged,
    SettlementClientError,
    Unavailable,
    Unknown,
)
from tests.client.conftest import DOWN, NOT_FOUND, Api, Clock, Said
from tests.client.payments import KEY, OUTCOMES, PAYMENT, PROCESSING, SETTLED, request

CANCELLED = PROCESSING | {
    "status": "COMPENSATING",
    "failure": {"step": "verify", "error": "Cancelled", "cause": "cancel: its starter has cancelled it"},
}
REFUSALS: list[tuple[Said, type[Exception], type[Exception]]] = [
    (NOT_FOUND, NotFound, NotFound),
    ((400, {"error": "InvalidRequest", "message": "as it is"}, None), InvalidRequest, InvalidRequest),
    ((403, {"message": "Forbidden"}, None), SettlementClientError, SettlementClientError),
    ((404, {"message": "Not Found"}, None), SettlementClientError, SettlementClientError),
    ((429, {"message": "Too Many Requests"}, None), Unavailable, Unknown),
    (DOWN, Unavailable, Unknown),
    ((502, "d\u00e9sol\u00e9".encode("latin-1"), None), Unavailable, Unknown),  # of a proxy
    ((200, OUTCOMES[1], '"3"'), MalformedAnswer, Unknown),
    ((200, CANCELLED, None), MalformedAnswer, Unknown),
    ((200, CANCELLED, '"x"'), MalformedAnswer, Unknown),
    ((200, {"key": KEY}, '"1"'), MalformedAnswer, Unknown),
    *(
        ((status, {"error": error.__name__, "message": "as it is"}, None), SettlementClientError, error)
        for status, error in (
            *((409, IdempotencyConflict), (409, NotCancellable)),
            (412, SequenceChanged),
        )
    ),
]
"""An answer, and the errors that reading and cancelling raise for it."""


@pytest.mark.parametrize(("answer", "of_reading", "of_cancelling"), REFUSALS, ids=range(len(REFUSALS)))
def test_each_refusal_raises_its_error_without_a_repeated_call(
    api: Api, client: Client, answer: Said, of_reading: type[Exception], of_cancelling: type[Exception]
) -> None:
    api.answers = [answer]

    with pytest.raises(of_reading) as unread:
        client.status(KEY)
    with pytest.raises(of_cancelling, match=re.escape(KEY)) as uncancelled:
        client.cancel(request())

    assert (type(unread.value), type(uncancelled.value)) == (of_reading, of_cancelling)
    assert isinstance(uncancelled.value, Refused) == (
        of_cancelling not in (NotFound, SettlementClientError, Unknown)
    )
    assert len(api.asked) == 2


def test_an_unanswered_reading_is_unavailable_but_a_cancellation_unknown(session: boto3.Session) -> None:
    alone = Client(api_url="http://127.0.0.1:1", session=session)

    with pytest.raises(Unavailable, match="no answer, ask again"):
        alone.status(KEY)
    with pytest.raises(Unknown, match="Send the same request again"):
        alone.cancel(request())


@pytest.mark.parametrize(("seen", "condition"), [(None, None), (0, '"0"'), (2, '"2"')])
@pytest.mark.parametrize("status", [200, 202])
def test_one_call_with_the_request_cancels_a_payment(
    api: Api, client: Client, seen: int | None, condition: str | None, status: int
) -> None:
    api.answers = [(status, CANCELLED, '"3"')]

    assert client.cancel(request(), seen) == Reading(Outcome.from_json(CANCELLED), 3)

    assert api.asked == [{"path": f"/settlements/{KEY}/cancel"}]
    assert api.posted == [(PAYMENT, condition)]


@pytest.mark.parametrize(("seconds", "waits"), [(0, ["0"]), (0.5, ["1", "0"])])
def test_a_wait_below_one_second_becomes_one_second(
    api: Api, client: Client, clock: Clock, seconds: float, waits: list[str]
) -> None:
    api.answers = [(200, PROCESSING, '"2"')]

    assert client.wait(KEY, seconds) == Reading(Outcome.from_json(PROCESSING), 2)
    assert [call["wait"] for call in api.asked] == waits
    assert clock.seconds == seconds


@pytest.mark.parametrize("answer", [DOWN, (200, PROCESSING, '"2"')], ids=["failures", "answers at once"])
def test_a_wait_pauses_after_failures_and_immediate_answers(
    api: Api, client: Client, clock: Clock, answer: Said
) -> None:
    """A server that does not wait is not polled in a busy loop; after failures the pause grows."""
    api.answers = [answer]

    try:
        client.wait(KEY, seconds=20)
    except Unavailable:
        assert clock.slept == [1, 2, 4, 8, 5]
    else:
        assert clock.slept == [1] * 20

    assert (clock.seconds, len(api.asked)) == (20, len(clock.slept) + 1)


@pytest.mark.parametrize("status", [400, 403])
def test_a_wait_ends_at_once_if_the_call_is_refused(
    api: Api, client: Client, clock: Clock, status: int
) -> None:
    api.answers = [(status, {}, None), (200, SETTLED, '"4"')]

    with pytest.raises(SettlementClientError):
        client.wait(KEY, seconds=100)

    assert len(api.asked) == 1
