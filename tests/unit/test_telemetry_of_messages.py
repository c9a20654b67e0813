"""What StartSettlements leaves in the log of each message: its own key, and what became of it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from handlers import _machines, _queues, _runtime, start_settlements
from settlement.store import Store
from tests.conftest import NOW
from tests.unit.observation import CONTEXT, KEY, WIRE, Output, assert_telling_nothing
from tests.unit.test_telemetry_of_handlers import Accepting, Unreachable


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Accepting]], None]:
    """Put a DynamoDB in place, at `NOW`, with a machine that starts."""
    monkeypatch.setattr(_runtime, "now", lambda: NOW)
    monkeypatch.setattr(_machines, "start", lambda arn, name, data: None)

    def put(client: type[Accepting]) -> None:
        monkeypatch.setattr(_runtime, "store", Store(client(), "table", pause=lambda failed_tries: None))

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
def test_a_messages_lines_tell_of_no_account_and_no_amount(
    body: str,
    counted: str,
    use: Callable[[type[Accepting]], None],
    output: Output,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_aside: list[Any] = []
    use(Accepting)
    monkeypatch.setattr(_queues, "put_aside", lambda *message: put_aside.append(message))
    record = {"messageId": "message-1", "body": body, "eventSource": "aws:sqs"}

    answer = start_settlements.handler({"Records": [record]}, CONTEXT)

    lines, metrics, text = output.take()
    assert answer == {"batchItemFailures": []}
    assert {line["step"] for line in lines} == {"start"}
    assert len(put_aside) == (counted == "StartRefused")
    assert metrics == ["StepCalled", counted]
    assert_telling_nothing(text)


def test_each_message_that_fails_is_counted_by_its_error_and_told_of_by_its_own_key(
    use: Callable[[type[Accepting]], None], output: Output
) -> None:
    """A message without a key is logged under none, and not under that of the one before it."""
    other = "order-2026-000102"
    bodies = [json.dumps(WIRE), "canary", json.dumps(WIRE | {"key": other})]
    records = [
        {"messageId": f"message-{number}", "body": body, "eventSource": "aws:sqs"}
        for number, body in enumerate(bodies)
    ]
    use(Unreachable)
    put_aside: list[Any] = []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_queues, "put_aside", lambda record, reason: put_aside.append(reason))
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
    assert len(put_aside) == 1
    assert_telling_nothing(text)
