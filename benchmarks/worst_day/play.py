"""The day itself: payments at an even pace on an embedded AWS, strangers at the webhook, and the provider."""

import json
import secrets
import stat
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import urllib3

from benchmarks.worst_day.findings import ENDED, Paid, Played
from benchmarks.worst_day.provider import DAY, DayServer, Hours
from benchmarks.worst_day.slow_names import HOST
from settle.kyc.circuit import status
from settlement.core.ledger import keys
from tests.e2e.embedded import Embedded, embedded_aws, new_account
from tests.e2e.provider import CREDENTIALS, secret
from tests.kyc.network import silent_ports

CONCURRENCY = 64
"""The embedded account's quota. Each function in flight is a process of this machine."""

LIMITS = {"VerifyKyc": 16, "KycDecided": 2, "HoldFunds": 8, "ReleaseFunds": 6, "CollectFee": 6}
"""Concurrency limits of functions that take no part in a reversal.

The embedded AWS reserves nothing. The rest of its quota stands for AWS's reservations for other functions.
"""

PAYERS = 10
OVER_SECONDS_MAX = 600
"""A payment that lasts longer counts as never ended. Allows for a slow machine."""

STRANGERS, STRANGERS_PAUSE_SECONDS = 6, 2
"""Concurrent calls of the webhook, three times its limit, and the pause between two rounds."""

SENDERS = 32
WARM_UP_ROUNDS, WARM_UP_PAYMENTS = (True, False, True), 5


@dataclass(frozen=True)
class Sent:
    """A payment that was sent."""

    key: str
    at: float
    hours: str
    is_good: bool


@dataclass
class Day:
    """A day on an embedded AWS, from its beginning."""

    embedded: Embedded
    server: DayServer
    names: Path
    rate: float
    seconds: int
    sent: list[Sent] = field(default_factory=list)
    circuit: list[tuple[float, str]] = field(default_factory=list)
    began_at: dict[str, float] = field(default_factory=dict)
    is_over: threading.Event = field(default_factory=threading.Event)
    environments: int = 0

    def open_accounts(self) -> None:
        """Open the accounts of the good clients, of the client with garbage, and of a payee."""
        self.payers = [new_account(self.embedded, f"payer{number}", "1000.00") for number in range(PAYERS)]
        self.bad = new_account(self.embedded, "kyc-garbage", "1000.00")
        self.payee = new_account(self.embedded, "payee")

    def warm_up(self) -> None:
        """Start the functions, as on a stage in use."""
        for is_good in WARM_UP_ROUNDS:
            self.began = time.time()
            with ThreadPoolExecutor(WARM_UP_PAYMENTS) as pool:
                for _ in range(WARM_UP_PAYMENTS):
                    pool.submit(self._pay, DAY[0], self.began, is_good=is_good)
            self._await_ends()
            self.sent.clear()
        self.server.calls.clear()

    def play(self, silent: list[int], say: Callable[[str], None]) -> None:
        """Send payments on time through all hours, however long each takes."""
        self.server.begin(DAY[0], self.names, silent)
        self.began = time.time()
        beside = [
            threading.Thread(target=task, daemon=True)
            for task in (self._watch_circuit, self._call_as_strangers)
        ]
        for thread in beside:
            thread.start()
        number = 0
        with ThreadPoolExecutor(SENDERS) as pool:
            for hours in DAY:
                self.server.begin(hours, self.names, silent)
                self.began_at[hours.name] = time.time() - self.began
                say(f"{hours.name}, from second {self.began_at[hours.name]:.0f} on")
                ends = sum(one.share for one in DAY[: DAY.index(hours) + 1]) * self.seconds
                while number / self.rate < ends:
                    due = self.began + number / self.rate
                    time.sleep(max(0, due - time.time()))
                    is_good = not hours.garbage or number % round(1 / hours.garbage) > 0
                    pool.submit(self._pay, hours, due, is_good=is_good)
                    number += 1
                self.environments = max(self.environments, len(self.embedded.environments("VerifyKyc")))
        self._await_ends()
        self.is_over.set()
        for thread in beside:
            thread.join()

    def _pay(self, hours: Hours, due: float, *, is_good: bool) -> None:
        """Send a payment. Its time counts from its due time, even if it is sent later."""
        key = f"day-{secrets.token_hex(8)}"
        payer = self.payers[len(self.sent) % PAYERS] if is_good else self.bad
        request = {"key": key, "payer": payer, "payee": self.payee, "amount": "0.10", "currency": "EUR"}
        self.sent.append(Sent(key, due - self.began, hours.name, is_good))
        self.embedded.step_functions.start_execution(
            stateMachineArn=self.embedded.stack.outputs["SettlementExpressArn"],
            name=key,
            input=json.dumps(request),
        )

    def _watch_circuit(self) -> None:
        while not self.is_over.wait(0.25):
            state = str(status(self.embedded.stack)["state"])
            if not self.circuit or self.circuit[-1][1] != state:
                self.circuit.append((time.time() - self.began, state))

    def _call_as_strangers(self) -> None:
        with ThreadPoolExecutor(STRANGERS) as pool:
            while not self.is_over.wait(STRANGERS_PAUSE_SECONDS):
                list(pool.map(self._call_unsigned, range(STRANGERS)))

    def _call_unsigned(self, _: int) -> None:
        with suppress(urllib3.exceptions.HTTPError):
            urllib3.request(
                "POST", self.embedded.running().webhook_url, body=b"{}", timeout=10, retries=False
            )

    def _await_ends(self) -> None:
        give_up_at = time.time() + OVER_SECONDS_MAX
        while time.time() < give_up_at:
            rows = self.rows()
            if len(rows) == len(self.sent) and all(row["status"] in ENDED for row in rows.values()):
                return
            time.sleep(2)

    def rows(self) -> dict[str, Any]:
        """Return the payments' rows by key."""
        found = {keys.subject(row)[1]: row for row in self.embedded.rows() if keys.is_settlement(row)}
        return {one.key: found[one.key] for one in self.sent if one.key in found}

    def played(self) -> Played:
        """Return the figures of the day."""
        rows = self.rows()
        thresholds = json.loads(self.embedded.variable("VerifyKyc", "KYC"))["breaker"]
        return Played(
            rate=self.rate,
            seconds=self.seconds,
            began_at=self.began_at,
            payments=[self._paid(one, rows.get(one.key, {})) for one in self.sent],
            calls=[(at - self.began, key) for at, key in self.server.calls],
            circuit=self.circuit,
            throttled=self._throttled(),
            environments=self.environments,
            failures_to_open=thresholds["failures"],
            is_conserved=self.embedded.conserved(),
        )

    def _paid(self, sent: Sent, row: dict[str, Any]) -> Paid:
        finished_at = row.get("finished_at")
        ended = datetime.fromisoformat(finished_at).timestamp() - self.began if finished_at else None
        return Paid(
            sent_at=sent.at,
            hours=sent.hours,
            is_good=sent.is_good,
            status=row.get("status", "never claimed"),
            error=row.get("failure", {}).get("error", ""),
            seconds=None if ended is None else ended - sent.at,
        )

    def _throttled(self) -> dict[str, int]:
        cloudwatch, counted = self.embedded.stack.client("cloudwatch"), defaultdict[str, int](int)
        now = datetime.now(UTC)
        for function, name in self.embedded.functions.items():
            points = cloudwatch.get_metric_statistics(
                Namespace="AWS/Lambda",
                MetricName="Throttles",
                Dimensions=[{"Name": "FunctionName", "Value": name}],
                StartTime=now - timedelta(hours=2),
                EndTime=now + timedelta(minutes=1),
                Period=60,
                Statistics=["Sum"],
            )["Datapoints"]
            counted[function] = int(sum(point["Sum"] for point in points))
        return dict(counted)


