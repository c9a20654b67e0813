"""A PostgreSQL with the books' schema, and a journal of a town."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from settle.books import schema
from tests.world import postgresql

CURRENCIES = {"EUR": 2, "JPY": 0}


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with postgresql.server() as url:
        yield url


@pytest.fixture
def url(server: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a database of the test's own, with the schema."""
    name = f"books_{abs(hash(request.node.nodeid))}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        schema.migrate(f"{server}/{name}", CURRENCIES)
        yield f"{server}/{name}"
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def connection(url: str) -> Iterator[psycopg.Connection]:
    with schema.books(url) as connection:
        yield connection


@pytest.fixture
def connect(url: str) -> Iterator[Callable[[], psycopg.Connection]]:
    """Connect once more, as another process does."""
    opened: list[psycopg.Connection] = []

    def connect() -> psycopg.Connection:
        opened.append(psycopg.connect(url, autocommit=True))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()
