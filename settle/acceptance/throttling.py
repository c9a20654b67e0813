"""Recognises exhausted quotas, which prove nothing about the product."""

import re
from collections.abc import Iterable

from botocore.exceptions import ClientError

from settle.order import DoorThrottled


class Throttled(Exception):
    """A quota is exhausted. The message has the figures; `quotas` names the quotas to raise."""

    def __init__(self, message: str, *quotas: str) -> None:
        super().__init__(message)
        self.quotas = quotas


CODES = frozenset(
    (
        *("ThrottlingException", "Throttling", "ThrottledException", "TooManyRequestsException"),
        *("ExecutionLimitExceeded", "RequestLimitExceeded", "ProvisionedThroughputExceededException"),
    )
)

_LAMBDA = "Lambda: Concurrent executions (L-B99A9384)"
_STEP_FUNCTIONS = "Step Functions: the bucket and the refill rate of the throttled call"
_DYNAMODB = "DynamoDB: the write units of the table (`warm_write_units`)"

API = "API Gateway: the API's own rate, and that of all HTTP APIs"

_SIGNS = (
    (re.compile(r"Lambda\.TooManyRequests"), _LAMBDA),
    (re.compile(r"StepFunctions\.(Throttling|ExecutionLimitExceeded)"), _STEP_FUNCTIONS),
    (
        re.compile(r"DynamoDB: (Throttling|ProvisionedThroughputExceeded|RequestLimitExceeded)"),
        _DYNAMODB,
    ),
)

_OF_CALLS = {
    **dict.fromkeys(("StartExecution", "StartSyncExecution", "DescribeExecution"), _STEP_FUNCTIONS),
    **dict.fromkeys(("PutItem", "UpdateItem", "GetItem", "TransactWriteItems", "Query", "Scan"), _DYNAMODB),
    "Invoke": _LAMBDA,
}


def quota_of_error(error: BaseException | None) -> str | None:
    if isinstance(error, DoorThrottled):
        return API
    if not isinstance(error, ClientError) or error.response["Error"].get("Code") not in CODES:
        return None
    return _OF_CALLS.get(error.operation_name, f"the quota of {error.operation_name}")


def quota_of_text(text: str) -> str | None:
    return next((quota for sign, quota in _SIGNS if sign.search(text)), None)


def remedy(quotas: Iterable[str], command: str) -> str:
    raised = "; ".join(sorted({*quotas}))
    return f"raise the quota ({raised}), then run `{command}` again"
