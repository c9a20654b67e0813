"""Functions die at random on a separate embedded AWS; each settlement ends.

`STORM_KILLS=1000 pytest --timeout 0 tests/e2e/test_storm.py` sets the number of killed functions (default
25); new settlements keep coming until then.
"""

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import psutil
import pytest

from settle.exit_codes import CommandFailed
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.status import Status
from settlement.proof import table_scan
from tests.e2e.embedded import COMMAND_SECONDS_MAX, Embedded, embedded_aws, new_account, new_key

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("STORM_KILLS", "25"))
BURST, PORTION = 20, 10
"""Number of initial settlements, and of further ones whenever most have ended."""

AT_WORK_MIN = 0.2
"""Minimum share of killed functions that had a call."""

STORM_SECONDS_MAX, CALM_SECONDS_MAX = 300 + 6 * KILLS, 900
DEADLINE_SECONDS = 86_400
"""Longer than the storm, so every payable settlement must settle."""

HIGHEST = "1000000.00"

IN_FLIGHT = (Status.PROCESSING, Status.COMPENSATING)
DIED_AT_WORK = ("Runtime exited before returning a response", "bootstrap exited during init with code -9")
"""The embedded AWS's messages for a function killed at work or during its start."""

UNVERIFIED = {
    (Status.COMPENSATED, ("verify", "KycUnavailable")),
    (Status.COMPENSATED, ("verify", "KycCircuitOpen")),
    (Status.COMPENSATED, ("release", "KycUnavailable")),
}
"""Ends of a settlement that gets no verdict in time."""

PAYABLE = {(Status.SETTLED, None), *UNVERIFIED}
UNPAYABLE = {(Status.COMPENSATED, ("release", "CapExceeded")), *UNVERIFIED}
"""Possible ends of an unpayable settlement, with reasons."""


@dataclass
class Storm:
    """Settlements of 1.00 EUR in progress while functions die, with the number of deaths.

    Every tenth cannot be released, because its payee has the highest balance. Each has its own payer, because
    an account in LIMBO places no holds.
    """

    embedded: Embedded
    requests: dict[str, Row] = field(default_factory=dict)
    executions: dict[str, str] = field(default_factory=dict)
    killed: int = 0
    died_at_work: int = 0

    @cached_property
    def payees(self) -> list[str]:
        bobs = [self.account("bob") for _ in range(9)]
        return [self.account("rich", HIGHEST), *bobs]

    def account(self, name: str, deposit: str = "0") -> str:
        """Open an account; retry while settlements in flight use all concurrency."""
        give_up_at = time.monotonic() + STORM_SECONDS_MAX
        while True:
            try:
                return new_account(self.embedded, name, deposit)
            except CommandFailed:  # the door is throttled
                assert time.monotonic() < give_up_at, self.tally()

    def is_payable(self, key: str) -> bool:
        return bool(self.requests[key]["payee"] != self.payees[0])

    def ask(self, many: int) -> None:
        payers = [self.account("alice", "1.00") for _ in range(many)]
        for payer in payers:
            key = new_key("storm")
            self.requests[key] = {
                "key": key,
                "payer": payer,
                "payee": self.payees[len(self.requests) % len(self.payees)],
                "amount": "1.00",
                "currency": "EUR",
                "deadline_seconds": DEADLINE_SECONDS,
            }
            self.start(key)

    def start(self, key: str) -> None:
        self.executions[key] = self.embedded.run("SettlementStandardArn", self.requests[key], new_key(key))

    def is_driven(self, key: str) -> bool:
        described = self.embedded.step_functions.describe_execution(executionArn=self.executions[key])
        return bool(described["status"] == "RUNNING")

    def kill(self, process: psutil.Process, killed: int) -> None:
        """Kill at least `killed` functions at random, preferably those at work."""
        give_up_at = time.monotonic() + STORM_SECONDS_MAX
        settled = self.settled()
        self.ask(BURST)
        while self.settled() == settled:  # until all functions have begun to work
            assert time.monotonic() < give_up_at, self.tally()
            time.sleep(1)
            self.keep_in_flight()
        with log(self.embedded).open(encoding="utf-8", errors="replace") as told:
            told.seek(0, os.SEEK_END)
            while self.killed < killed or self.died_at_work < killed * AT_WORK_MIN:
                assert time.monotonic() < give_up_at, self.tally()
                alive = functions(process)
                busy = [function for function in alive if is_busy(function)]
                chosen = busy if busy and random.random() < 2 / 3 else alive
                if chosen:
                    with suppress(psutil.NoSuchProcess):
                        random.choice(chosen).kill()
                        self.killed += 1
                time.sleep(random.uniform(0.2, 0.6))
                self.died_at_work += any(death in line for line in told for death in DIED_AT_WORK)
                told.seek(0, os.SEEK_END)
                if not busy:
                    self.keep_in_flight()

    def keep_in_flight(self) -> None:
        if sum(map(self.is_driven, list(self.requests)[-PORTION:])) < PORTION / 2:
            self.ask(PORTION)

    def has_in_flight(self) -> bool:
        return any(row["status"] in IN_FLIGHT for row in self.rows().values())

    def unspent(self) -> set[str]:
        balances = {row["pk"]: row["available"] for row in self.embedded.rows() if row["sk"] == "BALANCE"}
        payers = {key: keys.account(request["payer"])["pk"] for key, request in self.requests.items()}
        assert {balances[payer] for payer in payers.values()} <= {0, 100}
        return {key for key, payer in payers.items() if balances[payer] == 100}

    def tally(self) -> str:
        ends = Counter(map(end, self.rows().values()))
        return (
            f"{self.killed} functions killed, {self.died_at_work} of them at work,"
            f" {len(self.requests)} settlements asked for, of which: {ends}"
        )

    def settled(self) -> int:
        return sum(row["status"] == Status.SETTLED for row in self.rows().values())

    def rows(self) -> dict[str, Row]:
        found = {keys.subject(row)[1]: row for row in self.embedded.rows() if keys.is_settlement(row)}
        return {key: found[key] for key in self.requests if key in found}

    def over(self) -> dict[str, Row]:
        """Wait until all are claimed and ended; start unclaimed ones again. Return their rows."""
        give_up_at = time.monotonic() + CALM_SECONDS_MAX
        while True:
            found = self.rows()
            unclaimed = self.requests.keys() - found.keys()
            if not unclaimed and not any(row["status"] in IN_FLIGHT for row in found.values()):
                return found
            assert time.monotonic() < give_up_at, self.tally()
            for key in unclaimed:
                if not self.is_driven(key):
                    self.start(key)
            time.sleep(4)