@contextmanager
def prepared(rate: float, seconds: int, say: Callable[[str], None]) -> Iterator[tuple[Day, list[int]]]:
    """Yield a day before its first payment, and the ports of the dead addresses."""
    with embedded_aws() as embedded, silent_ports(max(hours.silent for hours in DAY)) as silent:
        say("starting an embedded AWS, and deploying the app")
        up = embedded.settle("local", "up", LAMBDA_ACCOUNT_CONCURRENCY=str(CONCURRENCY))
        assert up.returncode == 0, up.stderr
        server = DayServer()
        server.state.change({"api_keys": [secret(embedded, CREDENTIALS)["api_key"]]})
        threading.Thread(target=server.serve_forever, daemon=True).start()
        day = Day(embedded, server, embedded.home / "names.json", rate, seconds)
        server.begin(DAY[0], day.names, silent)
        _lead_to(day)
        for function, limit in LIMITS.items():
            embedded.stack.client("lambda").put_function_concurrency(
                FunctionName=embedded.functions[function], ReservedConcurrentExecutions=limit
            )
        day.open_accounts()
        say("starting the functions")
        day.warm_up()
        try:
            yield day, silent
        finally:
            server.shutdown()
            server.server_close()


def _lead_to(day: Day) -> None:
    """Point VerifyKyc to this provider, by a name that `slow_names` looks up."""
    python = day.embedded.home / "python"
    program = Path(__file__).parent / "slow_names.py"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{program}" "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    known = json.loads(day.embedded.variable("VerifyKyc", "KYC"))
    # The time-outs of a stage on AWS: the promises are about those.
    known["endpoint"] |= {
        "url": f"http://{HOST}:80",
        "connect_timeout_seconds": 1,
        "read_timeout_seconds": 3,
    }
    day.embedded.renew("VerifyKyc", KYC=json.dumps(known), PYTHON=str(python), DAY_NAMES=str(day.names))
