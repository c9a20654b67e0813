"""Stand-ins for AWS services, and the webhook's caller."""

import base64
import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError
from standardwebhooks import Webhook

from settlement.core.model.errors import SettlementError
from tests.world.constants import KEY
from tests.world.contracts import checked_event, checked_page
from tests.world.environment import NOW

SECRET = "whsec_" + base64.b64encode(b"canary-signing-secret-current").decode()
PREVIOUS = "whsec_" + base64.b64encode(b"canary-signing-secret-previous").decode()
THIRD = "whsec_" + base64.b64encode(b"canary-signing-secret-stolen").decode()
API_KEY, NEW_API_KEY = "canary-api-key-old", "canary-api-key-new"

VERDICT = {"idempotency_key": f"{KEY}:verify", "decision": "APPROVED", "reference": "ver_1"}

OWNER = f"{KEY}-decided"
"""The settlement's owner between the webhook's decision and the resumption."""

RESUME = {"key": KEY, "owner": OWNER}
"""The webhook's request to recovery."""

ATTRIBUTE_BYTES_MAX = 8_192
ENTRIES_MAX, PUT_BYTES_MAX = 10, 256 * 1_024
"""EventBridge's limits per call. The size is some regions' limit, a quarter of the usual one."""


def released(*entries: Mapping[str, Any]) -> dict[str, Any]:
    bodies = (json.dumps([[entry["pk"], entry["sk"]]]) for entry in entries)
    return {"Records": [{"messageId": f"m-{number}", "body": body} for number, body in enumerate(bodies)]}


def text(content: Any) -> str:
    return json.dumps(content)


class Secrets:
    """A Secrets Manager client that returns or raises `content` and records reads."""

    def __init__(self) -> None:
        self.content: Any = {"api_key": API_KEY, "current": SECRET, "previous": PREVIOUS}
        self.content["previous_until"] = "2099-01-01T00:00:00Z"
        self.read: list[str] = []

    def get_secret_value(self, SecretId: str) -> dict[str, Any]:  # noqa: N803
        self.read.append(SecretId)
        if isinstance(self.content, Exception):
            raise self.content
        return {"SecretString": self.content if isinstance(self.content, str) else text(self.content)}


class Died(BaseException):
    """The environment died: the function cannot catch this."""


@dataclass
class Queues:
    """An SQS client that keeps messages, or raises `failure`.

    `url` is the start queue's dead-letter queue; `to` has each message's queue. Like SQS, it refuses
    attributes that are empty, too long or not fit for XML.
    """

    url: str = "https://sqs.invalid/123456789012/dead-letters"
    sent: list[dict[str, str]] = field(default_factory=list)
    to: list[str] = field(default_factory=list)
    failure: BaseException | None = None

    def send_message(self, *, QueueUrl: str, MessageBody: str, MessageAttributes: Any) -> None:  # noqa: N803
        known = ("SWEEPS", "SWEEPS_PUT_ASIDE", "EVENTS_PUT_ASIDE")
        assert QueueUrl in (self.url, *map(os.environ.get, known))
        assert {attribute["DataType"] for attribute in MessageAttributes.values()} <= {"String"}
        texts = [attribute["StringValue"] for attribute in MessageAttributes.values()]
        assert all(0 < len(text.encode()) <= ATTRIBUTE_BYTES_MAX and text.isprintable() for text in texts)
        if self.failure:
            raise self.failure
        attributes = {name: attribute["StringValue"] for name, attribute in MessageAttributes.items()}
        self.sent.append({"body": MessageBody, **attributes})
        self.to.append(QueueUrl)


@dataclass
class Functions:
    """A Lambda client that keeps events in `sent`, or raises `failing`.

    `delivers` gets each event at once. With `loses_answers`, an event is kept and delivered before the error.
    """

    delivers: Callable[[Any], object] | None = None
    failing: BaseException | None = None
    loses_answers: bool = False
    sent: list[Any] = field(default_factory=list)
    answers: Callable[[Any], Any] = lambda event: {}
    """A function's answer to a synchronous caller."""

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: str) -> dict[str, Any]:  # noqa: N803
        known = ("RECOVER_STALLED", "VERIFY_KYC", "PUBLISH_EVENTS", "FOLLOW_PAYOUTS")
        assert FunctionName in map(os.environ.get, known)
        if self.failing and not self.loses_answers:
            raise self.failing
        self.sent.append(json.loads(Payload))
        if self.delivers:
            self.delivers(self.sent[-1])
        if self.failing:
            raise self.failing
        if InvocationType == "Event":
            return {"StatusCode": 202}
        assert InvocationType == "RequestResponse"
        try:
            return {"Payload": io.BytesIO(text(self.answers(self.sent[-1])).encode())}
        except SettlementError as failed:
            told = {"errorType": type(failed).__name__, "errorMessage": str(failed)}
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(text(told).encode())}


