"""The bucket of runs' files. A person's command puts each file once, under its digest."""

import os

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement.aws import clients
from settlement.core.model.errors import StoreUnavailable
from settlement.payruns.file import DamagedFile

PREFIX = "runs/"
BYTES_MAX = 64 * 2**20
"""Maximum size of a file. 100,000 lines of 600 bytes fit; a file with longer lines has fewer."""

_client = clients.LazyClient(
    "s3", Config(connect_timeout=2, read_timeout=20, retries={"total_max_attempts": 2, "mode": "standard"})
)


def name_of(digest: str) -> str:
    return f"{PREFIX}{digest}.jsonl"


def read(digest: str) -> bytes:
    """Read a run's file. Raises DamagedFile if it is missing or too large, and StoreUnavailable."""
    try:
        answer = _client.get_object(Bucket=os.environ["PAYRUNS_BUCKET"], Key=name_of(digest))
        if answer["ContentLength"] > BYTES_MAX:
            raise DamagedFile(f"it has over {BYTES_MAX} bytes")
        content: bytes = answer["Body"].read()
    except ClientError as failed:
        code = failed.response["Error"]["Code"]
        if code == "NoSuchKey":
            raise DamagedFile("it is not in the bucket") from None
        raise StoreUnavailable(f"the bucket: {code}") from None
    except BotoCoreError as failed:
        raise StoreUnavailable(f"the bucket: {type(failed).__name__}") from None
    return content
