"""Both databases fail in turn during payments; the books finally equal the table."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from settle.books import reach, verify
from settle.journal import sealed
from settlement.core.ledger import keys
from settlement.core.model.errors import StoreUnavailable
from settlement.core.model.status import Status
from settlement.journal import lines
from settlement.journal.sealed_journal import SealedJournal
from tests.e2e.embedded import (
    COMMAND_SECONDS_MAX,
    SETTLE,
    Embedded,
    RecoveryFailed,
    embedded_aws,
    new_account,
    new_key,
)
from tests.e2e.test_storm import stopped_and_started
from tests.world import postgresql

pytestmark = pytest.mark.long

IN_FLIGHT_MAX = 2
PAUSE_SECONDS = 0.3
"""Pause between payments, so that slow and fast machines have equally many in flight."""

ENTRIES_OF_ONE = 3

AWAY = (ClientError, BotoCoreError, StoreUnavailable, RecoveryFailed)
"""Errors of a client, the store and recovery while the embedded AWS is down or starting."""


@pytest.fixture
def embedded() -> Iterator[Embedded]:
    """A separate embedded AWS that keeps its tables over an orderly stop."""
    with embedded_aws() as own:
        up = own.settle("local", "up", PERSIST_STATE="1", LAMBDA_ACCOUNT_CONCURRENCY="8")
        assert up.returncode == 0, up.stderr
        yield own


class Payments:
    """Successive payments, a few in flight, even while the embedded AWS is down."""

    def __init__(self, embedded: Embedded) -> None:
        self._embedded, self._over = embedded, threading.Event()
        payer, payee = new_account(embedded, "gina", "100000.00"), new_account(embedded, "hugo")
        self._request = {"payer": payer, "payee": payee, "amount": "1.00", "currency": "EUR"}
        self._in_flight = dict[str, str]()
        self.settled = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Payments":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def more(self) -> None:
        wanted = self.settled + IN_FLIGHT_MAX + 1
        self._embedded.wait_for(lambda: self.settled >= wanted or not self._thread.is_alive())
        assert self._thread.is_alive(), "payments have ended with the error of their thread"

    def end(self) -> int:
        self._over.set()
        self._thread.join()
        self._embedded.wait_for(self._all_settled)
        return self.settled

    def _run(self) -> None:
        while not self._over.wait(PAUSE_SECONDS):
            if self._all_settled() or len(self._in_flight) < IN_FLIGHT_MAX:
                with suppress(*AWAY):
                    self._send(new_key("pay"))

    def _send(self, key: str) -> None:
        self._in_flight[key] = ""  # if its answer is lost, it may have begun
        self._in_flight[key] = self._embedded.run("SettlementStandardArn", {**self._request, "key": key})

    def _all_settled(self) -> bool:
        """Recover or resend stopped payments. Return whether all are known to have settled."""
        try:
            self._look()
        except AWAY:
            return False
        return not self._in_flight

    def _look(self) -> None:
        for key, execution in list(self._in_flight.items()):
            row = self._embedded.stack.store.read(keys.settlement(key))
            if row and row["status"] == Status.SETTLED:
                del self._in_flight[key]
                self.settled += 1
            elif not self._is_running(execution):
                self._embedded.recover(key) if row else self._send(key)

    def _is_running(self, execution: str) -> bool:
        if not execution:
            return False
        try:
            told = self._embedded.step_functions.describe_execution(executionArn=execution)
        except ClientError:  # it is not known any more
            return False
        return bool(told["status"] == "RUNNING")


class Follower:
    """A running `settle ledger follow`, whose output goes to a file."""

    def __init__(self, embedded: Embedded, url: str, told: Path) -> None:
        self._told = told
        with told.open("wb") as output:
            self.process = subprocess.Popen(
                [SETTLE, "ledger", "follow", "--every", "1", "--json", "--url", url],
                stdout=output,
                env=embedded.environment,
            )

    def rounds(self) -> list[dict[str, Any]]:
        assert self.process.poll() is None, "it goes on while a database is away"
        whole, _, _ = self._told.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def entries(self) -> int:
        return sum(one["entries"] for one in self.rounds())

    def faults(self) -> int:
        return sum(str(one["fault"]).startswith("ledger: ") for one in self.rounds())


def fill_journal(embedded: Embedded) -> int:
    """Copy the table's entries into the sealed journal; return their number.

    This is needed because the embedded AWS loses streams and bucket at a stop, and `settle journal fill`
    skips the newest quarter of an hour.
    """
    rows, now = [row for row in embedded.rows() if row["pk"].startswith("ENTRIES#")], datetime.now(UTC)
    journal = SealedJournal(embedded.stack.client("s3"), sealed.bucket(embedded.stack))
    journal.add([lines.filled(row, int(now.timestamp())) for row in rows], now)
    return len(rows)


def booked(url: str) -> int:
    """Count the entries in the books, because the follower omits commits whose answers were lost."""
    with psycopg.connect(url) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM ledger.entry").fetchall()
    return int(count)


@contextmanager
def following(embedded: Embedded, url: str, told: Path) -> Iterator[Follower]:
    follower = Follower(embedded, url, told)
    try:
        yield follower
    finally:
        follower.process.terminate()
        follower.process.wait(COMMAND_SECONDS_MAX)


def test_books_equal_the_table_after_each_database_failed_during_payments(
    embedded: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgresql.cluster() as cluster:
        url = f"{cluster.url}/postgres"
        assert embedded.settle("ledger", "migrate", "--url", url).returncode == 0
        with following(embedded, url, tmp_path / "rounds") as follower, Payments(embedded) as payments:
            embedded.wait_for(lambda: follower.entries() > 0)

            cluster.kill()
            payments.more()
            embedded.wait_for(lambda: follower.faults() > 0)
            known = follower.entries()
            cluster.start()
            embedded.wait_for(lambda: follower.entries() > known)

            with stopped_and_started(embedded):
                payments.more()
                cluster.kill()
                payments.more()
                cluster.start()
                count = payments.end()
                entries = fill_journal(embedded)
                embedded.wait_for(lambda: booked(url) >= entries)

                monkeypatch.setattr(verify, "LAG", timedelta())  # they are all young
                verdict = reach.verify(url, embedded.stack, datetime.now(UTC))
                print(f"{count} payments, {entries} entries, {len(follower.rounds())} rounds, {verdict}")
                assert (verdict["agrees"], verdict["behind_seconds"]) == (True, 0), verdict
                assert verdict["entries"] == entries > count * ENTRIES_OF_ONE
                assert embedded.conserved()
