"""The dead-letter queue of the start queue."""

import os

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from handlers import _dependencies
from settlement.model.errors import QueueUnavailable

_client = _dependencies.LazyClient(
    "sqs", Config(connect_timeout=1, read_timeout=3, retries={"total_max_attempts": 1})
)


def send(record: SQSRecord, reason: str) -> None:
    """Send a message that can never be started to the dead-letter queue. Raises QueueUnavailable."""
    try:
        _client.send_message(
            QueueUrl=os.environ["START_DEAD_LETTERS"],
            MessageBody=record.body,
            MessageAttributes={
                "reason": {"DataType": "String", "StringValue": reason},
                "message_id": {"DataType": "String", "StringValue": record.message_id},
            },
        )
    except (ClientError, BotoCoreError) as error:
        raise QueueUnavailable(f"the message was not put aside: {type(error).__name__}") from None
