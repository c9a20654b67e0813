import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from tests.e2e.embedded import Embedded, new_key
from tests.world.contracts import checked_event


class Heard:
    """The events of a queue so far, with repetitions."""

    def __init__(self, embedded: Embedded, url: str) -> None:
        self._sqs, self._url = embedded.stack.client("sqs"), url
        self._embedded = embedded
        self.events: list[dict[str, Any]] = []
        self.lags: list[float] = []
        """Seconds from each change to its arrival, by both services' clocks."""

    def more(self) -> list[dict[str, Any]]:
        while messages := self._received():
            for message in messages:
                told = json.loads(message["Body"])
                self.events.append(checked_event(told["detail"]))
                arrived = int(message["Attributes"]["SentTimestamp"]) / 1_000
                self.lags.append(arrived - datetime.fromisoformat(told["detail"]["time"]).timestamp())
                assert told["detail-type"] == told["detail"]["type"]
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
        return self.events

    def of(self, key: str) -> list[dict[str, Any]]:
        return [*self.by_number(key).values()]

    def by_number(self, key: str) -> dict[int, dict[str, Any]]:
        """Return a settlement's events by number; check that repetitions are equal."""
        found: dict[int, dict[str, Any]] = {}
        for event in self.more():
            if event["subject"] == key:
                number = int(event["sequence"])
                known = found.setdefault(number, event)
                assert known["data"] == event["data"], event["id"]
        return dict(sorted(found.items()))

    def wait_for(self, key: str) -> list[str]:
        """Wait for the last event counted by the settlement's row; return all types in order."""
        latest = self._embedded.settlement(key)["sequence"]
        self._embedded.wait_for(lambda: latest in self.by_number(key))
        self._embedded.wait_for(lambda: [*self.by_number(key)] == [*range(1, latest + 1)])
        return [event["type"].removeprefix("settlement.") for event in self.of(key)]

    def _received(self) -> list[dict[str, Any]]:
        answer = self._sqs.receive_message(
            QueueUrl=self._url, MaxNumberOfMessages=10, AttributeNames=["SentTimestamp"]
        )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages


@contextmanager
def hearing(embedded: Embedded) -> Iterator[Heard]:
    sqs, events = embedded.stack.client("sqs"), embedded.stack.client("events")
    name, bus = new_key("heard"), embedded.stack.outputs["OutcomeBusName"]
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name=name, EventBusName=bus, EventPattern=json.dumps({"source": ["settlement"]}))
    events.put_targets(Rule=name, EventBusName=bus, Targets=[{"Id": "queue", "Arn": arn}])
    try:
        yield Heard(embedded, url)
    finally:
        events.remove_targets(Rule=name, EventBusName=bus, Ids=["queue"])
        events.delete_rule(Name=name, EventBusName=bus)
        sqs.delete_queue(QueueUrl=url)
