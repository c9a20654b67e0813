import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from settle.books import follow
from settle.exit_codes import Exit
from tests.books.conftest import Command
from tests.proof import sealed_town as towns
from tests.proof.town import Town
from tests.world import postgresql
from tests.world.memory_s3 import MemoryS3
from tests.world.postgresql import Cluster


class Pauses:
    """Replaces pauses: each runs the next action of `between`, and after the last comes Ctrl-C."""

    def __init__(self) -> None:
        self.between: list[Callable[[], Any]] = []
        self.seconds: list[int] = []

    def sleep(self, seconds: int) -> None:
        self.seconds.append(seconds)
        if not self.between:
            raise KeyboardInterrupt
        self.between.pop(0)()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    pauses = Pauses()
    monkeypatch.setattr(follow, "time", SimpleNamespace(sleep=pauses.sleep))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return pauses


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with postgresql.cluster() as cluster:
        yield cluster


def put(journal: MemoryS3, objects: dict[str, bytes]) -> None:
    for name, content in objects.items():
        journal.put_object(Bucket="journal", Key=name, Body=content)


def rounds(ended: tuple[int, str, str]) -> list[dict[str, Any]]:
    assert (ended[0], ended[2]) == (0, ""), ended
    return [json.loads(line) for line in ended[1].splitlines()]


def breaks_once(
    journal: MemoryS3, monkeypatch: pytest.MonkeyPatch, at: int, breaks: Callable[[], Any]
) -> None:
    """Call `breaks` once, before the read of the object with this number."""
    read, count = journal.get_object, iter(range(at + 1))

    def broken(**named: Any) -> Any:
        if next(count, None) == at:
            breaks()
        return read(**named)

    monkeypatch.setattr(journal, "get_object", broken)


def test_each_round_projects_new_objects_until_ctrl_c(
    command: Command, url: str, town: Town, journal: MemoryS3, pauses: Pauses
) -> None:
    first, *others = towns.objects(town).items()
    put(journal, dict([first]))
    pauses.between = [lambda: put(journal, dict(others))]

    found = rounds(command("follow", "--url", url, "--every", "7", "--json"))

    assert [one["objects"] for one in found] == [1, len(others)]
    assert sum(one["entries"] for one in found) == len(towns.entries(town))
    assert all(one["fault"] is None and 0 <= one["behind_seconds"] < 60 for one in found)
    assert pauses.seconds == [7, 7]


def test_a_postgresql_killed_midway_gets_its_missed_objects(
    command: Command,
    cluster: Cluster,
    town: Town,
    journal: MemoryS3,
    pauses: Pauses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"{cluster.url}/postgres"
    command("migrate", "--url", url)
    put(journal, towns.objects(town))
    breaks_once(journal, monkeypatch, 3, cluster.kill)
    pauses.between = [lambda: None, cluster.start]

    found = rounds(command("follow", "--url", url, "--json"))
    verified = json.loads(command("verify", "--url", url, "--json")[1])

    assert [one["objects"] for one in found] == [3, 0, len(journal.objects) - 3]
    assert found[0]["fault"].startswith("ledger: ")
    assert found[1]["fault"].startswith("ledger: no connection: ")
    assert [one["behind_seconds"] is None for one in found] == [True, True, False]
    assert found[2]["fault"] is None
    assert (verified["agrees"], verified["entries"]) == (True, len(towns.entries(town)))


def test_a_journal_that_fails_is_shown_and_read_again(
    command: Command,
    url: str,
    town: Town,
    journal: MemoryS3,
    pauses: Pauses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_answer() -> None:
        raise EndpointConnectionError(endpoint_url="https://journal.example.com")

    put(journal, towns.objects(town))
    breaks_once(journal, monkeypatch, 2, no_answer)
    pauses.between = [lambda: None]

    code, told, _ = command("follow", "--url", url)

    broken, whole = told.splitlines()
    assert code == 0
    assert "behind: unknown  2 objects, " in broken
    assert " 0 put aside, 0 late, journal: " in broken
    assert "journal: get_object: EndpointConnectionError" in broken
    assert f"{len(journal.objects) - 2} objects, " in whole
    assert "journal: " not in whole


def test_a_missing_object_makes_lag_unknown_but_delays_no_other(
    command: Command, url: str, town: Town, journal: MemoryS3
) -> None:
    put(journal, towns.objects(town))
    name = next(iter(journal.objects))
    journal.versions[name] = [None]

    (found,) = rounds(command("follow", "--url", url, "--json"))

    assert found["objects"] == len(journal.objects)
    assert [told.partition(": ")[0] for told in found["unreadable"]] == [name]
    assert found["behind_seconds"] is None


@pytest.mark.parametrize(
    ("url", "code", "told"),
    [
        ("mysql://db/books", Exit.USAGE, "url: must be like postgresql://user@host/database"),
        ("{server}/postgres", Exit.NOT_FOUND, "run `settle ledger migrate` first"),
    ],
)
def test_an_error_that_waiting_cannot_fix_ends_the_command(
    command: Command, server: str, url: str, code: Exit, told: str
) -> None:
    ended = command("follow", "--url", url.format(server=server))

    assert ended[:2] == (code, "")
    assert told in ended[2]
