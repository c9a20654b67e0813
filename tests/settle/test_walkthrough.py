"""The demo's pager: a queue that is subscribed for as long as somebody looks."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import boto3
import pytest
from moto import mock_aws

from settle import walkthrough
from settle.failures import CommandFailed, Exit
from settle.stack import Stack

PAGE = {"summary": "order-1 is in LIMBO since noon", "key": "order-1"}
NEWS = {"summary": "order-1 is out of LIMBO", "key": "order-1"}


@pytest.fixture
def stack() -> Iterator[Stack]:
    """A stack that has a pager's topic, on moto."""
    with mock_aws():
        topic = boto3.client("sns").create_topic(Name="pager")["TopicArn"]
        yield cast(Stack, SimpleNamespace(outputs={"PagerTopicArn": topic}, client=boto3.client))


def publish(stack: Stack, page: dict[str, str]) -> None:
    stack.client("sns").publish(TopicArn=stack.outputs["PagerTopicArn"], Message=json.dumps(page))


def left(stack: Stack) -> tuple[list[Any], list[Any]]:
    """The subscriptions and queues that there are."""
    subscriptions = stack.client("sns").list_subscriptions()["Subscriptions"]
    return subscriptions, stack.client("sqs").list_queues().get("QueueUrls", [])


def test_a_page_is_received_as_it_was_sent(stack: Stack) -> None:
    with walkthrough.pager(stack) as receive:
        publish(stack, PAGE)

        assert receive("LIMBO since") == PAGE


def test_other_pages_are_passed_over(stack: Stack) -> None:
    with walkthrough.pager(stack) as receive:
        publish(stack, PAGE)
        publish(stack, NEWS)

        assert receive("out of LIMBO") == NEWS


def test_a_page_that_does_not_come_is_told(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walkthrough, "PAGE_SECONDS_MAX", -1)

    with walkthrough.pager(stack) as receive, pytest.raises(CommandFailed) as told:
        receive("LIMBO since")

    assert (told.value.code, str(told.value)) == (Exit.FAILED, "no page with 'LIMBO since' came within -1 s")


@pytest.mark.parametrize("fails", [False, True])
def test_nobody_stays_subscribed(stack: Stack, fails: bool) -> None:
    def look() -> None:
        with walkthrough.pager(stack):
            assert [len(there) for there in left(stack)] == [1, 1]
            if fails:
                raise ConnectionError("cut off")

    if fails:
        with pytest.raises(ConnectionError):
            look()
    else:
        look()

    assert left(stack) == ([], [])
