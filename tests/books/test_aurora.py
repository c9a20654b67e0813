import json
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from botocore.exceptions import ClientError

from settle.books import aurora, schema
from settle.exit_codes import CommandFailed, Exit
from settlement.books.data_api import DataApi
from settlement.books.rounds import Progress, Round, catch_up
from settlement.core.model.errors import BooksUnavailable
from settlement.journal.copy import Bucket
from tests.books.conftest import CURRENCIES
from tests.proof import sealed_town as towns
from tests.proof.town import Town
from tests.world.data_api import FakeDataApi, refusal
from tests.world.environment import NOW
from tests.world.memory_s3 import MemoryS3
from tests.world.postgresql import GUARDED

OUTPUTS = {"BooksClusterArn": "cluster", "BooksOwnerArn": "secret", "BooksProjectorArn": "projector"}

CATALOGUE = """
SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns
WHERE table_schema = 'ledger' ORDER BY 1, 2
"""
OTHERS = """
SELECT 'grant', grantee, table_name, privilege_type FROM information_schema.role_table_grants
WHERE table_schema = 'ledger' AND grantee LIKE 'ledger%'
UNION ALL SELECT 'trigger', event_object_table, trigger_name, event_manipulation
    FROM information_schema.triggers WHERE trigger_schema = 'ledger'
UNION ALL SELECT 'function', proname, prosrc, '' FROM pg_proc WHERE pronamespace = 'ledger'::regnamespace
UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'ledger'
UNION ALL SELECT 'migration', version_num, '', '' FROM ledger.migration
ORDER BY 1, 2, 3, 4
"""


def connect(url: str) -> psycopg.Connection:
    return psycopg.connect(url, autocommit=True)


class Secrets:
    password = "of-the-projector"

    def get_secret_value(self, **given: str) -> dict[str, str]:
        assert given == {"SecretId": "projector"}
        return {"SecretString": json.dumps({"username": "projector", "password": self.password})}


class Stack(SimpleNamespace):
    """Stands for a stack with Aurora books, over a local database."""

    def client(self, service: str, attempts: int = 5) -> Any:
        assert (service, attempts) in (("rds-data", 1), ("secretsmanager", 5))
        return self.data_api if service == "rds-data" else self.secrets


@pytest.fixture
def empty(server: str, request: pytest.FixtureRequest) -> Any:
    name = f"aurora_{abs(hash(request.node.nodeid))}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        yield f"{server}/{name}"
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        admin.execute(f"DROP ROLE IF EXISTS {GUARDED}".encode())


@pytest.fixture
def stack(empty: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stack whose projector is the user `guarded`, who needs a password."""
    monkeypatch.setattr(aurora, "PROJECTOR", GUARDED)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return Stack(
        name="under-test",
        outputs=OUTPUTS,
        config=SimpleNamespace(currencies=CURRENCIES),
        data_api=FakeDataApi(lambda: connect(empty)),
        secrets=Secrets(),
    )


def everything(url: str) -> list[Any]:
    with schema.books(url) as connection:
        return [connection.execute(one.encode()).fetchall() for one in (CATALOGUE, OTHERS)]


def test_aurora_migration_makes_the_same_schema_as_a_direct_connection(
    stack: Any, empty: str, url: str
) -> None:
    for _ in range(2):
        aurora.migrate(stack)
        assert everything(empty) == everything(url)

    with schema.books(empty) as connection:
        found = connection.execute("SELECT code, exponent FROM ledger.currency").fetchall()
        assert dict(found) == CURRENCIES
        schema.migrate(empty, CURRENCIES)
    assert everything(empty) == everything(url)


def test_a_migration_gives_the_projector_its_secrets_current_password(
    stack: Any, empty: str, town: Town
) -> None:
    told = [*towns.objects(town).items()]
    for number, password in enumerate(("first-password", "second-password")):
        stack.secrets.password = password
        aurora.migrate(stack)
        as_projector = empty.replace("test@", f"{GUARDED}:{password}@")
        client, journal, done = FakeDataApi(partial(connect, as_projector)), MemoryS3(), Round()
        for name, content in told[: number * 3 + 3]:
            journal.put_object(Bucket="journal", Key=name, Body=content)
        api = DataApi(client, cluster="cluster", secret="secret", database="books")
        catch_up(api, Bucket(journal, "journal"), Progress(), done, NOW, lambda: True)
        assert (done.objects, done.waiting) == (3, [])
    with connect(as_projector) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("DELETE FROM ledger.object")
    with pytest.raises(psycopg.OperationalError, match="password"):
        connect(empty.replace("test@", f"{GUARDED}:first-password@"))


def test_no_sql_statement_contains_the_password(stack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    execute = stack.data_api._execute_statement

    def tell(**given: Any) -> Any:
        told.append(str(given))
        return execute(**given)

    stack.data_api._execute_statement = tell

    aurora.migrate(stack)

    assert len(told) > 20
    assert not [one for one in told if Secrets.password in one]


@pytest.mark.parametrize("lost", [2, 7, 20, 30])
def test_a_dead_migration_leaves_nothing_and_can_be_repeated(
    stack: Any, empty: str, url: str, lost: int
) -> None:
    left = [lost]

    def fail(call: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise refusal("InternalServerErrorException")

    stack.data_api.before = fail
    with pytest.raises(BooksUnavailable):
        aurora.migrate(stack)
    stack.data_api.before = lambda call: None

    aurora.migrate(stack)

    assert everything(empty) == everything(url)


def test_a_migration_waits_for_a_resuming_database_with_limited_tries(stack: Any) -> None:
    left = [3]

    def resumes(call: str) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise refusal("DatabaseResumingException")

    stack.data_api.before = resumes
    aurora.migrate(stack)
    left[0] = 10**9

    with pytest.raises(BooksUnavailable, match=r"DatabaseResumingException$"):
        aurora.migrate(stack)
    assert 10**9 - left[0] == aurora.TRIES_MAX + 1


def test_a_migration_is_refused_if_a_currencys_decimals_differ(stack: Any) -> None:
    aurora.migrate(stack)
    stack.config.currencies = {"EUR": 3}

    with pytest.raises(CommandFailed, match=r"^ledger: EUR has 2 decimals in the books, and 3 here$"):
        aurora.migrate(stack)


def test_a_migration_without_aurora_books_prints_how_to_enable_them(stack: Any) -> None:
    stack.outputs = {}

    with pytest.raises(CommandFailed, match=r"^stack under-test: has no books in Aurora: set ") as failed:
        aurora.migrate(stack)
    assert failed.value.code is Exit.NOT_FOUND


def test_a_migration_changes_nothing_if_the_secret_cannot_be_read(
    stack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetSecretValue")

    def deny(**given: str) -> Any:
        raise denied

    stack.secrets.get_secret_value = deny
    asked: list[str] = []
    stack.data_api.before = asked.append

    with pytest.raises(ClientError):
        aurora.migrate(stack)
    assert asked == []


def test_sql_splits_at_semicolons_outside_string_literals_and_function_bodies() -> None:
    assert aurora.statements("r0004") == []
    found = aurora.statements(None)

    assert not [one for one in found if one.startswith(("BEGIN;", "--"))]
    assert [one.split()[0] for one in found][:2] == ["CREATE", "CREATE"]
    assert len([one for one in found if "LANGUAGE plpgsql" in one]) == 4
