"""Starts the servers that the examples need: PostgreSQL, and MiniStack for SQS."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import psycopg
import pytest

from tests.statemachines.engines import ministack
from tests.world import postgresql


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    with postgresql.server() as url:
        yield f"{url}/postgres"


@pytest.fixture
def database(postgresql_url: str) -> str:
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return postgresql_url


@dataclass(frozen=True)
class Queue:
    sqs: Any
    endpoint_url: str
    url: str
    dead_letters_url: str

    def send(self, bodies: list[str]) -> None:
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def gives_up_after(self, receipts: int) -> None:
        asked = self.sqs.get_queue_attributes(QueueUrl=self.dead_letters_url, AttributeNames=["QueueArn"])
        arn = asked["Attributes"]["QueueArn"]
        redrive = {"deadLetterTargetArn": arn, "maxReceiveCount": str(receipts)}
        self.sqs.set_queue_attributes(QueueUrl=self.url, Attributes={"RedrivePolicy": json.dumps(redrive)})

    def has(self, url: str) -> int:
        """Return a queue's number of messages, including those being processed."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)


@pytest.fixture(scope="session")
def ministack_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ministack(tmp_path_factory.mktemp("ministack")) as machines:
        yield machines.meta.endpoint_url


@pytest.fixture
def queue(ministack_url: str) -> Queue:
    """A queue that redelivers after a second, up to thirty times."""
    sqs, name = boto3.client("sqs", endpoint_url=ministack_url), uuid.uuid4().hex
    dead_letters = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    url = sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "1"})["QueueUrl"]
    made = Queue(sqs, ministack_url, url, dead_letters)
    made.gives_up_after(30)
    return made
