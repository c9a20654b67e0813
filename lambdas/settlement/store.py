"""The only way to DynamoDB for a step: sends what `items` shaped, gives failed conditions their meaning."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from random import SystemRandom
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as UnreachableError

from settlement import rows, telemetry
from settlement.errors import StoreUnavailable
from settlement.rows import Row
from settlement.writes import Posting, Standing, Write

TRIES_MAX = 3
"""Sends of one write that keeps meeting transient reasons, the first included."""

BACKOFF_BASE_SECONDS = 0.05
"""Upper bound of the wait before the second try; it doubles with each one (full jitter)."""

CLIENT_CONFIG = Config(
    connect_timeout=1, read_timeout=2, retries={"mode": "standard", "total_max_attempts": 2}
)
"""Of every DynamoDB client of a function. One send, two attempts of 3 s, ends within a function's timeout; if
slow sends also meet conflicts, the function is cut off and called again, which a step can bear.
"""

_ROWS = ("Item", "Key", "ExpressionAttributeValues")
_TRANSIENT_REASONS = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})
_TRANSIENT_ERRORS = frozenset(  # and every answer with an HTTP status from 500 up
    {
        "InternalServerError",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "ThrottlingException",
        "TransactionInProgressException",
    }
)


def pause(failed_tries: int) -> None:
    """Wait before the next try: full jitter, from the system's randomness (a snapshot clones seeds)."""
    time.sleep(SystemRandom().uniform(0, BACKOFF_BASE_SECONDS * 2 ** (failed_tries - 1)))


class Store:
    """The settlement table. Every method raises StoreUnavailable where DynamoDB gives no definite answer."""

    def __init__(self, client: Any, table_name: str, pause: Callable[[int], None] = pause) -> None:
        self._client = client
        self._table_name = table_name
        self._pause = pause

    def claim(self, write: Write) -> Row:
        """Put a row that nobody may have put before; return the row that stands, this one or the earlier."""
        try:
            self._call("put_item", [write], **self._parameters(write))
        except Standing as standing:
            return standing.row
        return dict(write.parameters["Item"])

    def update(self, write: Write) -> Row:
        """Make a conditional update; return the row as it stands after it. Raises the write's refusal."""
        try:
            answer = self._call("update_item", [write], **self._parameters(write), ReturnValues="ALL_NEW")
        except Standing as standing:
            return standing.row
        return from_wire(answer["Attributes"])

    def post(self, posting: Posting) -> Row:
        """Commit a step as a whole or not at all; return its journal entry, this call's or the earlier one's.

        Raises the refusal of the first write whose condition failed.
        """
        try:
            self.transact(posting.writes)
        except Standing as standing:
            telemetry.count("StepReplayed")
            return standing.row
        if posting.counted:
            telemetry.count(posting.counted)
        return dict(posting.entry.parameters["Item"])

    def transact(self, writes: Sequence[Write]) -> None:
        """Commit all the writes or none. Raises the refusal of the first whose condition failed."""
        items = [{write.action: self._parameters(write)} for write in writes]
        self._call("transact_write_items", writes, TransactItems=items)

    def read(self, key: Row) -> Row | None:
        """Read one row by its key, consistently; None where there is none."""
        answer = self._call(
            "get_item", [], TableName=self._table_name, Key=_to_wire(key), ConsistentRead=True
        )
        return _row(answer.get("Item"))

    def listed(self, partition: str, *, up_to: str, limit: int) -> Iterator[Row]:
        """The first `limit` keys that the index lists in a partition up to a sort key, and their sort keys.

        The index lags behind the table, so whatever follows from this must be a condition on the row.
        """
        parameters: dict[str, Any] = {
            "TableName": self._table_name,
            "IndexName": rows.INDEX,
            "KeyConditionExpression": "gsi1pk = :partition AND gsi1sk <= :up_to",
            "ProjectionExpression": "pk, sk, gsi1sk",
            "ExpressionAttributeValues": _to_wire({":partition": partition, ":up_to": up_to}),
        }
        while limit > 0:
            answer = self._call("query", [], **parameters, Limit=limit)
            yield from map(from_wire, answer["Items"])
            limit -= len(answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            parameters["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _call(self, operation: str, writes: Sequence[Write], **parameters: Any) -> Any:
        send = getattr(self._client, operation)
        for tries in range(1, TRIES_MAX + 1):
            try:
                answer = send(**parameters, ReturnConsumedCapacity="TOTAL")
            except (UnreachableError, HTTPClientError) as unreachable:
                raise StoreUnavailable(f"DynamoDB: {type(unreachable).__name__}") from unreachable
            except ClientError as error:
                telemetry.called(operation, None)
                transient = _transient_reason(error)
                if transient is None:
                    raise _refusal(error, writes) or error from None
                telemetry.count(transient)
                if tries < TRIES_MAX:
                    self._pause(tries)
            else:
                telemetry.called(operation, answer["ConsumedCapacity"])
                return answer
        raise StoreUnavailable(f"DynamoDB: {transient} in each of {TRIES_MAX} tries")

    def _parameters(self, write: Write) -> dict[str, Any]:
        given = write.parameters
        return {
            **given,
            **{name: _to_wire(given[name]) for name in _ROWS if name in given},
            "TableName": self._table_name,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }


def _transient_reason(error: ClientError) -> str | None:
    """Why the write had no effect and should be sent again at once; None where that is not so."""
    if error.response["Error"]["Code"] == "TransactionConflictException":
        return "TransactionConflict"
    position = _deciding_position(error)
    code = None if position is None else error.response["CancellationReasons"][position]["Code"]
    return code if code in _TRANSIENT_REASONS else None


def _deciding_position(error: ClientError) -> int | None:
    """The position of the reason that decides what a cancelled transaction means: the first there is.

    A reason further back is not believed before the ones in front of it are settled. A call that
    runs against its own twin may meet a conflict on the entry and, behind it, the very balance that
    its twin has just taken: that is a replay, to be found by trying again, not a lack of funds.
    """
    reasons = error.response.get("CancellationReasons", [])
    return next((position for position, reason in enumerate(reasons) if reason["Code"] != "None"), None)


def _refusal(error: ClientError, writes: Sequence[Write]) -> Exception | None:
    """What a failed condition or an unavailable service means; None where the error is no such thing."""
    code = error.response["Error"]["Code"]
    if code == "ConditionalCheckFailedException":
        return writes[0].refusal(_row(error.response.get("Item")))
    http_status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _TRANSIENT_ERRORS or http_status >= 500:
        return StoreUnavailable(f"DynamoDB: {code}")
    position = _deciding_position(error)
    if position is None:
        return None
    reason = error.response["CancellationReasons"][position]
    if reason["Code"] != "ConditionalCheckFailed":
        return None
    return writes[position].refusal(_row(reason.get("Item")))


def _to_wire(row: Mapping[str, Any]) -> dict[str, Any]:
    serializer = TypeSerializer()
    return {name: serializer.serialize(value) for name, value in row.items()}


def _row(item: Mapping[str, Any] | None) -> Row | None:
    return from_wire(item) if item else None


def from_wire(item: Mapping[str, Any]) -> Row:
    """A row as plain Python. Raises ValueError for a number that is no integer: the table holds none."""
    deserializer = TypeDeserializer()
    return {name: _plain(deserializer.deserialize(value)) for name, value in item.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        if value != value.to_integral_value():
            raise ValueError(f"a row holds {value}, but every number in the table is an integer")
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    return value
