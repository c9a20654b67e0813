"""The log of StartSettlements: each message with its own key and its result."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from handlers import _dead_letters, _dependencies, _step_functions, start_settlements
from settlement.adapters.dynamodb import Store
from tests.conftest import NOW
from tests.unit.observation import CONTEXT, KEY, WIRE, Output, assert_telling_nothing
from tests.unit.test_telemetry_of_handlers import Accepting, Unreachable


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Accepting]], None]:
    """Put a DynamoDB in place, at `NOW`, with a machine that starts."""
    monkeypatch.setattr(_dependencies, "now", lambda: NOW)
    monkeypatch.setattr(_step_functions, "start", lambda arn, name, data: None)

    def put(client: type[Accepting]) -> None:
        monkeypatch.setattr(_dependencies, "store", Store(client(), "table", pause=lambda failed_tries: None))

    return put


@pytest.mark.parametrize(
    ("body", "counted"),
    [
        (json.dumps(WIRE), "Claimed"),
        (json.dumps(WIRE | {"payer": "canary:payer"}), "StartRefused"),
        ("canary", "StartRefused"),
    ],
    ids=["claimed", "refused", "no JSON"],
)
def test_a_messages_lines_have_no_account_and_no_amount(
    body: str,
    counted: str,
    use: Callable[[type[Accepting]], None],
    output: Output,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[Any] = []
    use(Accepting)
    monkeypatch.setattr(_dead_letters, "send", lambda *message: sent.append(message))
    record = {"messageId": "message-1", "body": body, "eventSource": "aws:sqs"}

    answer = start_settlements.handler({"Records": [record]}, CONTEXT)

    lines, metrics, text = output.take()
    assert answer == {"batchItemFailures": []}
    assert {line["step"] for line in lines} == {"start"}
    assert len(sent) == (counted == "StartRefused")
    assert metrics == ["StepCalled", counted]
    assert_telling_nothing(text)


def test_each_message_that_fails_is_counted_by_its_error_and_logged_with_its_own_key(
    use: Callable[[type[Accepting]], None], output: Output
) -> None:
    """A message without a key is logged without one, and not with the key of the message before."""
    other = "order-2026-000102"
    bodies = [json.dumps(WIRE), "canary", json.dumps(WIRE | {"key": other})]
    records = [
        {"messageId": f"message-{number}", "body": body, "eventSource": "aws:sqs"}
        for number, body in enumerate(bodies)
    ]
    use(Unreachable)
    sent: list[Any] = []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_dead_letters, "send", lambda record, reason: sent.append(reason))
        answer = start_settlements.handler({"Records": records}, CONTEXT)

    lines, metrics, text = output.take()
    told = [(line["message_id"], line.get("key"), line["error"]) for line in lines if "message_id" in line]
    assert told == [
        ("message-0", KEY, "StoreUnavailable"),
        ("message-1", None, "InvalidRequest"),
        ("message-2", other, "StoreUnavailable"),
    ]
    assert sorted(metrics) == ["StartRefused", "StepCalled", "StoreUnavailable", "StoreUnavailable"]
    assert [failed["itemIdentifier"] for failed in answer["batchItemFailures"]] == ["message-0", "message-2"]
    assert len(sent) == 1
    assert_telling_nothing(text)
