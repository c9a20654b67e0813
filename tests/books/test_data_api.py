"""Projection by the RDS Data API equals projection over a connection, even if a call is lost."""

import random
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from settle.books import project, schema, verify
from settlement.books import page as books
from settlement.books.data_api import CLIENT_CONFIG, DataApi
from settlement.books.page import Projected
from settlement.core.model.errors import BooksUnavailable
from tests.books.objects import an_object, entry
from tests.proof import sealed_town as towns
from tests.proof.town import Town
from tests.world.data_api import REQUEST_BYTES_MAX, FakeDataApi, refusal

Connect = Callable[[], psycopg.Connection]


@pytest.fixture
def client(connect: Connect) -> FakeDataApi:
    return FakeDataApi(connect)


def api(client: FakeDataApi) -> DataApi:
    return DataApi(client, cluster="cluster", secret="secret", database="books")


@pytest.mark.parametrize("seed", range(3))
def test_projecting_by_the_data_api_gives_the_same_books(
    client: FakeDataApi,
    connection: psycopg.Connection,
    server: str,
    template: str,
    town: Town,
    seed: int,
) -> None:
    told = [*towns.objects(town, seed).items()] * 2
    random.Random(seed).shuffle(told)
    for name, content in told:
        books.project(api(client), name, content)

    name = f"by_the_command_{seed}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        with schema.books(f"{server}/{name}") as other:
            for one, content in told:
                project.project(other, one, content)
            balance = "SELECT * FROM ledger.trial_balance() ORDER BY 1, 2"
            balances = connection.execute(balance.encode()).fetchall()
            assert balances == other.execute(balance.encode()).fetchall() != []
            assert verify.digest_of_all(connection) == verify.digest_of_all(other)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "error",
    [refusal("DatabaseResumingException"), EndpointConnectionError(endpoint_url="https://rds"), None],
    ids=["refused", "no answer", "killed"],
)
def test_a_lost_api_call_books_a_whole_object_or_nothing(
    client: FakeDataApi, connection: psycopg.Connection, town: Town, when: str, error: Exception | None
) -> None:
    lost, seen = 0, set[str]()
    while True:
        name, content = an_object(entry(town, lost), entry(town, lost + 1_000, amount=-1))
        left = [lost]

        def lose(call: str, left: list[int] = left) -> None:
            if left[0] == 0 or (error is None and left[0] < 0):
                left[0] -= 1
                seen.add(call)
                raise error or KeyboardInterrupt
            left[0] -= 1

        setattr(client, when, lose)
        try:
            books.project(api(client), name, content)
        except (BooksUnavailable, KeyboardInterrupt):
            setattr(client, when, lambda call: None)
            client.time_out()
        else:
            break
        whole = connection.execute(
            "SELECT (SELECT count(*) FROM ledger.object), (SELECT count(*) FROM ledger.entry),"
            " (SELECT count(*) FROM ledger.put_aside)"
        ).fetchone()
        assert whole in {(lost, lost, lost), (lost + 1, lost + 1, lost + 1)}
        again = books.project(api(client), name, content)
        assert again == (Projected(1, 1, 1) if whole == (lost, lost, lost) else Projected())
        lost += 1

    assert seen >= {"begin_transaction", "execute_statement", "commit_transaction"}
    assert lost == len(("begin", "inbox", "entries", "different", "aside", "commit"))


def test_the_data_api_client_never_retries_a_statement() -> None:
    assert CLIENT_CONFIG.retries["total_max_attempts"] == 1  # a client adds its mode to it


def test_a_statement_that_runs_twice_records_no_object_without_entries(
    client: FakeDataApi, connection: psycopg.Connection, town: Town
) -> None:
    """If the service repeats a statement, its second answer says that the object is known."""
    name, content = an_object(entry(town, 1))
    once = client._execute_statement

    def twice(**parameters: Any) -> dict[str, Any]:
        once(**parameters)
        return once(**parameters)

    client._execute_statement = twice  # type: ignore[method-assign]
    assert books.project(api(client), name, content) == Projected()
    assert connection.execute("SELECT count(*) FROM ledger.object").fetchone() == (0,)

    client._execute_statement = once  # type: ignore[method-assign]
    assert books.project(api(client), name, content) == Projected(1, 1, 0)


def test_a_refused_statement_changes_nothing_and_reveals_no_account(
    client: FakeDataApi, connection: psycopg.Connection, town: Town
) -> None:
    connection.execute("ALTER TABLE ledger.entry RENAME TO gone")
    name, content = an_object(entry(town, 1))

    with pytest.raises(
        BooksUnavailable, match=r"^execute_statement: DatabaseErrorException, SQLSTATE 42P01$"
    ) as refused:
        books.project(api(client), name, content)
    connection.execute("ALTER TABLE ledger.gone RENAME TO entry")

    assert refused.value.is_refused
    assert books.project(api(client), name, content) == Projected(1, 1, 0)


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        (refusal("DatabaseErrorException", "22P05"), True),
        (refusal("BadRequestException", "23505"), True),
        (refusal("DatabaseErrorException"), True),  # a text in it looks like another one's state
        (refusal("StatementTimeoutException"), True),
        *((refusal("DatabaseErrorException", f"{one}000"), False) for one in ("08", "40", "53", "55", "57")),
        (refusal("ServiceUnavailableError"), False),
        (ClientError({"Error": {"Code": "AccessDeniedException"}}, "rds-data"), False),
    ],
)
def test_an_sql_error_counts_as_refusal_unless_it_is_temporary(
    client: FakeDataApi, error: ClientError, is_refused: bool
) -> None:
    def fail(call: str) -> None:
        if call == "execute_statement":
            raise error

    client.before = fail
    with pytest.raises(BooksUnavailable) as failed, api(client).transaction() as query:
        query("SELECT 1")

    assert failed.value.is_refused is is_refused
    assert "alice" not in str(failed.value)


def test_parameters_get_the_sql_types_that_aws_gives_them(client: FakeDataApi) -> None:
    with api(client).transaction() as query:
        found = query("SELECT pg_typeof(:text)::text, pg_typeof(:number)::text", text="1", number=1)

    assert found == [["character varying", "bigint"]]


def test_a_large_object_stays_within_the_data_apis_limits(
    client: FakeDataApi, connection: psycopg.Connection, town: Town
) -> None:
    count = 8_000
    first = [entry(town, number) for number in range(count)]
    others = [entry(town, number, amount=1) for number in range(count)]
    long = entry(town, count, amount=-1, credit='"' * 800_000)

    assert books.project(api(client), *an_object(*first, long)) == Projected(1, count, 1)
    assert books.project(api(client), *an_object(*others)) == Projected(1, 0, count)

    assert 2**18 < client.largest < REQUEST_BYTES_MAX
    longest = connection.execute("SELECT max(length(line)) FROM ledger.put_aside").fetchone()
    assert longest == (books.LINE_CHARACTERS_MAX,)
