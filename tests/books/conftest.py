"""A PostgreSQL with the books' schema, and `settle ledger` on a test stage's sealed journal."""

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import psycopg
import pytest

from settle import cli, stack
from settle.books import schema
from tests.proof import sealed_town as towns
from tests.proof.town import CONFIG, Town
from tests.world import postgresql
from tests.world.memory_s3 import MemoryS3

CURRENCIES = {"EUR": 2, "JPY": 0}
Ended = tuple[int, str, str]
"""Exit code, standard output, standard error."""

Command = Callable[..., Ended]


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with postgresql.server() as url:
        yield url


@pytest.fixture(scope="session")
def template(server: str) -> str:
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute("CREATE DATABASE migrated")
    schema.migrate(f"{server}/migrated", CURRENCIES)
    return "migrated"


@pytest.fixture
def url(server: str, template: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a test's own database with the schema."""
    name = f"books_{abs(hash(request.node.nodeid))}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield f"{server}/{name}"
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def connection(url: str) -> Iterator[psycopg.Connection]:
    with schema.books(url) as connection:
        yield connection


@pytest.fixture
def connect(url: str) -> Iterator[Callable[[], psycopg.Connection]]:
    opened: list[psycopg.Connection] = []

    def connect() -> psycopg.Connection:
        opened.append(psycopg.connect(url, autocommit=True))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


@pytest.fixture(scope="session")
def town() -> Town:
    return towns.new_town()


@pytest.fixture
def journal() -> MemoryS3:
    return MemoryS3()


@pytest.fixture
def command(
    town: Town, journal: MemoryS3, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    found = SimpleNamespace(
        name="under-test",
        config=CONFIG,
        store=town.store,
        outputs={"JournalBucket": "journal"},
        client=lambda service: journal,
    )
    monkeypatch.setattr(stack, "find", lambda name: found)

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["settle", "ledger", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out, captured.err

    return run
