"""Sends the ledger's writes, and translates failed conditions."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import SystemRandom
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as UnreachableError

from settlement.core import telemetry
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, StepTransaction, Write
from settlement.core.model.errors import StoreUnavailable
from settlement.core.model.state import AccountState, SettlementState
from settlement.core.model.stored import MalformedRow, Stored, sound, subject_of
from settlement.core.store.wire import from_wire, to_wire

TRIES_MAX = 6
"""Maximum sends of a write. A busy account is in another transaction most of the time:
docs/decisions/2026-11-22-hot-accounts.md.
"""

BACKOFF_BASE_SECONDS, BACKOFF_SECONDS_MAX = 0.05, 0.4
"""The first and the longest wait. Each try doubles the wait (full jitter)."""

CLIENT_CONFIG = Config(
    connect_timeout=1, read_timeout=2, retries={"mode": "standard", "total_max_attempts": 2}
)
"""Two attempts of 3 s end within the function's timeout.

Slow sends with conflicts may take longer. Then Lambda ends the function, and the machine calls it again.
Every step tolerates that.
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
    """Wait with full jitter, from the system's random source, because a snapshot would clone a seed."""
    bound = min(BACKOFF_BASE_SECONDS * 2 ** (failed_tries - 1), BACKOFF_SECONDS_MAX)
    time.sleep(SystemRandom().uniform(0, bound))


