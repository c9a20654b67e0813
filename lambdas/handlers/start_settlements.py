"""StartSettlements: claim and start a settlement for each message of the start queue."""

import hashlib
import json
from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from handlers import _gate, _machines, _queues, _runtime
from settlement import steps
from settlement.errors import IdempotencyConflict, InvalidRequest, SettlementError, StartUnavailable
from settlement.request import parse_request
from settlement.telemetry import count, logger, observed

_RESERVED_MS = 11_000
"""A message is not begun with less time left: the answers to its claim and its start may take so long."""


@observed("start")
def handler(event: dict[str, Any], context: Any) -> PartialItemFailureResponse:
    """Return the messages that are to be received again, as a service gave no answer.

    One that breaks the contract, or whose key was claimed with other content, goes to the dead-letter queue
    with the reason. Each message is on its own. A key is required here in every stage: what a message could
    be given one by changes when it is sent back from the dead-letter queue.
    """

    def start(record: SQSRecord) -> None:
        logger.append_keys(key=None)
        try:
            if context.get_remaining_time_in_millis() < _RESERVED_MS:
                raise StartUnavailable("start: no time is left for this message")
            _start(record)
        except Exception as failure:  # the processor tells the queue, and nobody else
            is_foreseen = isinstance(failure, SettlementError)
            count(type(failure).__name__ if is_foreseen else "FunctionFailed")
            logger.warning("not started", message_id=record.message_id, error=type(failure).__name__)
            raise

    processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
    return process_partial_response(event, start, processor, context)


def _start(record: SQSRecord) -> None:
    """Claim first: from then on recovery sees to it, should the execution never start, or die at once.

    The same message, delivered twice, has the same owner, and so drives on what its first delivery began.
    """
    digest = hashlib.sha256(record.body.encode()).hexdigest()[:12]
    try:
        request = parse_request(_content(record.body), _runtime.terms)
        logger.append_keys(key=request.key)
        owner = f"{request.key}-{digest}"
        settlement, claimed = _gate.claim(request, owner)
    except (InvalidRequest, IdempotencyConflict) as refusal:
        count("StartRefused")
        logger.warning("refused", message_id=record.message_id, error=type(refusal).__name__)
        _queues.put_aside(record, f"{type(refusal).__name__}: {refusal}")
        return
    if not steps.is_replay(claimed, owner):
        _machines.start(_machines.arn("SETTLEMENT_MACHINE"), owner, settlement.to_wire(_runtime.terms))


def _content(body: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequest("message: must be a request in JSON") from None
