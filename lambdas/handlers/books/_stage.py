"""The books in Aurora, where the stage has them, and the sealed journal for the function that fills them."""

import os
import time
from collections.abc import Callable, Iterator

from botocore.exceptions import BotoCoreError, ClientError

from handlers.journal import _journal
from settlement.aws import clients
from settlement.books.data_api import CLIENT_CONFIG, DataApi
from settlement.core.model.errors import JournalUnavailable
from settlement.journal.copy import Bucket
from settlement.journal.objects import Found

_client = clients.LazyClient("rds-data", CLIENT_CONFIG)

DATABASE = "books"

_AWAY = (
    *("InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown"),
    *("KMS.ThrottlingException", "ThrottlingException", "Throttling", "RequestLimitExceeded"),
)
"""S3's answers that are not about one object. The last ones are of KMS, which S3 asks for each of them."""


def books(waits: Callable[[], bool]) -> DataApi:
    """Return the books; `waits` is called while they come back from a pause."""
    return DataApi(
        _client,
        cluster=os.environ["BOOKS_CLUSTER"],
        secret=os.environ["BOOKS_SECRET"],
        database=DATABASE,
        waits=waits,
    )


def pause(seconds: int) -> None:
    """Let time pass."""
    time.sleep(seconds)


class Journal:
    """The sealed journal, of which an object that cannot be read holds up no other one."""

    def __init__(self) -> None:
        self._bucket: Bucket = _journal.copy()

    def objects(self, folder: str, after: str = "") -> Iterator[Found]:
        """Yield the objects of a folder behind a name. Raises JournalUnavailable."""
        try:
            yield from self._bucket.objects(folder, after)
        except ClientError as error:
            raise JournalUnavailable(f"list_object_versions: {error.response['Error']['Code']}") from error
        except BotoCoreError as error:
            raise JournalUnavailable(f"list_object_versions: {type(error).__name__}") from error

    def read(self, found: Found) -> bytes:
        """Return the content of an object. Raises OSError if S3 refuses this one, else JournalUnavailable."""
        try:
            return self._bucket.read(found)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in _AWAY:
                raise JournalUnavailable(f"get_object: {code}") from error
            raise OSError(code) from error
