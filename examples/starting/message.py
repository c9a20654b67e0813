"""Send a settlement to the start queue, which starts it as soon as Step Functions accepts it."""

import json
import os

import boto3

sqs = boto3.client("sqs")


def send(request: dict) -> None:
    """Send a request. After any exception send it again: two messages are still one settlement."""
    sqs.send_message(QueueUrl=os.environ["START_QUEUE_URL"], MessageBody=json.dumps(request))