@pytest.fixture(scope="module")
def embedded() -> Iterator[Embedded]:
    """An embedded AWS with recovery's schedules, whose state outlives an orderly stop.

    At most 12 processes of functions run at once.
    """
    with embedded_aws() as embedded:
        up = embedded.settle("local", "up", PERSIST_STATE="1", LAMBDA_ACCOUNT_CONCURRENCY="12")
        assert up.returncode == 0, up.stderr
        yield embedded


def log(embedded: Embedded) -> Path:
    return embedded.home / "embedded" / "log"


def functions(process: psutil.Process) -> list[psutil.Process]:
    found = []
    for child in process.children():
        with suppress(psutil.Error):
            if "awslambdaric" in child.cmdline():
                found.append(child)
    return found


def is_busy(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.status() == psutil.STATUS_RUNNING)
    return False


def end(row: Row) -> tuple[str, tuple[str, str] | None]:
    failure = row.get("failure")
    return row["status"], (failure["step"], failure["error"]) if failure else None


@contextmanager
def stopped_and_started(embedded: Embedded) -> Iterator[psutil.Process]:
    process = psutil.Process(embedded.running().pid)
    command, environment, folder = process.cmdline(), process.environ(), process.cwd()
    at_work = functions(process)
    process.terminate()
    process.wait(COMMAND_SECONDS_MAX)
    for orphan in at_work:
        with suppress(psutil.NoSuchProcess):
            orphan.kill()
    with log(embedded).open("ab") as appended:
        again = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=appended, stderr=appended, start_new_session=True
        )
    client = embedded.stack.client("sts")

    def answers() -> bool:
        with suppress(Exception):
            return bool(client.get_caller_identity())
        return False

    try:
        embedded.wait_for(answers)
        yield psutil.Process(again.pid)
    finally:
        again.terminate()
        again.wait(COMMAND_SECONDS_MAX)


def test_settlements_end_despite_killed_functions_and_a_stopped_embedded_aws(
    embedded: Embedded,
) -> None:
    storm = Storm(embedded)

    storm.kill(psutil.Process(embedded.running().pid), KILLS // 2)
    give_up_at = time.monotonic() + STORM_SECONDS_MAX
    while not storm.has_in_flight():  # all may have ended before they are looked at
        assert time.monotonic() < give_up_at, storm.tally()
        storm.ask(PORTION)
    with stopped_and_started(embedded) as process:
        storm.kill(process, KILLS)
        ended = storm.over()

        print(tally := storm.tally())  # with -rP, also where all is well
        assert storm.killed >= KILLS, tally
        assert ended.keys() == storm.requests.keys()
        assert {
            key: row
            for key, row in ended.items()
            if end(row) not in (PAYABLE if storm.is_payable(key) else UNPAYABLE)
        } == {}, tally
        settled = {key for key, row in ended.items() if row["status"] == Status.SETTLED}
        assert len(settled) > len(ended) / 2, tally
        findings = table_scan.check(embedded.stack.store)
        assert (findings.faults, findings.unproven, findings.conserved) == ([], [], True), tally
        assert findings.totals["EUR"]["escrow"] == 0
        assert findings.totals["EUR"]["fees"] == len(settled)  # a cent of each
        assert storm.unspent() == ended.keys() - settled
