"""A scripted DynamoDB client, for answers that no local engine gives."""

from collections.abc import Callable
from functools import partial
from typing import Any

from boto3.dynamodb.types import TypeSerializer
from botocore.exceptions import ClientError

from settlement.core.ledger import keys
from settlement.core.model.status import Step
from settlement.core.store.dynamodb import Store
from tests.store.rows import HELD
from tests.world.saga import ALICE, CLAIMED, ENTRIES

Reason = tuple[str, keys.Row | None]
Call = Callable[[Store], Any]

NONE: Reason = ("None", None)
CONFLICT: Reason = ("TransactionConflict", None)
HTTP_STATUS = {"InternalServerError": 500, "ServiceUnavailable": 503}


class Scripted:
    def __init__(self, *answers: Any) -> None:
        self.answers = iter(answers)
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Any:
        return partial(self._send, operation)

    def _send(self, operation: str, **parameters: Any) -> Any:
        assert parameters.pop("ReturnConsumedCapacity") == "TOTAL"
        self.sent.append((operation, parameters))
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def wire(row: keys.Row) -> dict[str, Any]:
    return {name: TypeSerializer().serialize(value) for name, value in row.items()}


def failed(code: str, **response: Any) -> ClientError:
    metadata = {"HTTPStatusCode": HTTP_STATUS.get(code, 400)}
    said = {"Error": {"Code": code, "Message": "as DynamoDB says"}, "ResponseMetadata": metadata}
    return ClientError({**said, **response}, "Any")


def cancelled(*reasons: Reason) -> ClientError:
    said = [{"Code": code} | ({"Item": wire(row)} if row else {}) for code, row in reasons]
    return failed("TransactionCanceledException", CancellationReasons=said)


def check_failed(row: keys.Row | None) -> Reason:
    return ("ConditionalCheckFailed", row)


REPLAYED = check_failed(HELD)
FENCED = check_failed(CLAIMED | {"status": "COMPENSATING"})
TAKEN = check_failed(ENTRIES[Step.HOLD])
POOR = check_failed(ALICE | {"available": 1})
"""A hold's cancellation reasons: two of its settlement, TAKEN of its entry, POOR of its balance."""

COMMITTED = {"ConsumedCapacity": [{"TableName": "t", "CapacityUnits": 7.0}]}
ANSWERED = {"ConsumedCapacity": {"TableName": "t", "CapacityUnits": 1.0}}
MALFORMED = {name: value for name, value in CLAIMED.items() if name != "owner"}
