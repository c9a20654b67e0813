"""The books in Aurora PostgreSQL, over the RDS Data API. The API needs only HTTPS, and no VPC."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from settlement.books.page import Query
from settlement.core.model.errors import BooksUnavailable

CLIENT_CONFIG = Config(connect_timeout=2, read_timeout=50, retries={"total_max_attempts": 1})
"""Never resend a statement: the second try would take its own inbox row for another projection's row.

The Data API allows a statement 45 seconds.
"""

_RESUMING = "DatabaseResumingException"
_REFUSED = (
    *("BadRequestException", "DatabaseErrorException"),
    *("StatementTimeoutException", "UnsupportedResultException"),
)
"""Errors about one SQL statement. Source: https://docs.aws.amazon.com/rdsdataservice/latest/APIReference/."""

_STATE = re.compile(r"; SQLState: ([0-9A-Z]{5})\Z")
"""The SQLSTATE at the end of the database's message. Earlier text may be a line of the journal."""

_PASSING = ("08", "40", "53", "55", "57")
"""SQLSTATE classes of faults that the statement did not cause.

They are: lost connection, deadlock, lack of resources, busy lock, operator's intervention.
"""


class DataApi:
    """A cluster's database, with the secret of a database user.

    The cluster may be paused. While it resumes, each retry first calls `waits`. `waits` returns False if no
    time is left.
    """

    def __init__(
        self,
        client: Any,
        *,
        cluster: str,
        secret: str,
        database: str,
        waits: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client, self._database, self._waits = client, database, waits
        self._who = {"resourceArn": cluster, "secretArn": secret}

    @contextmanager
    def transaction(self) -> Iterator[Query]:
        """Commit at the end; roll back after an exception.

        Raises BooksUnavailable. If a commit has no answer, the next round takes the object again, and
        the inbox shows whether the commit succeeded. The Data API rolls an abandoned transaction back after
        three minutes.
        """
        begun = self._begin()

        def query(statement: str, **parameters: str | int) -> list[list[Any]]:
            answer = self._call(
                "execute_statement",
                transactionId=begun,
                database=self._database,
                sql=statement,
                parameters=[{"name": name, "value": _field(value)} for name, value in parameters.items()],
            )
            return [[_value(one) for one in row] for row in answer.get("records", ())]

        try:
            yield query
        except BaseException:
            with suppress(BooksUnavailable):
                self._call("rollback_transaction", transactionId=begun)
            raise
        self._call("commit_transaction", transactionId=begun)

    def _begin(self) -> str:
        while True:
            try:
                begun: str = self._call("begin_transaction", database=self._database)["transactionId"]
            except BooksUnavailable as unavailable:
                if not (unavailable.is_resuming and self._waits()):
                    raise
            else:
                return begun

    def _call(self, operation: str, **parameters: Any) -> Any:
        """Call the Data API. Raises BooksUnavailable.

        The error omits the database's message, which may name an account. It has the SQLSTATE, which is safe:
        42P01 is a missing schema.
        """
        try:
            return getattr(self._client, operation)(**self._who, **parameters)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            found = _STATE.search(error.response["Error"].get("Message", ""))
            state = found[1] if found else ""
            raise BooksUnavailable(
                f"{operation}: {code}" + (f", SQLSTATE {state}" if state else ""),
                is_resuming=code == _RESUMING,
                is_refused=code in _REFUSED and not state.startswith(_PASSING),
            ) from None
        except BotoCoreError as error:
            raise BooksUnavailable(f"{operation}: {type(error).__name__}") from None


def _field(value: str | int) -> dict[str, str | int]:
    return {"longValue": value} if isinstance(value, int) else {"stringValue": value}


def _value(field: dict[str, Any]) -> Any:
    ((kind, value),) = field.items()
    return None if kind == "isNull" else value
