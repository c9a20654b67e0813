import gzip
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import chain, count, islice, repeat
from typing import Any

import psycopg
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from handlers import _dependencies
from handlers.books import project_entries
from settle.books import months, verify
from settlement.books import rounds
from settlement.books import stage as _books
from settlement.books.data_api import DataApi
from settlement.books.rounds import Progress, Round, catch_up
from settlement.core import telemetry
from settlement.core.model.errors import BooksUnavailable, JournalUnavailable
from settlement.journal import bucket as _journal
from settlement.journal.copy import Bucket
from tests.books.objects import an_object, entry
from tests.proof import sealed_town as towns
from tests.proof.town import Town
from tests.world.data_api import FakeDataApi, refusal
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.memory_s3 import MemoryS3

Connect = Callable[[], psycopg.Connection]
CALLS = ("begin_transaction", "execute_statement", "commit_transaction", "rollback_transaction")
AWAY = EndpointConnectionError(endpoint_url="https://rds")


class Stage:
    def __init__(
        self,
        client: FakeDataApi,
        journal: MemoryS3,
        connection: psycopg.Connection,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.client, self.journal, self.connection, self._capsys = client, journal, connection, capsys
        self.now = NOW
        self.pauses: list[float] = []
        self.asked: list[str] = []
        client.before = self.asked.append

    def put(self, *told: Any, at: datetime | None = None) -> str:
        name, content = an_object(*told, at=at or self.now)
        self.journal.put_object(Bucket="journal", Key=name, Body=content)
        return name

    def round(self, *left_ms: int) -> dict[str, Any]:
        """Run a round; return its log line.

        `left_ms` are the successive remaining times, by default plenty.
        """
        self.asked.clear()
        left_ms = left_ms or (170_000,)
        project_entries.handler({}, Context(chain(left_ms, repeat(left_ms[-1]))))
        return self.line()

    def line(self) -> dict[str, Any]:
        """Return the newest round's line, with its metrics as numbers."""
        told = json.loads(self._capsys.readouterr().out.splitlines()[-1])
        return {name: value[0] if isinstance(value, list) else value for name, value in told.items()}

    def begin_anew(self) -> None:
        project_entries._progress = Progress()
        self.client.time_out()

    def let_pass(self, **of: float) -> None:
        """Let time pass; move PostgreSQL's timestamps back, because it has its own clock."""
        passed = timedelta(**of)
        self.now += passed
        for table, column in (("object", "projected_at"), ("put_aside", "put_at")):
            self.connection.execute(
                f"ALTER TABLE ledger.{table} DISABLE TRIGGER USER;"
                f"UPDATE ledger.{table} SET {column} = {column} - interval '{passed.total_seconds()} s';"
                f"ALTER TABLE ledger.{table} ENABLE TRIGGER USER".encode()
            )

    def taken(self) -> set[str]:
        return {name for (name,) in self.connection.execute("SELECT name FROM ledger.object")}


@pytest.fixture
def stage(
    connect: Connect,
    connection: psycopg.Connection,
    journal: MemoryS3,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Stage:
    def session() -> psycopg.Connection:
        made = connect()
        made.execute("SET lock_timeout = '200ms'")  # the Data API ends a statement after 45 s
        return made

    made = Stage(FakeDataApi(session), journal, connection, capsys)
    monkeypatch.setattr(project_entries, "_progress", Progress())
    monkeypatch.setattr(_books, "_client", made.client)
    monkeypatch.setattr(_books, "pause", made.pauses.append)
    monkeypatch.setattr(_journal, "_client", journal)
    monkeypatch.setattr(_dependencies, "now", lambda: made.now)
    monkeypatch.setenv("BOOKS_CLUSTER", "cluster")
    monkeypatch.setenv("BOOKS_SECRET", "secret")
    return made


@pytest.fixture
def sealed(stage: Stage, town: Town) -> set[str]:
    told = towns.objects(town)
    for name, content in told.items():
        stage.journal.put_object(Bucket="journal", Key=name, Body=content)
    return set(told)


def refuses(error: BaseException, *calls: str, after: int = 0, times: int = 10**9) -> Callable[[str], None]:
    """Return a callback that fails these Data API calls, `times` times after the first `after`."""
    numbers = count()

    def fail(call: str) -> None:
        if call in calls and after <= next(numbers) < after + times:
            raise error

    return fail


@contextmanager
def refused(stage: Stage, name: str, error: Exception) -> Iterator[None]:
    execute = stage.client._execute_statement

    def refuse(**parameters: Any) -> dict[str, Any]:
        if any(one["value"] == {"stringValue": name} for one in parameters["parameters"]):
            raise error
        return execute(**parameters)

    stage.client._execute_statement = refuse  # type: ignore[method-assign]
    yield
    stage.client._execute_statement = execute  # type: ignore[method-assign]


def test_a_round_projects_all_objects_and_reports_no_lag(stage: Stage, sealed: set[str], town: Town) -> None:
    told = stage.round()

    assert stage.taken() == sealed
    assert (told["BooksBehindSeconds"], told["BooksLeftOut"]) == (0, 0)
    assert (told["objects"], told["entries"]) == (len(sealed), len(towns.entries(town)))
    assert verify.verify(stage.connection, lambda: towns.entries(town), NOW).agrees


def test_without_new_objects_the_database_is_not_woken(stage: Stage, sealed: set[str], town: Town) -> None:
    stage.round()
    for minutes in (1, 60, 24 * 60):
        stage.now = NOW + timedelta(minutes=minutes)
        assert stage.round()["BooksBehindSeconds"] == 0
        assert stage.asked == []

    late = stage.put(entry(town, 1), at=stage.now - timedelta(minutes=10))
    assert stage.round()["objects"] == 1
    assert late in stage.taken()


def test_taken_names_are_forgotten_once_no_earlier_object_can_come(stage: Stage, sealed: set[str]) -> None:
    stage.round()
    assert project_entries._progress.taken >= sealed

    stage.now += timedelta(hours=1)
    stage.round()

    assert (project_entries._progress.whole, project_entries._progress.taken) == (max(sealed), set())


def test_a_new_environment_lists_a_week_before_the_newest_booking(stage: Stage, town: Town) -> None:
    """An outage that outlives all environments loses nothing, however long it is."""
    first = stage.put(entry(town, 1))
    stage.round()
    stage.let_pass(days=40)
    away = [stage.put(entry(town, 2 + day), at=NOW + timedelta(days=day)) for day in range(40)]
    late = stage.put(entry(town, 100), at=NOW - rounds.LOOKS_BACK + timedelta(hours=1))
    too_late = stage.put(entry(town, 101), at=NOW - rounds.LOOKS_BACK - timedelta(hours=1))
    stage.begin_anew()

    stage.round()

    assert stage.taken() == {first, late, *away}
    assert too_late in stage.journal.objects


def test_a_backlog_object_left_out_is_retried_for_a_week(stage: Stage, town: Town) -> None:
    names = {stage.put(entry(town, day), at=NOW + timedelta(days=day)) for day in range(40)}
    stage.now = NOW + timedelta(days=40)
    lost = sorted(names)[3]
    with refused(stage, lost, refusal("StatementTimeoutException")):
        assert stage.round()["BooksLeftOut"] == 1
        stage.let_pass(days=6)
        stage.begin_anew()
        told = stage.round()
    assert stage.taken() == names - {lost}
    behind = stage.now - NOW - timedelta(days=3)
    assert (told["BooksLeftOut"], told["BooksBehindSeconds"]) == (1, behind.total_seconds())

    stage.begin_anew()
    assert stage.round()["BooksLeftOut"] == 0
    assert stage.taken() == names


def test_an_object_dated_in_the_future_hides_no_current_object(stage: Stage, town: Town) -> None:
    future = stage.put(entry(town, 1), at=NOW + timedelta(days=10_000))
    stage.round()
    stage.begin_anew()
    today = stage.put(entry(town, 2))

    stage.round()

    assert stage.taken() == {future, today}


@pytest.mark.parametrize("tries", [1, 4])
def test_a_round_waits_for_a_database_that_is_resuming(stage: Stage, sealed: set[str], tries: int) -> None:
    stage.client.before = refuses(refusal("DatabaseResumingException"), "begin_transaction", times=tries)

    told = stage.round()

    assert stage.taken() == sealed
    assert stage.pauses == [project_entries.RESUMING_SECONDS] * tries
    assert "BooksUnavailable" not in told


def test_a_new_environment_reports_no_lag_while_books_are_unavailable(stage: Stage, sealed: set[str]) -> None:
    """Its listing starts a week back, with objects that are most likely booked."""
    stage.round()
    stage.let_pass(days=3)
    stage.begin_anew()
    away = refusal("ServiceUnavailableError")

    stage.client.before = refuses(away, "begin_transaction", after=1)  # first of the start, then of the inbox
    with pytest.raises(BooksUnavailable):
        stage.round()
    assert not {"BooksBehindSeconds", "BooksLeftOut"} & stage.line().keys()

    stage.client.before = stage.asked.append
    assert stage.round()["BooksBehindSeconds"] == 0


def test_a_round_gives_up_on_a_database_resuming_too_slowly(stage: Stage, sealed: set[str]) -> None:
    """The lag is unknown until the books answer: no figure is better than a wrong one."""
    stage.client.before = refuses(refusal("DatabaseResumingException"), "begin_transaction")

    with pytest.raises(BooksUnavailable, match=r"^begin_transaction: DatabaseResumingException$"):
        stage.round(90_000, 70_000, 70_000, project_entries.RESERVED_MS - 1)
    told = stage.line()
    assert told["BooksUnavailable"] == 1
    assert "BooksBehindSeconds" not in told
    assert len(stage.pauses) == 2

    stage.client.before = stage.asked.append
    stage.round()
    assert stage.taken() == sealed


@pytest.mark.parametrize(
    "error", [refusal("DatabaseUnavailableException"), refusal("AccessDeniedException"), AWAY]
)
def test_a_round_skips_unavailable_books_and_catches_up_later(
    stage: Stage, sealed: set[str], town: Town, error: Exception
) -> None:
    stage.round()
    waits_from = stage.put(entry(town, 1))
    stage.client.before = refuses(error, "begin_transaction")
    stage.now = NOW + timedelta(hours=2)

    with pytest.raises(BooksUnavailable):
        stage.round()
    told = stage.line()
    since = NOW.replace(second=0, microsecond=0)
    assert told["BooksBehindSeconds"] == int((stage.now - since).total_seconds())
    assert stage.pauses == []

    stage.client.before = stage.asked.append
    assert stage.round()["BooksBehindSeconds"] == 0
    assert stage.taken() == sealed | {waits_from}


def test_books_failing_within_a_round_mark_no_object_left_out(stage: Stage, sealed: set[str]) -> None:
    stage.client.before = refuses(refusal("ServiceUnavailableError"), *CALLS, after=12)
    with pytest.raises(BooksUnavailable):
        stage.round()

    told = stage.line()
    assert told["objects"] == len(stage.taken())
    assert 0 < told["objects"] < len(sealed)
    assert "BooksBehindSeconds" in told
    assert "BooksLeftOut" not in told  # 0 would end the alarm about objects that the round has not come to


def test_a_round_out_of_time_leaves_objects_to_the_next(stage: Stage, sealed: set[str]) -> None:
    short = project_entries.RESERVED_MS - 1

    told = stage.round(*[50_000_000] * 3, short)
    assert len(stage.taken()) == told["objects"] == 3
    stage.now += timedelta(minutes=10)
    assert stage.round(short)["BooksBehindSeconds"] > 0

    assert stage.round()["BooksBehindSeconds"] == 0
    assert stage.taken() == sealed


def test_a_listing_longer_than_a_round_continues_in_the_next(
    stage: Stage, sealed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new environment may have years to list; until the end it cannot name missing objects."""
    stage.round()
    stage.let_pass(hours=1)
    stage.begin_anew()
    monkeypatch.setattr(rounds, "PAGE", 2)

    told = stage.round(project_entries.RESERVED_MS - 1)
    assert project_entries._progress.whole == sorted(sealed)[1]
    assert not {"BooksBehindSeconds", "BooksLeftOut"} & told.keys()

    assert stage.round()["BooksBehindSeconds"] == 0
    assert project_entries._progress.whole == max(sealed)


# One object in the way


def test_an_unreadable_object_is_reported_and_delays_no_other(
    stage: Stage, sealed: set[str], town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed, cut, gone, denied = sorted(sealed)[:4]
    whole = {name: stage.journal.objects[name] for name in (changed, cut, gone)}
    stage.journal.versions[changed] = [gzip.compress(b"{}\n")]
    stage.journal.versions[cut] = [whole[cut][:20]]
    stage.journal.versions[gone] = [None]
    stage.journal.put_object(Bucket="journal", Key="journal/0000", Body=b"")
    unbookable = stage.put(entry(town, 1))
    read = Bucket.read

    def deny(bucket: Bucket, found: Any) -> bytes:
        if found.name == denied:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject")
        return read(bucket, found)

    monkeypatch.setattr(Bucket, "read", deny)
    out = {changed, cut, gone, denied, unbookable}
    stage.now += timedelta(hours=1)

    with refused(stage, unbookable, refusal("DatabaseErrorException")):
        for _ in range(2):
            told = stage.round()
            assert stage.taken() == sealed - out
            assert told["BooksLeftOut"] == len(out) + 1
            assert told["BooksBehindSeconds"] >= 58 * 60

    monkeypatch.setattr(Bucket, "read", read)
    stage.journal.versions |= {name: [content] for name, content in whole.items()}
    del stage.journal.versions["journal/0000"]
    assert stage.round()["BooksLeftOut"] == 0
    assert stage.taken() == sealed | {unbookable}


@pytest.mark.parametrize(
    "name",
    [
        f"journal/2026-11-20T1200/{'0' * 63}\0.jsonl.gz",
        "journal/0000",
        f"journal/2026-99-99T9999/{'0' * 64}.jsonl.gz",
        f"journal/0001-01-01T0000/{'0' * 64}.jsonl.gz",
        f"journal/2026-11-20T1200/{'0' * 64}.jsonl.gz ",
        f"journal/٢٠٢٦-11-20T1200/{'0' * 64}.jsonl.gz",
    ],
)
def test_an_object_with_an_impossible_name_is_never_queried(
    stage: Stage, sealed: set[str], name: str
) -> None:
    """PostgreSQL text has no NUL: a name with NUL would fail the query of its whole page."""
    stage.journal.put_object(Bucket="journal", Key=name, Body=b"")

    for asked in (True, False):
        told = stage.round()
        assert (told["BooksLeftOut"], told["BooksBehindSeconds"]) == (1, 0)
        assert stage.taken() == sealed
        assert bool(stage.asked) is asked


def test_a_put_aside_line_is_reported_for_a_day(stage: Stage, town: Town) -> None:
    """A new environment reports it too; a round without new objects wakes no database for it."""
    stage.put(entry(town, 1), entry(town, 2, amount=-1))

    assert stage.round()["BooksLeftOut"] == 1
    stage.let_pass(hours=23)
    assert (stage.round()["BooksLeftOut"], stage.asked) == (1, [])
    stage.begin_anew()
    assert stage.round()["BooksLeftOut"] == 1
    stage.let_pass(hours=2)
    stage.put(entry(town, 3))
    assert stage.round()["BooksLeftOut"] == 0


def test_a_put_aside_lines_report_expires_without_a_query(stage: Stage, town: Town) -> None:
    stage.put(entry(town, 1), entry(town, 2, amount=-1))
    stage.round()
    stage.let_pass(hours=25)

    assert (stage.round()["BooksLeftOut"], stage.asked) == (0, [])


@pytest.mark.parametrize("dies", [False, True], ids=["the answer is lost", "the environment dies"])
def test_a_line_put_aside_is_reported_despite_a_lost_answer(stage: Stage, town: Town, dies: bool) -> None:
    stage.round()
    stage.put(entry(town, 1), entry(town, 2, amount=-1))
    lost = KeyboardInterrupt() if dies else AWAY

    stage.client.after = refuses(
        lost, "commit_transaction", after=1
    )  # first of the inbox, then of the object
    with pytest.raises(KeyboardInterrupt if dies else BooksUnavailable):
        stage.round()
    stage.client.after = lambda call: None
    if dies:
        stage.begin_anew()

    assert stage.round()["BooksLeftOut"] == 1


# A month that is closed


def test_a_late_entry_of_a_closed_month_is_reported_once(stage: Stage, town: Town) -> None:
    stage.put(entry(town, 1))
    assert stage.round()["BooksLate"] == 0
    months.close(stage.connection, f"{NOW:%Y-%m}", NOW + timedelta(days=60))
    stage.put(entry(town, 2), entry(town, 3))
    told = stage.round()
    assert (told["BooksLate"], told["late"], told["BooksLeftOut"]) == (2, 2, 0)

    stage.begin_anew()
    assert stage.round()["BooksLate"] == 0
    stage.put(entry(town, 2))
    assert (stage.round()["BooksLate"], len(stage.taken())) == (0, 3)


def test_a_failing_round_still_reports_the_late_entries_it_booked(stage: Stage, town: Town) -> None:
    stage.put(entry(town, 1))
    stage.round()
    months.close(stage.connection, f"{NOW:%Y-%m}", NOW + timedelta(days=60))
    stage.put(entry(town, 2))
    stage.put(entry(town, 3), at=NOW + timedelta(minutes=1))
    away = refusal("ServiceUnavailableError")

    stage.client.before = refuses(away, "begin_transaction", after=2)  # of the inbox, and of the first object
    with pytest.raises(BooksUnavailable):
        stage.round()
    assert stage.line()["BooksLate"] == 1

    stage.client.before = stage.asked.append
    assert stage.round()["BooksLate"] == 1


def test_a_left_out_objects_log_line_shows_no_content(
    stage: Stage, town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(telemetry.logger, "error", lambda message, **more: told.append(more))
    name = stage.put(entry(town, 1, debit="canary"))
    _, other = an_object(entry(town, 2, debit="canary"))
    stage.journal.versions[name] = [other]

    stage.round()

    (line,) = told
    assert line["object"] == name
    assert "was changed" in line["reason"]
    assert "canary" not in str(told)


@pytest.mark.parametrize("operation", ["list", "read"])
@pytest.mark.parametrize(
    "error",
    [
        *(ClientError({"Error": {"Code": one}}, "S3") for one in ("SlowDown", "KMS.ThrottlingException")),
        AWAY,
    ],
    ids=["throttled", "throttled by KMS", "no answer"],
)
def test_an_absent_journal_is_left_to_the_next_round(
    stage: Stage, sealed: set[str], monkeypatch: pytest.MonkeyPatch, operation: str, error: Exception
) -> None:
    def fail(*given: Any, **named: Any) -> Any:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(stage.journal, {"list": "get_paginator", "read": "get_object"}[operation], fail)
        with pytest.raises(JournalUnavailable):
            stage.round()
    assert stage.taken() == set()
    assert stage.line()["JournalUnavailable"] == 1

    stage.round()
    assert stage.taken() == sealed


@pytest.mark.parametrize("page", [0, 1])
def test_no_lag_is_reported_if_the_listing_fails(
    stage: Stage, sealed: set[str], town: Town, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """A 0 would say that the books lack nothing, and silence the alarm during the failure."""
    stage.round()
    stage.journal._page = 2
    versions = stage.journal._versions

    def fail(**given: Any) -> Iterator[Any]:
        yield from islice(versions(**given), page)
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "S3")

    for number in range(4):
        stage.put(entry(town, number))
    with monkeypatch.context() as patched:
        patched.setattr(stage.journal, "_versions", fail)
        with pytest.raises(JournalUnavailable):
            stage.round()
    assert not {"BooksBehindSeconds", "BooksLeftOut"} & stage.line().keys()

    assert stage.round()["BooksBehindSeconds"] == 0


def test_the_lag_is_unknown_until_the_listing_ends() -> None:
    done = Round(waiting=["journal/0000"])

    assert done.behind_seconds(NOW) is None
    done.has_ended = True
    assert done.behind_seconds(NOW) == 0


# Twice, late, half


def test_concurrent_rounds_book_each_entry_once(
    stage: Stage, sealed: set[str], town: Town, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage.client, "_connect", connect)  # on a busy machine, locks last
    done = [Round(), Round(), Round()]
    begins = threading.Barrier(len(done))

    def run(one: Round) -> None:
        api = DataApi(stage.client, cluster="cluster", secret="secret", database="books")
        begins.wait(60)
        catch_up(api, Bucket(stage.journal, "journal"), Progress(), one, NOW, lambda: True)

    threads = [threading.Thread(target=run, args=(one,)) for one in done]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert stage.taken() == sealed
    assert sum(one.objects for one in done) == len(sealed)
    assert [one.waiting for one in done] == [[], [], []]
    assert verify.verify(stage.connection, lambda: towns.entries(town), NOW).agrees


@pytest.mark.parametrize("seed", range(4))
def test_each_entry_is_booked_once_although_calls_and_rounds_fail(
    stage: Stage, sealed: set[str], town: Town, seed: int
) -> None:
    chance = random.Random(seed)
    faults = [
        refusal("DatabaseResumingException"),
        refusal("DatabaseErrorException"),
        refusal("InternalServerErrorException"),
        AWAY,
        KeyboardInterrupt(),
    ]

    def maybe(call: str) -> None:
        if chance.random() < 0.1:
            raise chance.choice(faults)

    stage.client.before = stage.client.after = maybe
    failed = 0
    for _ in range(30):
        try:
            stage.round()
        except BooksUnavailable:
            failed += 1
        except KeyboardInterrupt:
            failed += 1
            stage.begin_anew()
        if chance.random() < 0.5:  # three minutes later; until then a transaction that was left has its locks
            stage.client.time_out()
    stage.client.before = stage.client.after = lambda call: None
    stage.client.time_out()

    assert stage.round()["BooksBehindSeconds"] == 0
    assert failed > 3
    assert stage.taken() == sealed
    assert verify.verify(stage.connection, lambda: towns.entries(town), NOW).agrees
