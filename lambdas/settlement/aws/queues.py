import os

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement.aws.clients import LazyClient
from settlement.core.model.errors import QueueUnavailable

_client = LazyClient("sqs", Config(connect_timeout=1, read_timeout=3, retries={"total_max_attempts": 1}))


def send(queue: str, body: str, **attributes: str) -> None:
    """Send `body` to a queue. `queue` is the environment variable with the URL. Raises QueueUnavailable."""
    try:
        _client.send_message(
            QueueUrl=os.environ[queue],
            MessageBody=body,
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
            },
        )
    except (ClientError, BotoCoreError) as error:
        raise QueueUnavailable(f"{queue}: the message was not taken: {type(error).__name__}") from None
