"""Simulates the RDS Data API on a PostgreSQL server, with the API's types and limits."""

import json
import re
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
from botocore.exceptions import ClientError

REQUEST_BYTES_MAX = 4 * 2**20
RESPONSE_BYTES_MAX = 2**20
ROW_BYTES_MAX = 64 * 2**10
TYPES = {"stringValue": (str, "varchar"), "longValue": (int, "bigint")}
"""Python type and SQL cast per kind of parameter.

The real API casts too; PostgreSQL would infer a bare literal's type from its position.
"""
_QUOTED = re.compile(r"\$\$.*?\$\$|'[^']*'", re.DOTALL)


class FakeDataApi:
    """A client of `rds-data`; each transaction is a session.

    `before` and `after` get each call's name. An error from `before` means the call was not received, one
    from `after` that its answer was lost.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection]) -> None:
        self._connect, self._sessions = connect, dict[str, psycopg.Connection]()
        self.before: Callable[[str], None] = lambda call: None
        self.after: Callable[[str], None] = lambda call: None
        self.largest = 0

    def __getattr__(self, name: str) -> Any:
        def call(**parameters: Any) -> dict[str, Any]:
            assert parameters.pop("resourceArn") == "cluster"
            assert parameters.pop("secretArn") == "secret"
            if "transactionId" in parameters:
                parameters["transaction"] = parameters.pop("transactionId")
            self.before(name)
            answer: dict[str, Any] = getattr(self, f"_{name}")(**parameters)
            self.after(name)
            return answer

        return call

    def time_out(self) -> None:
        for one in self._sessions.values():
            one.close()
        self._sessions.clear()

    def _begin_transaction(self, database: str) -> dict[str, Any]:
        assert database == "books"
        name = uuid.uuid4().hex
        try:
            self._sessions[name] = self._connect()
        except psycopg.OperationalError:
            raise refusal("DatabaseUnavailableException") from None
        self._sessions[name].execute("BEGIN")
        return {"transactionId": name}

    def _execute_statement(
        self, *, transaction: str, database: str, sql: str, parameters: list[dict[str, Any]]
    ) -> dict[str, Any]:
        assert database == "books"
        if ";" in _QUOTED.sub("", sql).strip().removesuffix(";"):
            raise refusal("BadRequestException")  # the API takes single statements
        size = len(json.dumps({"sql": sql, "parameters": parameters}))
        self.largest = max(self.largest, size)
        if size > REQUEST_BYTES_MAX:
            raise refusal("BadRequestException")
        values, typed = {}, {}
        for one in parameters:
            ((kind, value),) = one["value"].items()
            assert type(value) is TYPES[kind][0]
            values[one["name"]] = value
            typed[one["name"]] = f"CAST(%({one['name']})s AS {TYPES[kind][1]})"
        statement = re.sub(r"(?<!:):([A-Za-z_]+)", lambda found: typed[found[1]], sql)
        try:
            found = self._session(transaction).execute(statement.encode(), values or None)
        except psycopg.Error as error:
            raise refusal("DatabaseErrorException", error.sqlstate) from None
        if found.description is None:  # the statement returns no rows
            return {"numberOfRecordsUpdated": max(found.rowcount, 0)}
        rows = found.fetchall()
        records = [[_field(value) for value in row] for row in rows]
        if max((len(json.dumps(one)) for one in records), default=0) > ROW_BYTES_MAX:
            raise refusal("UnsupportedResultException")
        if len(json.dumps(records)) > RESPONSE_BYTES_MAX:
            raise refusal("BadRequestException")
        return {"records": records, "numberOfRecordsUpdated": 0}

    def _commit_transaction(self, *, transaction: str) -> dict[str, Any]:
        self._end(transaction, "COMMIT")
        return {"transactionStatus": "Transaction Committed"}

    def _rollback_transaction(self, *, transaction: str) -> dict[str, Any]:
        self._end(transaction, "ROLLBACK")
        return {"transactionStatus": "Rollback Complete"}

    def _session(self, name: str) -> psycopg.Connection:
        if name not in self._sessions:
            raise refusal("TransactionNotFoundException")
        return self._sessions[name]

    def _end(self, name: str, statement: str) -> None:
        session = self._session(name)
        try:
            session.execute(statement.encode())
        except psycopg.Error as error:
            raise refusal("DatabaseErrorException", error.sqlstate) from None
        finally:
            session.close()
            del self._sessions[name]


def refusal(code: str, state: str | None = None) -> ClientError:
    """Return a service error; a database's error ends with its SQLSTATE."""
    message = "ERROR: of account alice; SQLState: 08006" + (f"; SQLState: {state}" if state else " of alice")
    return ClientError({"Error": {"Code": code, "Message": message}}, "rds-data")


def _field(value: Any) -> dict[str, Any]:
    if value is None:
        return {"isNull": True}
    return {"longValue": value} if isinstance(value, int) else {"stringValue": str(value)}
