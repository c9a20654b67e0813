import os
import time
from collections.abc import Callable, Iterator

from botocore.exceptions import BotoCoreError, ClientError

from settlement.aws import clients
from settlement.books.data_api import CLIENT_CONFIG, DataApi
from settlement.core.model.errors import JournalUnavailable
from settlement.journal import bucket
from settlement.journal.copy import Bucket
from settlement.journal.objects import Found

_client = clients.LazyClient("rds-data", CLIENT_CONFIG)

DATABASE = "books"

_AWAY = (
    *("InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown"),
    *("KMS.ThrottlingException", "ThrottlingException", "Throttling", "RequestLimitExceeded"),
)
"""S3 errors that concern all objects. They include KMS's throttling, as S3 calls KMS for each object."""


def books(waits: Callable[[], bool]) -> DataApi:
    return DataApi(
        _client,
        cluster=os.environ["BOOKS_CLUSTER"],
        secret=os.environ["BOOKS_SECRET"],
        database=DATABASE,
        waits=waits,
    )


def pause(seconds: int) -> None:
    time.sleep(seconds)


class Journal:
    """The sealed journal. Raises OSError for an unreadable object, else JournalUnavailable."""

    def __init__(self) -> None:
        self._bucket: Bucket = bucket.copy()

    def objects(self, folder: str, after: str = "") -> Iterator[Found]:
        try:
            yield from self._bucket.objects(folder, after)
        except ClientError as error:
            raise JournalUnavailable(f"list_object_versions: {error.response['Error']['Code']}") from error
        except BotoCoreError as error:
            raise JournalUnavailable(f"list_object_versions: {type(error).__name__}") from error

    def read(self, found: Found) -> bytes:
        try:
            return self._bucket.read(found)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in _AWAY:
                raise JournalUnavailable(f"get_object: {code}") from error
            raise OSError(code) from error
