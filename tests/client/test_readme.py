import json
import re
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.stub import ANY, Stubber

from settlement_client import Client, JournalPage, Outcome, Reading, Request
from tests.client.payments import OUTCOMES, PROCESSING, SETTLED
from tests.client.test_journal import ENTRY
from tests.client.test_journal import page as journal_page
from tests.consumers.events import event
from tests.world.memory_dynamodb import MemoryDynamoDb
from tests.world.templates import PROJECT

README = (PROJECT / "clients" / "python" / "README.md").read_text()
PAYS, WALKS, HEARS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_readmes_example_pays_once_after_a_lost_answer(
    session: boto3.Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first start loses its answer; the second finds the same request in flight."""
    client = Client(express_arn="arn:aws:states:eu-west-1:123456789012:stateMachine:Express", session=session)
    sent: list[Any] = []
    waited: list[tuple[str, float]] = []

    def remember(params: dict[str, Any], **_: Any) -> None:
        sent.append(json.loads(params["input"]))
        if len(sent) == 1:
            raise ReadTimeoutError(endpoint_url="https://aws.invalid")
        outcome = PROCESSING | {"key": sent[0]["key"]}
        answer = {"executionArn": "arn:of:execution-of-it", "startDate": 0, "stopDate": 1}
        stubber.add_response(
            "start_sync_execution",
            answer | {"status": "SUCCEEDED", "output": json.dumps(outcome)},
            {"stateMachineArn": ANY, "name": ANY, "input": ANY},
        )

    def wait(key: str, seconds: float) -> Reading:
        waited.append((key, seconds))
        return Reading(Outcome.from_json(SETTLED | {"key": key}), 4)

    client._patient.meta.events.register("provide-client-params.*.StartSyncExecution", remember)
    monkeypatch.setattr(Client, "of_stack", {"settlement-prod": client}.__getitem__)
    monkeypatch.setattr(client, "wait", wait)
    monkeypatch.setattr("time.sleep", lambda _: None)

    with Stubber(client._patient) as stubber:
        exec(PAYS, {})

    assert sent[0] == sent[1] == json.loads(Request(**sent[0]).to_json())
    assert waited == [(sent[0]["key"], 60)]
    assert capsys.readouterr().out == "SETTLED The payee is paid.\n"


def test_the_readmes_event_reader_marks_its_order_paid_once(monkeypatch: pytest.MonkeyPatch) -> None:
    client, key = MemoryDynamoDb(), OUTCOMES[0]["key"]
    client.put_item(TableName="orders", Item={"pk": {"S": key}, "sk": {"S": "order"}})
    monkeypatch.setattr(boto3, "client", {"dynamodb": client}.__getitem__)
    example = ModuleType("example")
    exec(HEARS, vars(example))

    applied = [
        example.apply(json.dumps(event(key, sequence, status)))
        for sequence, status in ((4, "SETTLED"), (2, "PROCESSING"), (4, "SETTLED"))
    ]

    row = client.get_item(
        TableName="orders", Key={"pk": {"S": key}, "sk": {"S": "order"}}, ConsistentRead=True
    )["Item"]
    assert applied == [True, False, False]
    assert row["paid"] == {"BOOL": True}


def test_the_readmes_journal_example_stores_each_entry_once() -> None:
    entries = [JournalPage.from_json(journal_page(ENTRY)[1]) for _ in range(2)]
    seen: list[str | None] = []

    def journal(cursor: str | None) -> Iterator[JournalPage]:
        seen.append(cursor)
        yield from entries

    found: dict[str, Any] = {"client": SimpleNamespace(journal=journal)}
    exec(WALKS, found)

    assert found["rows"] == {("order-2026-000101", "hold"): entries[0].entries[0]}
    assert (seen, found["cursor"]) == ([None], "c")