class Store:
    """The settlement table.

    A method raises StoreUnavailable if DynamoDB gives no definite answer. Otherwise it raises the refusal of
    the first failed condition.
    """

    def __init__(
        self,
        client: Any,
        table_name: str,
        pause: Callable[[int], None] = pause,
        adds: Sequence[Callable[[Row], Row]] = (),
    ) -> None:
        """Each function of `adds` completes a row before it is put."""
        self.client = client
        self.table_name = table_name
        self._pause = pause
        self._adds = adds

    def claim(self, write: Write) -> SettlementState:
        """Put a row, if its key is unclaimed. Return the recorded state."""
        claimed = SettlementState.from_row(write.parameters["Item"])
        try:
            self._call("put_item", [write], **self._parameters(write))
        except AlreadyApplied as earlier:
            found: SettlementState = earlier.found
            return found
        return claimed

    def update(self, write: Write) -> SettlementState:
        """Update a settlement. Return the new state, or the found state if applied before.

        Raises the write's refusal, or MalformedRow if the updated row is unreadable.
        """
        try:
            answer = self._call("update_item", [write], **self._parameters(write), ReturnValues="ALL_NEW")
        except AlreadyApplied as earlier:
            found: SettlementState = earlier.found
            return found
        return SettlementState.from_row(plain(answer["Attributes"]))

    def apply(self, write: Write) -> int | None:
        """Send an update. Return its write units. None: it was applied before."""
        try:
            answer = self._call("update_item", [write], **self._parameters(write))
        except AlreadyApplied:
            return None
        return int(answer["ConsumedCapacity"]["CapacityUnits"])

    def put(self, write: Write) -> Row:
        """Put a row, if it does not exist. Return the recorded row. Raises the write's refusal."""
        try:
            self._call("put_item", [write], **self._parameters(write))
        except AlreadyApplied as earlier:
            telemetry.count("StepReplayed")
            found: Row = earlier.found
            return found
        return dict(write.parameters["Item"])

    def commit(self, transaction: StepTransaction) -> Any:
        """Commit a step. Return None, or an earlier commit's state or row."""
        try:
            self.transact(transaction.writes)
        except AlreadyApplied as earlier:
            telemetry.count("StepReplayed")
            return earlier.found
        if transaction.metric:
            telemetry.count(transaction.metric)
        return None

    def record(self, writes: Sequence[Write]) -> Row:
        """Commit an order's row, the first write, with the order's effect. Return the recorded row."""
        try:
            self.transact(writes)
        except AlreadyApplied as earlier:
            telemetry.count("StepReplayed")
            found: Row = earlier.found
            return found
        return dict(writes[0].parameters["Item"])

    def transact(self, writes: Sequence[Write]) -> None:
        items = [{write.action: self._parameters(write)} for write in writes]
        self._call("transact_write_items", writes, TransactItems=items)

    def settlement(self, key: str) -> SettlementState | None:
        return self.listed_settlement(keys.settlement(key))

    def listed_settlement(self, listed: Row) -> SettlementState | None:
        """Read a listed settlement consistently. Raises MalformedRow for another kind of row."""
        row = self.read({"pk": listed["pk"], "sk": listed["sk"]})
        return SettlementState.from_row(row) if row else None

    def account(self, account: str, *, may_lag: bool = False) -> AccountState | None:
        """Read an account. `may_lag` halves the cost, but may miss changes."""
        row = self._row(keys.account(account), may_lag=True) if may_lag else self.read(keys.account(account))
        return AccountState.from_row(row) if row else None

    def evidence(self, key: str, step: str) -> Row | None:
        return self.read(keys.evidence(key, step))

    def waiting(self, state: SettlementState) -> Row | None:
        """The row of the execution that waits on the open case."""
        row = self.read(keys.waiting(state.key))
        return row if row and row["case"] == state.case_number else None

    def read(self, key: Row) -> Row | None:
        """Read a row consistently; None if absent. Raises MalformedRow."""
        return self._row(key)

    def entries(
        self,
        partition: str,
        first: str,
        last: str,
        *,
        limit: int | None = None,
        unreadable: Callable[[Row, str], None] | None = None,
    ) -> Iterator[Row]:
        """Yield rows between two sort keys, in order. Each page is read consistently.

        `limit` is the page size. `unreadable` gets the key of a row with a fractional number, and the reason.
        Without it, such a row raises MalformedRow.
        """
        parameters: dict[str, Any] = {
            "TableName": self.table_name,
            "KeyConditionExpression": "pk = :partition AND sk BETWEEN :first AND :last",
            "ExpressionAttributeValues": to_wire({":partition": partition, ":first": first, ":last": last}),
            "ConsistentRead": True,
            **({} if limit is None else {"Limit": limit}),
        }
        while True:
            answer = self._call("query", [], **parameters)
            yield from _rows(answer["Items"], unreadable)
            if "LastEvaluatedKey" not in answer:
                return
            parameters["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def page(self, operation: str, **parameters: Any) -> Row:
        page: Row = self._call(operation, [], TableName=self.table_name, ConsistentRead=True, **parameters)
        return page

    def listed(
        self,
        partition: str,
        *,
        up_to: str,
        limit: int,
        since: str | None = None,
        after: Row | None = None,
    ) -> Iterator[Row]:
        """Yield up to `limit` index keys from `since` to `up_to`, after the key `after`.

        The index lags. Decide only by a condition on the row.
        """
        times = "gsi1sk <= :up_to" if since is None else "gsi1sk BETWEEN :since AND :up_to"
        values = {":partition": partition, ":up_to": up_to} | ({} if since is None else {":since": since})
        parameters: dict[str, Any] = {
            "TableName": self.table_name,
            "IndexName": keys.INDEX,
            "KeyConditionExpression": f"gsi1pk = :partition AND {times}",
            "ProjectionExpression": "pk, sk, gsi1sk",
            "ExpressionAttributeValues": to_wire(values),
        }
        if after:
            parameters["ExclusiveStartKey"] = to_wire({**after, "gsi1pk": partition})
        while limit > 0:
            answer = self._call("query", [], **parameters, Limit=limit)
            yield from map(from_wire, answer["Items"])
            limit -= len(answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            parameters["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _row(self, key: Row, *, may_lag: bool = False) -> Row | None:
        named = {"TableName": self.table_name, "Key": to_wire(key)}
        answer = self._call("get_item", [], **named, ConsistentRead=not may_lag)
        return sound(plain(answer["Item"])) if answer.get("Item") else None

    def _call(self, operation: str, writes: Sequence[Write], **parameters: Any) -> Any:
        send = getattr(self.client, operation)
        for tries in range(1, TRIES_MAX + 1):
            try:
                answer = send(**parameters, ReturnConsumedCapacity="TOTAL")
            except (UnreachableError, HTTPClientError) as unreachable:
                raise StoreUnavailable(f"DynamoDB: {type(unreachable).__name__}") from unreachable
            except ClientError as error:
                telemetry.called(operation, None)
                transient = _transient_reason(error)
                if transient is None:
                    raise _failure(error, writes) or error from None
                telemetry.count(transient)
                if tries < TRIES_MAX:
                    self._pause(tries)
            else:
                telemetry.called(operation, answer["ConsumedCapacity"])
                return answer
        raise StoreUnavailable(f"DynamoDB: {transient} in each of {TRIES_MAX} tries")

    def _parameters(self, write: Write) -> dict[str, Any]:
        given = write.parameters
        if write.action == "Put":
            item = given["Item"]
            for add in self._adds:
                item = add(item)
            given = {**given, "Item": item}
        return {
            **given,
            **{name: to_wire(given[name]) for name in _ROWS if name in given},
            "TableName": self.table_name,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }


def plain(item: Mapping[str, Any]) -> Stored:
    """Convert from the wire format. Raises MalformedRow for a non-integer number."""
    try:
        return Stored(from_wire(item))
    except ValueError as wrong:
        name = subject_of(from_wire({"pk": item["pk"]}))
        raise MalformedRow(f"{name}: {wrong}") from None


def _rows(items: Sequence[Mapping[str, Any]], unreadable: Callable[[Row, str], None] | None) -> Iterator[Row]:
    for item in items:
        try:
            row = plain(item)
        except MalformedRow as wrong:
            if unreadable is None:
                raise
            unreadable(from_wire({name: item[name] for name in ("pk", "sk")}), str(wrong))
        else:
            yield row


def _transient_reason(error: ClientError) -> str | None:
    if error.response["Error"]["Code"] == "TransactionConflictException":
        return "TransactionConflict"
    position = _deciding_position(error)
    code = None if position is None else error.response["CancellationReasons"][position]["Code"]
    return code if code in _TRANSIENT_REASONS else None


def _deciding_position(error: ClientError) -> int | None:
    """Return the position of the first failed write, which alone decides the error.

    If a call races its own retry, the entry fails first, which means a replay. The balance may fail later,
    because the retry has debited it.
    """
    reasons = error.response.get("CancellationReasons", [])
    return next((position for position, reason in enumerate(reasons) if reason["Code"] != "None"), None)


def _failure(error: ClientError, writes: Sequence[Write]) -> Exception | None:
    code = error.response["Error"]["Code"]
    if code == "ConditionalCheckFailedException":
        return writes[0].on_failure(_state(error.response.get("Item")))
    http_status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _TRANSIENT_ERRORS or http_status >= 500:
        return StoreUnavailable(f"DynamoDB: {code}")
    position = _deciding_position(error)
    if position is None:
        return None
    reason = error.response["CancellationReasons"][position]
    if reason["Code"] != "ConditionalCheckFailed":
        return None
    return writes[position].on_failure(_state(reason.get("Item")))


def _state(item: Mapping[str, Any] | None) -> SettlementState | AccountState | Row | None:
    if not item:
        return None
    row = sound(plain(item))
    if keys.is_settlement(row):
        return SettlementState.from_row(row)
    return AccountState.from_row(row) if keys.is_account(row) else row
