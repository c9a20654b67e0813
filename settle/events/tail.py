import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settle import instants
from settle.stack import Stack
from settlement.core.model.timestamps import timestamp
from settlement.events.changes import snapshot

KEPT_SECONDS = 300
"""Message retention: keeps a killed command's queue small."""

LEFT_BEHIND_SECONDS = 86_400
"""Age at which the next command removes a killed command's rule and queue."""

_WAIT_SECONDS = 2
_NEW_QUEUE_SECONDS = 1


@contextmanager
def hearing(stack: Stack, key: str | None) -> Iterator[Iterator[dict[str, Any] | None]]:
    """Yield events as they come: those of settlement `key`, or all. Yield None after each poll of up to 2 s.

    The events of an existing settlement begin with a snapshot, because none may follow. A change before the
    rule takes effect gives another snapshot. At the end, the rule and the queue are removed.
    """
    name = f"{_prefix(stack)}{int(time.time())}-{secrets.token_hex(3)}"
    try:
        url = _listen(stack, name, key)
        yield _with_snapshots(stack, key, url) if key else _events(stack, url)
    finally:
        _remove(stack, name)
        for left in _left_behind(stack):
            _remove(stack, left)


def _prefix(stack: Stack) -> str:
    return f"{stack.service}-tail-"


def _listen(stack: Stack, name: str, key: str | None) -> str:
    """Create a rule and its queue. Return the queue's URL.

    The queue is created with its policy, because a later call about a new queue may fail for a second.
    """
    sqs, events, bus = stack.client("sqs"), stack.client("events"), stack.outputs["OutcomeBusName"]
    pattern = (
        {"source": ["settlement"], "detail": {"subject": [key]}}
        if key
        else {"source": ["settlement", "payout", "payrun"]}
    )
    rule = events.put_rule(Name=name, EventBusName=bus, EventPattern=json.dumps(pattern))["RuleArn"]
    arn, partition, _, region, account, *_ = rule.split(":")
    queue = ":".join((arn, partition, "sqs", region, account, name))
    admitted = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue,
        "Condition": {"ArnEquals": {"aws:SourceArn": rule}},
    }
    attributes = {
        "MessageRetentionPeriod": str(KEPT_SECONDS),
        "Policy": json.dumps({"Version": "2012-10-17", "Statement": [admitted]}),
    }
    url: str = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    events.put_targets(Rule=name, EventBusName=bus, Targets=[{"Id": "tail", "Arn": queue}])
    time.sleep(_NEW_QUEUE_SECONDS)
    return url


def _with_snapshots(stack: Stack, key: str, url: str) -> Iterator[dict[str, Any] | None]:
    """Yield a settlement's events, and a snapshot of each state that no event reported."""
    told = 0
    for event in chain([None], _events(stack, url)):
        if event is not None:
            told = max(told, int(event["sequence"]))
        elif (state := stack.store.settlement(key)) and state.sequence > told:
            told = state.sequence
            yield snapshot(state, stack.config, source=stack.name, time=timestamp(instants.now()))
        yield event


def _events(stack: Stack, url: str) -> Iterator[dict[str, Any] | None]:
    sqs = stack.client("sqs")
    while True:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=_WAIT_SECONDS)
        for message in answer.get("Messages", []):
            yield json.loads(message["Body"])["detail"]
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        yield None


def _left_behind(stack: Stack) -> Iterator[str]:
    prefix, bus = _prefix(stack), stack.outputs["OutcomeBusName"]
    with suppress(BotoCoreError, ClientError):  # a failed clean-up must not fail the command
        for rule in stack.client("events").list_rules(EventBusName=bus, NamePrefix=prefix)["Rules"]:
            began = rule["Name"].removeprefix(prefix).partition("-")[0]
            if began.isdecimal() and int(began) < time.time() - LEFT_BEHIND_SECONDS:
                yield rule["Name"]


def _remove(stack: Stack, name: str) -> None:
    sqs, events, bus = stack.client("sqs"), stack.client("events"), stack.outputs["OutcomeBusName"]
    with suppress(BotoCoreError, ClientError):
        events.remove_targets(Rule=name, EventBusName=bus, Ids=["tail"])
    with suppress(BotoCoreError, ClientError):
        events.delete_rule(Name=name, EventBusName=bus)
    with suppress(BotoCoreError, ClientError):
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=name)["QueueUrl"])