@dataclass
class Bus:
    """The outcome bus, keeping accepted events.

    `refuses` returns an event's error code, or an empty text; `failing` is raised for each call.
    """

    failing: BaseException | None = None
    refuses: Callable[[dict[str, Any]], str] = lambda event: ""
    calls: list[int] = field(default_factory=list)
    """The number of events of each call."""

    taken: list[dict[str, Any]] = field(default_factory=list)

    def put_events(self, *, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803
        self.calls.append(len(Entries))
        assert 0 < len(Entries) <= ENTRIES_MAX
        assert sum(len(entry["Detail"].encode()) for entry in Entries) < PUT_BYTES_MAX
        if self.failing:
            raise self.failing
        answers = [self._take(entry) for entry in Entries]
        return {"FailedEntryCount": sum("ErrorCode" in one for one in answers), "Entries": answers}

    def _take(self, entry: dict[str, str]) -> dict[str, str]:
        assert entry["EventBusName"] == os.environ["OUTCOME_BUS"]
        event = checked_event(json.loads(entry["Detail"]))
        assert entry["DetailType"] == event["type"]
        assert entry["Source"] == event["type"].partition(".")[0]
        if code := self.refuses(event):
            return {"ErrorCode": code, "ErrorMessage": "no"}
        self.taken.append(event)
        return {"EventId": str(len(self.taken))}


@dataclass
class OrderedTopic:
    """A FIFO topic that keeps each message once, or raises the result of `failing`."""

    failing: Callable[[dict[str, Any]], BaseException | None] = lambda event: None
    taken: list[dict[str, Any]] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)

    def publish(self, *, TopicArn: str, Message: str, **message: Any) -> dict[str, Any]:  # noqa: N803
        assert TopicArn == os.environ["ORDERED_TOPIC"]
        event = json.loads(Message)
        assert f"{message['MessageGroupId']}:{event['sequence']}" == event["id"]
        assert message["MessageAttributes"] == {
            "type": {"DataType": "String", "StringValue": event["type"]},
            "status": {"DataType": "String", "StringValue": event["data"]["status"]},
        }
        assert (message["MessageDeduplicationId"] == event["id"]) is ("replayed" not in event)
        if failed := self.failing(event):
            raise failed
        if message["MessageDeduplicationId"] not in self._known:
            self._known.add(message["MessageDeduplicationId"])
            self.taken.append(event)
        return {"MessageId": "1"}


@dataclass
class PageBus:
    """The machines' bus, keeping events and reporting `failed` of them as refused.

    `failing` is raised for each call. An event that breaks its contract raises AssertionError.
    """

    failing: BaseException | None = None
    failed: int = 0
    events: list[tuple[str, Any]] = field(default_factory=list)

    def put_events(self, *, Entries: list[dict[str, str]]) -> dict[str, int]:  # noqa: N803
        if self.failing:
            raise self.failing
        for entry in Entries:
            assert (entry["Source"], entry["EventBusName"]) == ("settlement", os.environ["EVENT_BUS"])
            detail = checked_page(entry["DetailType"], json.loads(entry["Detail"]))
            self.events.append((entry["DetailType"], detail))
        return {"FailedEntryCount": self.failed}


@dataclass
class Topics:
    failing: BaseException | None = None
    published: list[dict[str, str]] = field(default_factory=list)

    def publish(self, **message: str) -> dict[str, str]:
        if self.failing:
            raise self.failing
        self.published.append(message)
        return {"MessageId": "1"}


def execution(name: str, machine: str = "Compensation") -> str:
    return f"arn:aws:states:eu-west-1:123456789012:execution:{machine}:{name}"


def throttled(operation: str) -> ClientError:
    return ClientError({"Error": {"Code": "ThrottlingException", "Message": "canary-account"}}, operation)


def unanswered() -> ReadTimeoutError:
    return ReadTimeoutError(endpoint_url="https://canary-endpoint.invalid")


@dataclass(frozen=True)
class Caller:
    """Calls the webhook as the provider does."""

    secret: str = SECRET
    at: datetime = NOW
    id: str = "evt_1"

    def __call__(
        self,
        body: Any = None,
        *,
        encode: bool = False,
        change: Callable[[dict[str, str]], dict[str, str]] = dict,
        **more: Any,
    ) -> dict[str, Any]:
        """Return a signed call of the webhook as a function URL's event; by default its body is a verdict."""
        sent = text(VERDICT | more) if body is None else body
        signature = Webhook(self.secret).sign(msg_id=self.id, timestamp=self.at, data=sent)
        headers = {
            "content-type": "application/json",
            "webhook-id": self.id,
            "webhook-timestamp": str(int(self.at.timestamp())),
            "webhook-signature": signature,
        }
        return {
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": "/",
            "headers": change(headers),
            "requestContext": {"http": {"method": "POST", "path": "/"}},
            "body": base64.b64encode(sent.encode()).decode() if encode else sent,
            "isBase64Encoded": encode,
        }


signed = Caller()


def past(**by: float) -> datetime:
    return NOW + timedelta(**by)
