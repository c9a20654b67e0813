"""Tests which layer retries a failed call, with a real client and the functions' settings."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse

from settlement.core.model.errors import InsufficientFunds, StoreUnavailable
from settlement.core.store.dynamodb import CLIENT_CONFIG, Store
from tests.store.failures.scripted import POOR, Call, wire
from tests.world.saga import ALICE


class Raw:
    """Response body in the form that botocore reads."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.body


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Store, list[Any]]]:
    """A store on a real client whose requests all get one answer."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)

    def make(status: int, body: bytes) -> tuple[Store, list[Any]]:
        client = boto3.client("dynamodb", config=CLIENT_CONFIG)
        sent: list[Any] = []

        def answer(request: Any, **_: Any) -> AWSResponse:
            sent.append(json.loads(request.body))
            return AWSResponse(request.url, status, {}, Raw(body))

        client.meta.events.register("before-send.dynamodb", answer)
        return Store(client, "t", pause=lambda failed_tries: None), sent

    return make


def _error(code: str, **content: Any) -> bytes:
    return json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", **content}).encode()


@pytest.mark.parametrize(
    ("reasons", "error", "sends"),
    [
        ([{"Code": "TransactionConflict"}, {"Code": "None"}, {"Code": "None"}], StoreUnavailable, 6),
        (
            [{"Code": "None"}, {"Code": "None"}, {"Code": POOR[0], "Item": wire(ALICE | {"available": 1})}],
            InsufficientFunds,
            1,
        ),
    ],
    ids=["transient", "refused"],
)
def test_only_one_layer_retries_a_cancelled_transaction(
    answering: Any, hold: Call, reasons: list[Any], error: type[Exception], sends: int
) -> None:
    sender, sent = answering(400, _error("TransactionCanceledException", CancellationReasons=reasons))

    with pytest.raises(error):
        hold(sender)

    assert len(sent) == sends


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, _error("InternalServerError")),
        (503, _error("ServiceUnavailable")),
        (400, _error("ThrottlingException")),
        (400, _error("ProvisionedThroughputExceededException")),
        pytest.param(500, _error("InternalFailure"), id="an error common to all of AWS"),
        pytest.param(502, b"<html>Bad Gateway</html>", id="a page"),
        pytest.param(504, b"", id="nothing"),
    ],
)
def test_botocore_repeats_a_failed_call_once_with_the_same_token(
    answering: Any, hold: Call, status: int, body: bytes
) -> None:
    sender, sent = answering(status, body)

    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            hold(sender)

    first, repeated, second, _ = (request["ClientRequestToken"] for request in sent)
    assert first == repeated != second
