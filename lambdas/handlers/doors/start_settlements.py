"""Claim and start a settlement for each message of the start queue."""

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from handlers import _dependencies
from handlers.core import _claim, _trace
from settlement.aws import queues, step_functions
from settlement.core.model import executions, strict_json
from settlement.core.model.errors import (
    IdempotencyConflict,
    InvalidRequest,
    SettlementError,
    StartUnavailable,
)
from settlement.core.model.request import parse_request
from settlement.core.policy import steps
from settlement.core.telemetry import count, logger, observed

_RESERVED_MS = 11_000
"""Time kept for a message: a claim may take 6 s, and a start 4 s."""


@observed("start")
def handler(event: dict[str, Any], context: Any) -> PartialItemFailureResponse:
    """Start each message's settlement. Return messages to receive again, because a service did not answer.

    A malformed or conflicting message goes to the dead-letter queue with the reason. A message must have a
    key. No key is minted, because a redriven message has a new id and would get a second key.
    """

    def start(record: SQSRecord) -> None:
        logger.append_keys(key=None)
        try:
            if context.get_remaining_time_in_millis() < _RESERVED_MS:
                raise StartUnavailable("start: no time is left for this message")
            _start(record)
        except Exception as failure:  # the processor reports it only to the queue
            is_expected = isinstance(failure, SettlementError)
            count(type(failure).__name__ if is_expected else "FunctionFailed")
            logger.warning("not started", message_id=record.message_id, error=type(failure).__name__)
            raise

    processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
    return process_partial_response(event, start, processor, context)


def _start(record: SQSRecord) -> None:
    """Claim, then start on Express. Recovery makes up for an execution that never starts or dies at once.

    A second delivery has the same owner, and starts a PROCESSING settlement that has no step yet.
    If both executions run, the second one's steps are replays.
    """
    try:
        request = parse_request(_content(record.body), _dependencies.config)
        logger.append_keys(key=request.key)
        execution = executions.queued(request.key, record.body)
        settlement, claimed = _claim.claim(request, execution)
    except (InvalidRequest, IdempotencyConflict) as refusal:
        count("StartRefused")
        logger.warning("refused", message_id=record.message_id, error=type(refusal).__name__)
        reason = f"{type(refusal).__name__}: {refusal}"
        queues.send("START_DEAD_LETTERS", record.body, reason=reason, message_id=record.message_id)
        return
    if not (steps.is_replay(claimed, execution) or claimed.steps):
        machine = step_functions.arn("EXPRESS_MACHINE")
        step_functions.start(
            machine, execution, settlement.to_wire(_dependencies.config), _trace.header(settlement.key)
        )


def _content(body: str) -> Any:
    try:
        return strict_json.parse(body)
    except strict_json.Malformed as fault:
        raise InvalidRequest(f"message: {fault}") from None
