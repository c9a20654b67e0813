import re

import boto3
import pytest

from settlement_client import (
    Client,
    IdempotencyConflict,
    InvalidRequest,
    NotCancellable,
    NotFound,
    Outcome,
    Reading,
    Refused,
    SequenceChanged,
    SettlementClientError,
    Unknown,
)
from tests.client.payments import KEY, OUTCOMES, PAYMENT, PROCESSING, request
from tests.client.test_reading import DOWN, NOT_FOUND, SIGNED, Api, Said, api, client

__all__ = ["api", "client"]

CANCELLED = PROCESSING | {
    "status": "COMPENSATING",
    "failure": {"step": "verify", "error": "Cancelled", "cause": "cancel: its starter has cancelled it"},
}


def refused(status: int, error: str) -> Said:
    return status, {"error": error, "message": f"{error}: as it is"}, None


@pytest.mark.parametrize(("seen", "condition"), [(None, None), (0, '"0"'), (2, '"2"')])
@pytest.mark.parametrize("status", [200, 202])
def test_one_signed_call_with_the_request_cancels_a_payment(
    api: Api, client: Client, seen: int | None, condition: str | None, status: int
) -> None:
    api.answers = [(status, CANCELLED, '"3"')]

    assert client.cancel(request(), seen) == Reading(Outcome.from_json(CANCELLED), 3)

    assert api.asked == [{"path": f"/settlements/{KEY}/cancel"}]
    assert api.posted == [(PAYMENT, condition)]
    assert SIGNED.fullmatch(api.authorizations[0])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (NOT_FOUND, NotFound),
        (refused(400, "InvalidRequest"), InvalidRequest),
        (refused(409, "IdempotencyConflict"), IdempotencyConflict),
        (refused(409, "NotCancellable"), NotCancellable),
        (refused(412, "SequenceChanged"), SequenceChanged),
        ((403, {"message": "Forbidden"}, None), SettlementClientError),
        ((404, {"message": "Not Found"}, None), SettlementClientError),
        ((429, {"message": "Too Many Requests"}, None), Unknown),
        (DOWN, Unknown),
        ((200, CANCELLED, None), Unknown),
        ((200, OUTCOMES[1], '"3"'), Unknown),
        ((202, {"key": KEY}, '"1"'), Unknown),
    ],
    ids=range(12),
)
def test_each_refusal_has_its_error_and_no_call_is_repeated(
    api: Api, client: Client, answer: Said, expected: type[Exception]
) -> None:
    api.answers = [answer]

    with pytest.raises(expected, match=re.escape(KEY)) as told:
        client.cancel(request())

    assert type(told.value) is expected
    assert len(api.asked) == 1
    assert isinstance(told.value, Refused) == (expected not in (NotFound, SettlementClientError, Unknown))


def test_no_answer_is_unknown() -> None:
    session = boto3.Session("test", "test", region_name="eu-west-1")

    with pytest.raises(Unknown, match="Send the same request again"):
        Client(api_url="http://127.0.0.1:1", session=session).cancel(request())
