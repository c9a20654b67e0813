import json
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from settle.books import aurora, months
from settle.exit_codes import Exit
from tests.books.conftest import Command
from tests.proof import sealed_town as towns
from tests.proof.town import Town
from tests.world.memory_s3 import MemoryS3
from tests.world.postgresql import GUARDED

NEEDS_BOOKS = ("project", "verify", "put-aside", "close 2026-10")


@pytest.fixture
def sealed(journal: MemoryS3, town: Town) -> MemoryS3:
    for name, content in towns.objects(town).items():
        journal.put_object(Bucket="journal", Key=name, Body=content)
    return journal


@pytest.fixture
def empty(server: str) -> Iterator[str]:
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute("CREATE DATABASE unmigrated")
        yield f"{server}/unmigrated"
        admin.execute("DROP DATABASE unmigrated WITH (FORCE)")


@pytest.fixture
def unreachable() -> str:
    return "postgresql://test:secret@127.0.0.1:1/books"


@pytest.fixture
def no_permission(url: str) -> Iterator[str]:
    """The books' address for a user with a password and no permission."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {GUARDED} LOGIN PASSWORD 'right'")
        yield url.replace("test@", f"{GUARDED}:right@")
        admin.execute(f"DROP ROLE {GUARDED}")


@pytest.fixture
def wrong_password(no_permission: str) -> str:
    return no_permission.replace(":right@", ":secret@")


def refused(ended: tuple[int, str, str], code: Exit, *texts: str) -> None:
    assert ended[0] == code, ended
    assert ended[1] == ""
    assert ended[2].startswith("settle: ")
    assert ended[2].count("\n") == 1
    assert all(text in ended[2] for text in texts), ended[2]


def test_the_books_are_migrated_filled_verified_and_rebuilt(
    command: Command, empty: str, sealed: MemoryS3, url: str, town: Town
) -> None:
    assert command("migrate", "--url", empty) == (0, "the schema is up to date\n", "")
    assert command("migrate", "--url", empty)[0] == 0
    done = json.loads(command("project", "--url", empty, "--json")[1])
    again = json.loads(command("project", "--url", empty, "--json")[1])
    code, told, _ = command("verify", "--url", empty)
    rebuilt = json.loads(command("rebuild", "--url", url, "--json")[1])

    assert (done["objects"], done["entries"]) == (len(sealed.objects), len(towns.entries(town)))
    assert (again["objects"], again["entries"]) == (0, 0)
    assert code == 0
    assert told.startswith(f"books and table agree: {len(towns.entries(town))} entries up to ")
    assert f" 0 s behind, digest {rebuilt['digest']}" in told


def test_a_changed_object_is_named_and_fails_the_projection(
    command: Command, url: str, sealed: MemoryS3
) -> None:
    name = next(iter(sealed.objects))
    sealed.versions[name] = [b"something else"]

    code, told, _ = command("project", "--url", url)
    verified = command("verify", "--url", url)

    assert code == Exit.FAILED
    assert told.startswith(f"{name}: ")
    assert verified[0] == Exit.FAILED
    assert "is not in the books" in verified[1]


def test_put_aside_lines_are_shown_with_their_reasons(command: Command, url: str, sealed: MemoryS3) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE ledger.currency DISABLE TRIGGER USER")
        connection.execute("DELETE FROM ledger.currency WHERE code = 'JPY'")
    command("project", "--url", url)

    found = json.loads(command("put-aside", "--url", url, "--json")[1])

    assert {one["reason"] for one in found} == {"currency: is not one of the books"}
    assert found[0]["reason"] in command("put-aside", "--url", url)[1]
    assert command("verify", "--url", url)[0] == Exit.FAILED


def test_a_finished_month_is_closed_once_if_nothing_is_missing(
    command: Command, url: str, sealed: MemoryS3
) -> None:
    refused(command("close", "2026-10", "--url", url), Exit.CONFLICT, "run `settle ledger project` first")
    command("project", "--url", url)

    assert command("close", "2026-10", "--url", url) == (0, "2026-10 is closed\n", "")
    assert command("close", "2026-10", "--url", url) == (0, "2026-10 was closed before\n", "")
    month = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m}"
    refused(command("close", month, "--url", url), Exit.USAGE, f"month: {month} is not over")


def test_project_and_verify_report_entries_that_came_after_month_end(
    command: Command, empty: str, sealed: MemoryS3, town: Town
) -> None:
    command("migrate", "--url", empty)
    with psycopg.connect(empty, autocommit=True) as connection:
        months.close(connection, "2026-11", datetime(2027, 1, 1, tzinfo=UTC))
    count = len(towns.entries(town))

    told, again = command("project", "--url", empty)[1], command("project", "--url", empty, "--json")[1]
    code, verified, _ = command("verify", "--url", empty)
    as_json = json.loads(command("verify", "--url", empty, "--json")[1])

    assert re.search(rf"^late +{count}$", told, re.MULTILINE), told
    assert json.loads(again)["late"] == 0
    assert (code, as_json["suspense"]) == (0, count)
    assert f"{count} entries came after their month was closed: see ledger.suspense\n" in verified


def test_closing_a_month_with_lines_put_aside_needs_an_option(
    command: Command, url: str, sealed: MemoryS3
) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE ledger.currency DISABLE TRIGGER USER")
        connection.execute("DELETE FROM ledger.currency WHERE code = 'JPY'")
    command("project", "--url", url)

    refused(command("close", "2026-10", "--url", url), Exit.CONFLICT, "lines were put aside")
    ended = command("close", "2026-10", "--url", url, "--despite-put-aside")

    assert ended == (0, "2026-10 is closed\n", "")


CONNECTING = ("migrate", "rebuild", *NEEDS_BOOKS)
FORM = "url: must be like postgresql://user@host/database"
REFUSED: list[tuple[str, str, Exit, str]] = [
    *((one, "unreachable", Exit.FAILED, "ledger: no connection: ") for one in CONNECTING),
    *((one, "wrong_password", Exit.FAILED, "password authentication failed") for one in CONNECTING),
    *((one, "no_permission", Exit.FAILED, "ledger: permission denied for ") for one in CONNECTING),
    *((one, "empty", Exit.NOT_FOUND, "run `settle ledger migrate` first") for one in NEEDS_BOOKS),
    *(
        ("project", url, Exit.USAGE, FORM)
        for url in ("", "books", "mysql://test:secret@db/books", "postgresql://[")
    ),
    *(
        (f"{one} --from missing", "url", Exit.USAGE, "from: must be stack, s3://BUCKET/PREFIX or a directory")
        for one in ("project", "rebuild")
    ),
    *(
        (f"close {month!r}", "url", Exit.USAGE, "month: must be like 2026-11")
        for month in ("", "october", "2026-13", "2026-1", "2026-10-01", "0000-01")
    ),
]
"""Arguments, address (or the fixture that has it), exit code and error."""


@pytest.mark.usefixtures("sealed")
@pytest.mark.parametrize(("arguments", "place", "code", "told"), REFUSED)
def test_a_refusal_is_one_line_without_the_password(
    command: Command, request: pytest.FixtureRequest, arguments: str, place: str, code: Exit, told: str
) -> None:
    url = request.getfixturevalue(place) if place.isidentifier() and place != "books" else place

    ended = command(*shlex.split(arguments), "--url", url)

    refused(ended, code, told)
    assert "secret" not in ended[2]


@pytest.mark.parametrize("arguments", ["rebuild", "follow", *NEEDS_BOOKS])
def test_only_migrate_accepts_the_stacks_own_aurora_as_url(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    migrated: list[Any] = []
    monkeypatch.setattr(aurora, "migrate", migrated.append)

    ended = command(*arguments.split(), "--url", "stack")

    refused(ended, Exit.USAGE, "url: stack is for `settle ledger migrate` alone")
    assert migrated == []
    assert command("migrate", "--url", "stack")[0] == 0
    assert len(migrated) == 1


def test_a_rebuild_into_books_that_are_not_empty_is_refused(
    command: Command, url: str, sealed: MemoryS3
) -> None:
    command("project", "--url", url)

    refused(command("rebuild", "--url", url), Exit.CONFLICT, "rebuild into an empty database")


def test_without_a_url_the_error_names_option_and_variable(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEDGER_URL", raising=False)

    code, _, told = command("project")

    assert code == Exit.USAGE
    assert "--url" in told
    assert "LEDGER_URL" in told
