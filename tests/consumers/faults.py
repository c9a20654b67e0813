from collections.abc import Sequence
from typing import Any

from botocore.exceptions import ReadTimeoutError

from tests.world.memory_dynamodb import error


class Killed(BaseException):
    """Ends the environment, past all exception handlers."""


class Dying:
    """DynamoDB client that applies the next fault to each transaction."""

    def __init__(self, client: Any, faults: Sequence[str] = ()) -> None:
        self.client, self.faults = client, list(faults)

    def transact_write_items(self, **parameters: Any) -> Any:
        fault = self.faults.pop(0) if self.faults else "none"
        if fault == "dies before":
            raise Killed
        if fault == "conflict":
            reasons = [{"Code": "TransactionConflict"}, {"Code": "None"}]
            raise error(
                "transact_write_items", "TransactionCanceledException", "", CancellationReasons=reasons
            )
        answer = self.client.transact_write_items(**parameters)
        if fault == "dies after":
            raise Killed
        if fault == "answer lost":
            raise ReadTimeoutError(endpoint_url="https://dynamodb.invalid")
        return answer
