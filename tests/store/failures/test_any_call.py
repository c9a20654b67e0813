from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from settlement.core import telemetry
from settlement.core.ledger import keys
from settlement.core.model.errors import StoreUnavailable
from tests.store.failures.scripted import ANSWERED, COMMITTED, CONFLICT, NONE, Call, cancelled, failed, wire

UNAVAILABLE = [
    *("InternalServerError", "ProvisionedThroughputExceededException", "RequestLimitExceeded"),
    *("ServiceUnavailable", "ThrottlingException", "TransactionInProgressException"),
]


@pytest.mark.parametrize("code", UNAVAILABLE)
def test_a_service_error_raises_unavailable_without_a_retry(
    scripted: Any, call: Call, pauses: list[int], code: str
) -> None:
    sender, client = scripted(failed(code))

    with pytest.raises(StoreUnavailable, match=code):
        call(sender)

    assert (len(client.sent), pauses) == (1, [])


@pytest.mark.parametrize(
    "error", [ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError, ConnectionClosedError]
)
def test_a_connection_error_raises_unavailable_without_a_retry(
    scripted: Any, call: Call, error: type[Exception]
) -> None:
    unreachable = error(endpoint_url="https://dynamodb")  # type: ignore[call-arg]
    sender, client = scripted(unreachable)

    with pytest.raises(StoreUnavailable, match=error.__name__) as raised:
        call(sender)

    assert raised.value.__cause__ is unreachable
    assert len(client.sent) == 1


@pytest.mark.parametrize("without", ["", "HTTPStatusCode", "ResponseMetadata"])
@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "ResourceNotFoundException", "ValidationException"]
)
def test_an_error_caused_by_our_own_fault_is_raised_unchanged(
    scripted: Any, call: Call, code: str, without: str
) -> None:
    original = failed(code)
    original.response["ResponseMetadata"].pop(without, None)
    original.response.pop(without, None)
    sender, client = scripted(original)

    with pytest.raises(ClientError) as raised:
        call(sender)

    assert raised.value is original
    assert len(client.sent) == 1


def test_each_call_is_logged_with_its_operation_and_known_cost(
    scripted: Any, hold: Call, read: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[tuple[str, Any]] = []
    monkeypatch.setattr(telemetry, "called", lambda *called: logged.append(called))
    sender, _ = scripted(cancelled(CONFLICT, NONE, NONE), COMMITTED, ANSWERED)

    hold(sender)
    read(sender)

    assert logged == [
        ("transact_write_items", None),
        ("transact_write_items", COMMITTED["ConsumedCapacity"]),
        ("get_item", ANSWERED["ConsumedCapacity"]),
    ]


@pytest.mark.parametrize(
    ("read", "key"),
    [
        (lambda of: of.read(keys.account("alice")), keys.account("alice")),
        (lambda of: of.settlement("order-1"), keys.settlement("order-1")),
        (lambda of: of.account("alice"), keys.account("alice")),
        (lambda of: of.evidence("order-1", "verify"), keys.evidence("order-1", "verify")),
    ],
    ids=["row", "settlement", "account", "evidence"],
)
def test_each_kind_of_row_is_read_consistently_in_one_call(scripted: Any, read: Call, key: keys.Row) -> None:
    sender, client = scripted(ANSWERED)

    assert read(sender) is None
    assert client.sent == [("get_item", {"TableName": "t", "Key": wire(key), "ConsistentRead": True})]
