"""How a function sends a message on that it can make nothing of."""

import os

import boto3
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from botocore.config import Config

_client = boto3.client(
    "sqs", config=Config(connect_timeout=1, read_timeout=3, retries={"total_max_attempts": 1})
)


def put_aside(record: SQSRecord, reason: str) -> None:
    """Send a message of the start queue to its dead-letter queue, with the reason."""
    _client.send_message(
        QueueUrl=os.environ["START_DEAD_LETTERS"],
        MessageBody=record.body,
        MessageAttributes={
            "reason": {"DataType": "String", "StringValue": reason},
            "message_id": {"DataType": "String", "StringValue": record.message_id},
        },
    )
