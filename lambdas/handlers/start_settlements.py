"""StartSettlements: claim and start a settlement for each message of the start queue."""

import hashlib
import json
import os
from typing import Any

import boto3
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from botocore.config import Config

from handlers import _gate, _machines, _runtime
from settlement import steps
from settlement.errors import IdempotencyConflict, InvalidRequest
from settlement.telemetry import count, logger, observed

_queues = boto3.client(
    "sqs", config=Config(connect_timeout=1, read_timeout=3, retries={"total_max_attempts": 2})
)


@observed("start")
def handler(event: dict[str, Any], context: Any) -> PartialItemFailureResponse:
    """Return the messages that are to be received again, as a service gave no answer.

    One that breaks the contract, or whose key was claimed with other content, goes to the dead-letter queue
    with the reason. Each message is on its own.
    """
    processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
    return process_partial_response(event, _start, processor, context)


def _start(record: SQSRecord) -> None:
    """Claim first: from then on recovery sees to it, should the execution never start, or die at once.

    The same message, delivered twice, has the same owner, and so drives on what its first delivery began.
    """
    digest = hashlib.sha256(record.body.encode()).hexdigest()[:12]
    try:
        request = _gate.parse(_content(record.body), record.message_id)
        owner = f"{request.key}-{digest}"
        settlement, claimed = _gate.claim(request, owner)
    except (InvalidRequest, IdempotencyConflict) as refusal:
        count("StartRefused")
        logger.warning("refused", message_id=record.message_id, error=type(refusal).__name__)
        _put_aside(record, f"{type(refusal).__name__}: {refusal}")
        return
    if not steps.is_replay(claimed, owner):
        _machines.start(_machines.arn("SETTLEMENT_MACHINE"), owner, settlement.to_wire(_runtime.terms))


def _content(body: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequest("message: must be a request in JSON") from None


def _put_aside(record: SQSRecord, reason: str) -> None:
    _queues.send_message(
        QueueUrl=os.environ["START_DEAD_LETTERS"],
        MessageBody=record.body,
        MessageAttributes={
            "reason": {"DataType": "String", "StringValue": reason},
            "message_id": {"DataType": "String", "StringValue": record.message_id},
        },
    )
