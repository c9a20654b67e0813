"""The settlement table: sends the ledger's writes, and gives failed conditions their meaning."""

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
"""Sends of one write that keeps meeting transient reasons, the first included. An account with many
payments a second is in another transaction most of the time: docs/decisions/2026-11-22-hot-accounts.md.
"""

BACKOFF_BASE_SECONDS, BACKOFF_SECONDS_MAX = 0.05, 0.4
"""Upper bound of the wait before the second try, which doubles with each one (full jitter), and its limit."""

CLIENT_CONFIG = Config(
    connect_timeout=1, read_timeout=2, retries={"mode": "standard", "total_max_attempts": 2}
)
"""The configuration of a function's DynamoDB clients. One send, two attempts of 3 s, ends within the
function's timeout. If slow sends also meet conflicts, Lambda ends the function and the machine calls it
again, which every step tolerates.
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
    """Wait before the next try: full jitter, by the system's random source (a snapshot clones seeds)."""
    bound = min(BACKOFF_BASE_SECONDS * 2 ** (failed_tries - 1), BACKOFF_SECONDS_MAX)
    time.sleep(SystemRandom().uniform(0, bound))


class Store:
    """The settlement table. Every method raises StoreUnavailable if DynamoDB gives no definite answer."""

    def __init__(
        self,
        client: Any,
        table_name: str,
        pause: Callable[[int], None] = pause,
        adds: Sequence[Callable[[Row], Row]] = (),
    ) -> None:
        """Reach a table. Each of `adds` returns a row that is put with what the stage adds to it, in turn."""
        self.client = client
        self.table_name = table_name
        self._pause = pause
        self._adds = adds

    def claim(self, write: Write) -> SettlementState:
        """Put a settlement's row if its key is unclaimed; return the row that is there then."""
        claimed = SettlementState.from_row(write.parameters["Item"])
        try:
            self._call("put_item", [write], **self._parameters(write))
        except AlreadyApplied as earlier:
            found: SettlementState = earlier.found
            return found
        return claimed

    def update(self, write: Write) -> SettlementState:
        """Update a settlement's row; return its state then. Raises the write's refusal.

        If the write counts as already applied, the state is the one that was found. Raises MalformedRow if
        the row is malformed: the update is committed all the same.
        """
        try:
            answer = self._call("update_item", [write], **self._parameters(write), ReturnValues="ALL_NEW")
        except AlreadyApplied as earlier:
            found: SettlementState = earlier.found
            return found
        return SettlementState.from_row(plain(answer["Attributes"]))

    def apply(self, write: Write) -> int | None:
        """Apply an update whose answer tells no row; return its write units, None if it was left alone."""
        try:
            answer = self._call("update_item", [write], **self._parameters(write))
        except AlreadyApplied:
            return None
        return int(answer["ConsumedCapacity"]["CapacityUnits"])

    def put(self, write: Write) -> Row:
        """Put a row unless it is there; return the one that is there then. Raises the write's refusal."""
        try:
            self._call("put_item", [write], **self._parameters(write))
        except AlreadyApplied as earlier:
            telemetry.count("StepReplayed")
            found: Row = earlier.found
            return found
        return dict(write.parameters["Item"])

    def commit(self, transaction: StepTransaction) -> Any:
        """Commit a step as a whole or not at all; return what an earlier call left if one has committed it.

        That is what the transaction's gate finds: the settlement's state, or the row of the evidence. It is
        None if this call commits the step. Raises the refusal of the first write whose condition failed.
        """
        try:
            self.transact(transaction.writes)
        except AlreadyApplied as earlier:
            telemetry.count("StepReplayed")
            return earlier.found
        if transaction.metric:
            telemetry.count(transaction.metric)
        return None

    def record(self, writes: Sequence[Write]) -> Row:
        """Commit an order's row, the first of the writes, with its effect; return the row on record.

        That is an earlier call's if it has committed the order. Raises the refusal of the first write whose
        condition failed.
        """
        try:
            self.transact(writes)
        except AlreadyApplied as earlier:
            telemetry.count("StepReplayed")
            found: Row = earlier.found
            return found
        return dict(writes[0].parameters["Item"])

    def transact(self, writes: Sequence[Write]) -> None:
        """Commit all the writes or none. Raises the refusal of the first whose condition failed."""
        items = [{write.action: self._parameters(write)} for write in writes]
        self._call("transact_write_items", writes, TransactItems=items)

    def settlement(self, key: str) -> SettlementState | None:
        """Read a settlement consistently; None if no request has claimed the key."""
        return self.listed_settlement(keys.settlement(key))

    def listed_settlement(self, listed: Row) -> SettlementState | None:
        """Read the very row that the index lists, consistently. Raises MalformedRow for any other row."""
        row = self.read({"pk": listed["pk"], "sk": listed["sk"]})
        return SettlementState.from_row(row) if row else None

    def account(self, account: str, *, may_lag: bool = False) -> AccountState | None:
        """Read a customer's account; None if there is none.

        If the read `may_lag`, it takes half a unit, and may lack the account's latest changes, or all of it.
        """
        row = self._row(keys.account(account), may_lag=True) if may_lag else self.read(keys.account(account))
        return AccountState.from_row(row) if row else None

    def evidence(self, key: str, step: str) -> Row | None:
        """Read a fact on record consistently; None if there is none."""
        return self.read(keys.evidence(key, step))

    def waiting(self, state: SettlementState) -> Row | None:
        """Read which execution waits for the decision on the open case; None if none does."""
        row = self.read(keys.waiting(state.key))
        return row if row and row["case"] == state.case_number else None

    def read(self, key: Row) -> Row | None:
        """Read one row by its key, consistently; None if there is none. Raises MalformedRow."""
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
        """Yield a partition's rows between two sort keys, in their order, each page read consistently.

        `limit` is the size of a page, for a caller who wants the first rows alone. A row with a number that
        is no integer is left to `unreadable`, with its key and the reason; without it, the query raises
        MalformedRow.
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
        """Read one page of a `scan` or `query` consistently, as DynamoDB answers it."""
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
        """Yield up to `limit` keys that the index lists in a partition, each with its index sort key.

        They are those up to a time, and with `since` no earlier ones; with `after`, one of them, those behind
        it.

        The index lags behind the table, so every decision based on it must be a condition on the row.
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
    """Return an item as a row. Raises MalformedRow, with its name, for a number that is no integer."""
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
    """Return why the write had no effect and should be sent again at once; None if it should not."""
    if error.response["Error"]["Code"] == "TransactionConflictException":
        return "TransactionConflict"
    position = _deciding_position(error)
    code = None if position is None else error.response["CancellationReasons"][position]["Code"]
    return code if code in _TRANSIENT_REASONS else None


def _deciding_position(error: ClientError) -> int | None:
    """Return the position of the reason that decides what a cancelled transaction means: the first one.

    A later reason counts only once the earlier ones are settled. A call that races its own retry may
    meet a conflict on the entry and, behind it, the balance that the retry has just debited: that is a
    replay, which another try finds, not a lack of funds.
    """
    reasons = error.response.get("CancellationReasons", [])
    return next((position for position, reason in enumerate(reasons) if reason["Code"] != "None"), None)


def _failure(error: ClientError, writes: Sequence[Write]) -> Exception | None:
    """Return the meaning of a failed condition or an unavailable service; None for any other error."""
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
    """Return the state of the row that a failed condition returns: None if there is no row."""
    if not item:
        return None
    row = sound(plain(item))
    if keys.is_settlement(row):
        return SettlementState.from_row(row)
    return AccountState.from_row(row) if keys.is_account(row) else row
