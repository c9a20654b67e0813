"""The schema in the stack's own Aurora, over the RDS Data API."""

import hashlib
import hmac
import json
import os
import re
import time
from base64 import b64encode
from io import StringIO

from alembic import command
from alembic.config import Config

from settle.books.schema import MIGRATIONS, add_currencies
from settle.exit_codes import CommandFailed, Exit
from settle.stack import Stack
from settlement.books.data_api import DataApi
from settlement.books.page import Query

DATABASE, PROJECTOR = "books", "projector"
RESUMING_SECONDS, TRIES_MAX = 5, 24
"""Seconds between tries, and maximum tries. A paused Aurora resumes in 15 s, or later after a day."""

_STATEMENT = re.compile(r"(?:[^;$'\-]|\$\$.*?\$\$|'(?:[^']|'')*'|--[^\n]*|[$-])+", re.DOTALL)
"""One SQL statement. Semicolons in texts, comments and function bodies do not end it."""

_ITERATIONS = 4_096


def migrate(stack: Stack) -> None:
    """Migrate the schema in one transaction. Add currencies and the projector's login.

    Safe to repeat: the projector gets the current password of its secret.
    """
    books = _books(stack)
    answer = stack.client("secretsmanager").get_secret_value(SecretId=_output(stack, "BooksProjectorArn"))
    password = str(json.loads(answer["SecretString"])["password"])
    with books.transaction() as query:
        query("SELECT 1 FROM pg_advisory_xact_lock(hashtext('ledger.migrate'))")
        query("CREATE SCHEMA IF NOT EXISTS ledger")
        for statement in statements(_revision(query)):
            query(statement)
    add_currencies(books, dict(stack.config.currencies))
    with books.transaction() as query:
        known = query(f"SELECT 1 FROM pg_roles WHERE rolname = '{PROJECTOR}'")
        # A role statement takes no parameters, and a verifier's colons would look like some.
        query("SELECT set_config('ledger.verifier', :verifier, true)", verifier=verifier(password))
        role = f"{'ALTER' if known else 'CREATE'} ROLE {PROJECTOR} LOGIN PASSWORD %L"
        query(f"DO $$ BEGIN EXECUTE format('{role}', current_setting('ledger.verifier')); END $$")
        query(f"GRANT ledger_projector TO {PROJECTOR}")


def statements(revision: str | None) -> list[str]:
    written = StringIO()
    config = Config(output_buffer=written)
    config.set_main_option("script_location", str(MIGRATIONS))
    command.upgrade(config, f"{revision or 'base'}:head", sql=True)
    without_comments = re.sub(r"^--[^\n]*$", "", written.getvalue(), flags=re.MULTILINE)
    found = (one.strip() for one in _STATEMENT.findall(without_comments))
    return [one for one in found if one and one not in ("BEGIN", "COMMIT")]


def verifier(password: str) -> str:
    """Return the verifier that PostgreSQL stores of a password (RFC 5803), so logs lack the password."""
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    of_server = hmac.digest(salted, b"Server Key", "sha256")
    told = (b64encode(one).decode() for one in (salt, stored, of_server))
    return "SCRAM-SHA-256${}:{}${}:{}".format(_ITERATIONS, *told)


def _revision(query: Query) -> str | None:
    ((there,),) = query("SELECT CAST(to_regclass('ledger.migration') AS text)")
    found = query("SELECT version_num FROM ledger.migration") if there else []
    return str(found[0][0]) if found else None


def _books(stack: Stack) -> DataApi:
    tries = iter(range(TRIES_MAX))

    def waits() -> bool:
        if next(tries, None) is None:
            return False
        time.sleep(RESUMING_SECONDS)
        return True

    return DataApi(
        stack.client("rds-data", attempts=1),
        cluster=_output(stack, "BooksClusterArn"),
        secret=_output(stack, "BooksOwnerArn"),
        database=DATABASE,
        waits=waits,
    )


def _output(stack: Stack, name: str) -> str:
    if name not in stack.outputs:
        raise CommandFailed(
            Exit.NOT_FOUND,
            f"stack {stack.name}: has no books in Aurora: set books_every_minutes, and deploy it",
        )
    return stack.outputs[name]
