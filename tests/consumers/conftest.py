"""Servers of the examples: PostgreSQL, and MiniStack's SQS without the app."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import psycopg
import pytest

from settle.local.ports import free_port
from tests.world import postgresql

START_SECONDS_MAX = 60


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
    folder, port = tmp_path_factory.mktemp("ministack"), free_port()
    variables = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",  # else its MQTT broker listens on every interface
        "TMPDIR": str(folder),
        "STATE_DIR": str(folder / "state"),
        "S3_DATA_DIR": str(folder / "s3"),
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ministack"],
            env=os.environ | variables,
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        fails_at = time.monotonic() + START_SECONDS_MAX
        while not _answers(f"{url}/_ministack/health"):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < fails_at, "MiniStack did not start"
            time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def queue(ministack_url: str) -> Queue:
    """A queue that redelivers after a second, up to thirty times."""
    sqs, name = boto3.client("sqs", endpoint_url=ministack_url), uuid.uuid4().hex
    dead_letters = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    url = sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "1"})["QueueUrl"]
    made = Queue(sqs, ministack_url, url, dead_letters)
    made.gives_up_after(30)
    return made


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
