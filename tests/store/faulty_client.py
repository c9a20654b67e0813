"""A client of DynamoDB whose writes fail on demand."""

from contextlib import suppress
from enum import StrEnum
from typing import Any

from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError

from tests.support.memory_dynamodb import MemoryDynamoDb, error


class Fault(StrEnum):
    """The faults that the writes of one rule may meet."""

    NONE = "none"
    CONFLICT = "a conflict once"
    CONFLICTS = "a conflict each time"
    THROTTLED = "throttled"
    UNREACHED = "not reached"
    LOST = "applied, and the answer lost"


class FaultyClient:
    """Sends to the table, under `fault`."""

    def __init__(self, table: MemoryDynamoDb) -> None:
        self._table, self.fault = table, Fault.NONE

    def get_item(self, **parameters: Any) -> Any:
        return self._table.get_item(**parameters)

    def put_item(self, **parameters: Any) -> Any:
        return self._write("put_item", parameters)

    def update_item(self, **parameters: Any) -> Any:
        return self._write("update_item", parameters)

    def transact_write_items(self, **parameters: Any) -> Any:
        return self._write("transact_write_items", parameters)

    def _write(self, operation: str, parameters: dict[str, Any]) -> Any:
        if self.fault in (Fault.CONFLICT, Fault.CONFLICTS):
            if self.fault is Fault.CONFLICT:
                self.fault = Fault.NONE
            raise self._conflict(operation, parameters)
        if self.fault is Fault.THROTTLED:
            raise error(operation, "ThrottlingException", "Rate exceeded")
        if self.fault is Fault.UNREACHED:
            raise ConnectTimeoutError(endpoint_url="https://dynamodb.invalid")
        if self.fault is Fault.LOST:
            with suppress(ClientError):  # the answer of a refusal is lost as well
                getattr(self._table, operation)(**parameters)
            raise ReadTimeoutError(endpoint_url="https://dynamodb.invalid")
        return getattr(self._table, operation)(**parameters)

    def _conflict(self, operation: str, parameters: dict[str, Any]) -> ClientError:
        """Return a conflict on the first row, with the reasons of the rows behind it."""
        if operation != "transact_write_items":
            return error(operation, "TransactionConflictException", "Transaction is ongoing for the item")
        writes = [write for item in parameters["TransactItems"] for write in item.values()]
        reasons = self._table.reasons(writes)
        reasons[0] = {"Code": "TransactionConflict"}
        return error(operation, "TransactionCanceledException", "cancelled", CancellationReasons=reasons)
