"""A reader's inbox. Each outcome event takes effect once, and never after a newer event."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from botocore.exceptions import ClientError

from settlement_client.errors import MalformedAnswer
from settlement_client.fields import Fields, object_of
from settlement_client.outcome import Outcome
from settlement_client.request import KEY

_SEQUENCE = re.compile(r"[1-9][0-9]{0,17}")


@dataclass(frozen=True)
class Event:
    """A snapshot of a settlement after a change. Act on `outcome`, not on `type`."""

    key: str
    sequence: int
    type: str
    time: datetime
    outcome: Outcome


class Arrival(StrEnum):
    """How an event relates to the last recorded event of its settlement."""

    NEXT = "next"
    """The first event, or the recorded event's successor. Apply it."""

    GAP = "gap"
    """A later event: the events between are late or lost. Apply it: it contains their changes.

    Call `status` for the settlement's current state.
    """

    DUPLICATE = "duplicate"
    """The recorded event again. Drop it."""

    LATE = "late"
    """Older than the recorded event. Drop it."""

    @classmethod
    def of(cls, last: int | None, sequence: int) -> "Arrival":
        """Return how a sequence relates to the `last` recorded; None before the first event."""
        if last is None or sequence == last + 1:
            return cls.NEXT
        if sequence == last:
            return cls.DUPLICATE
        return cls.GAP if sequence > last else cls.LATE


class Store(Protocol):
    def newer(self, key: str, sequence: int) -> bool:
        """Record a sequence. Return True if it is above the recorded sequence.

        Do this in one transaction with your own change. With two separate writes, a reader that dies in
        between loses the change or makes it twice.
        """


def parse_event(body: str | bytes | Mapping[str, Any]) -> Event:
    """Return the event in an SQS body, an EventBridge event or a CloudEvent.

    Raises MalformedAnswer with the field. Such a message will never be an outcome event.
    """
    message = object_of(body, "event")
    cloud = message if "specversion" in message else object_of(message.get("detail", ""), "event.detail")
    told = Fields(cloud, "event")
    outcome = Outcome.from_json(told.inner("data").content)
    key = told.text("subject", KEY)
    if outcome.key != key:
        raise MalformedAnswer("event.subject: is not the key in event.data")
    return Event(
        key=key,
        sequence=int(told.text("sequence", _SEQUENCE)),
        type=told.text("type"),
        time=told.instant("time"),
        outcome=outcome,
    )


class DynamoDbInbox:
    """A `Store` in the reader's table. The row (`pk`: the key, `sk`: "inbox") has the last sequence."""

    def __init__(self, client: Any, table: str) -> None:
        self._client, self._table = client, table

    def newer(self, key: str, sequence: int, effects: Sequence[Mapping[str, Any]] = ()) -> bool:
        """Record a sequence and your own writes, all or none. Return False if the sequence is not newer.

        `effects` are items of TransactWriteItems. Raises ClientError if DynamoDB refuses an effect, or if two
        readers conflict. Then nothing is written, and the message comes again.
        """
        record = {
            "TableName": self._table,
            "Key": {"pk": {"S": key}, "sk": {"S": "inbox"}},
            "UpdateExpression": "SET last_sequence = :sequence",
            "ConditionExpression": "attribute_not_exists(last_sequence) OR last_sequence < :sequence",
            "ExpressionAttributeValues": {":sequence": {"N": str(sequence)}},
        }
        try:
            self._client.transact_write_items(TransactItems=[{"Update": record}, *effects])
        except ClientError as error:
            reasons = [reason["Code"] for reason in error.response.get("CancellationReasons", ())]
            if reasons[:1] != ["ConditionalCheckFailed"]:
                raise
            return False
        return True
