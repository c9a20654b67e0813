"""Sixteen environments run as processes; one is killed between its question and its count."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from settlement.core.ledger import keys
from settlement.http import circuit as rules
from settlement.http.shared_circuit import CACHE_SECONDS
from tests.kyc.circuit_process import RECOVERY_SECONDS
from tests.world.ledger import Ledger
from tests.world.templates import PROJECT

COUNT = 16

pytestmark = pytest.mark.long


class Processes:
    def __init__(self, running: list[subprocess.Popen[str]]) -> None:
        self._running = running

    def say(self, answer: str, count: int | None = None) -> list[str]:
        """Let the first `count` processes, or all, ask concurrently; return each call's end."""
        asking = self._running[:count]
        for number, process in enumerate(asking):
            assert process.stdin
            process.stdin.write(f"order-{answer}-{number} {answer}\n")
            process.stdin.flush()
        return [_line(process) for process in asking]

    def kill_one_that_asks(self) -> str:
        """Kill a process between its question and the answer; return its payment."""
        assert self.say("hang", 1) == ["asks"]
        process = self._running.pop(0)
        process.kill()
        process.wait()
        return "order-hang-0"


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


@contextmanager
def processes(ledger: Ledger, failures: int) -> Iterator[Processes]:
    environment = {"AWS_ENDPOINT_URL_DYNAMODB": ledger.client.meta.endpoint_url}
    environment |= {"PYTHONPATH": f"{PROJECT}:{PROJECT / 'lambdas'}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "tests.kyc.circuit_process", ledger.table_name, str(failures)]
    with ExitStack() as stack:
        running = []
        for _ in range(COUNT):
            process = stack.enter_context(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env=environment,
                    cwd=PROJECT,
                )
            )
            stack.callback(process.kill)
            running.append(process)
        assert [_line(process) for process in running] == ["ready"] * COUNT
        yield Processes(running)


@pytest.mark.parametrize(("failures", "state"), [(COUNT, "CLOSED"), (COUNT - 1, "OPEN")])
def test_concurrent_failures_all_count_except_those_of_killed_processes(
    ledger: Ledger, failures: int, state: str
) -> None:
    with processes(ledger, failures) as environments:
        killed = environments.kill_one_that_asks()
        ended = environments.say("down")

    row = ledger.row(keys.circuit("kyc")) or {}
    assert ended == ["unavailable"] * (COUNT - 1)
    assert (row["failure_count"], row["state"], row["version"]) == (COUNT - 1, state, COUNT - 1)
    assert rules.payment(killed) not in row["failed"]


def test_a_killed_probe_gets_exactly_one_replacement(ledger: Ledger) -> None:
    with processes(ledger, failures=3) as environments:
        ended = environments.say("down")
        time.sleep(max(CACHE_SECONDS, RECOVERY_SECONDS) + 1)  # then none takes the circuit for closed
        killed = environments.kill_one_that_asks()
        opened = ledger.row(keys.circuit("kyc")) or {}
        environments.say("up")
        time.sleep(RECOVERY_SECONDS + 1)
        environments.say("up", 1)
        closed = ledger.row(keys.circuit("kyc")) or {}
        time.sleep(CACHE_SECONDS + 1)
        later = environments.say("up")

    assert 3 <= ended.count("unavailable") <= 3 + COUNT - 1
    assert opened["state"] == "HALF_OPEN"
    assert (closed["state"], closed["version"]) == ("CLOSED", opened["version"] + 2), "one lease, and its end"
    assert rules.payment(killed) not in closed.get("failed", "")
    assert later == ["answered"] * (COUNT - 1)
