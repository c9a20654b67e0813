"""The demo's pager: a queue subscribed only while needed."""

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from settle.exit_codes import CommandFailed, Exit
from settle.local.demo import stuck_reversal
from settle.stack import Stack
from tests.world.step_functions import client_error

ALERT = {"summary": "order-1 is in LIMBO since noon", "key": "order-1"}
NOTICE = {"summary": "order-1 is out of LIMBO", "key": "order-1"}


@pytest.fixture
def stack() -> Iterator[Stack]:
    """A stack with the topics, on moto."""
    with mock_aws():
        topics = {
            output: boto3.client("sns").create_topic(Name=output)["TopicArn"]
            for output in stuck_reversal.TOPICS
        }
        yield cast(Stack, SimpleNamespace(service="settlement-test", outputs=topics, client=boto3.client))


def publish(stack: Stack, alert: dict[str, str], topic: str = "PagerTopicArn") -> None:
    stack.client("sns").publish(TopicArn=stack.outputs[topic], Message=json.dumps(alert))


def left(stack: Stack) -> tuple[list[Any], list[Any]]:
    subscriptions = stack.client("sns").list_subscriptions()["Subscriptions"]
    return subscriptions, stack.client("sqs").list_queues().get("QueueUrls", [])


def test_the_pager_receives_the_wanted_alert_and_skips_others(stack: Stack) -> None:
    with stuck_reversal.pager(stack) as receive:
        publish(stack, ALERT)
        publish(stack, NOTICE, "InformationTopicArn")
        publish(stack, ALERT)

        assert (receive("out of LIMBO"), receive("LIMBO since")) == (NOTICE, ALERT)


@pytest.mark.parametrize("fails", [False, True])
def test_the_pager_leaves_no_queue_subscribed(stack: Stack, fails: bool) -> None:
    with suppress(ConnectionError), stuck_reversal.pager(stack):
        assert [len(there) for there in left(stack)] == [2, 1]
        if fails:
            raise ConnectionError("cut off")

    assert left(stack) == ([], [])


class Denying:
    """A client to which IAM denies some operations."""

    def __init__(self, service: str, denied: Collection[str]) -> None:
        self._client, self._denied = boto3.client(service), denied

    def __getattr__(self, operation: str) -> Any:
        if operation in self._denied:
            return lambda **_: self._deny(operation)
        return getattr(self._client, operation)

    def _deny(self, operation: str) -> None:
        raise client_error(operation, "AccessDenied")


@pytest.mark.parametrize("denied", [{"unsubscribe"}, {"delete_queue"}, {"unsubscribe", "delete_queue"}])
def test_a_denied_clean_up_is_reported(
    stack: Stack, denied: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    stack.client = lambda service: Denying(service, denied)  # type: ignore[method-assign,misc,assignment]

    with stuck_reversal.pager(stack) as receive:
        publish(stack, ALERT)
        assert receive("LIMBO since") == ALERT

    told = capsys.readouterr().err
    assert told.count("left behind: arn:aws:sns:") == 2 * ("unsubscribe" in denied)
    assert told.count("left behind: https:") == ("delete_queue" in denied)
    assert [len(each) for each in left(stack)] == [
        2 * ("unsubscribe" in denied),
        int("delete_queue" in denied),
    ]


def test_a_denied_subscription_leaves_no_queue(stack: Stack) -> None:
    stack.client = lambda service: Denying(service, {"subscribe"})  # type: ignore[method-assign,misc,assignment]

    with pytest.raises(ClientError), stuck_reversal.pager(stack):
        pass

    assert left(stack) == ([], [])


def test_an_alert_that_does_not_come_is_a_failure(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck_reversal, "ALERT_SECONDS_MAX", -1)

    with stuck_reversal.pager(stack) as receive, pytest.raises(CommandFailed) as told:
        receive("LIMBO since")

    assert (told.value.code, str(told.value)) == (Exit.FAILED, "no alert with 'LIMBO since' came within -1 s")
