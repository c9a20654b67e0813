"""Count the calls that reach a dead KYC provider: dead from the first call, or after answers.

Each function environment is a process. It asks ten times a second, about a new payment each time. Ten
seconds after the circuit has opened, the provider is back.
"""

import itertools
import multiprocessing
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from settle.local.kyc_behaviour import Behaviour
from settle.local.kyc_simulator import Server

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ |= {
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "POWERTOOLS_LOG_LEVEL": "CRITICAL",
}

import boto3

from settlement.core.model.errors import KycCircuitOpen, KycUnavailable
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.http.circuit import State, Thresholds
from settlement.http.shared_circuit import SharedCircuit
from settlement.kyc import circuit as kyc_circuit
from settlement.kyc import client as kyc_client
from tests.world import engines, templates

ENVIRONMENTS = (1, 4, 16, 64)
THRESHOLDS = Thresholds(failures=10, within_seconds=900, recovery_seconds=3)
HEALTHY_SECONDS = {"from the first call": 0, "after answers": 4}
"""The situations, with the time for which the provider answers before it dies."""

OPEN_SECONDS = 10
BETWEEN_CALLS_SECONDS = 0.1
WAIT_SECONDS_MAX = 60
CONFIG = StageConfig.from_json(
    '{"currencies":{"EUR":2},"highest_balances":{},"fee_basis_points":0,'
    '"deadline_seconds":900,"recover_after_seconds":30}'
)
PAYMENT = Settlement(key="order-2026-000101", payer="alice", payee="bob", amount=4820, currency="EUR", fee=0)

Ask = Callable[[Settlement, str], Any]
Seen = list[tuple[str, float]]
"""The events of an environment and their times: `call`, `answer`, or the circuit's new state."""


@dataclass(frozen=True)
class Figures:
    """The measurements of one run."""

    before: int
    while_open: int
    probes: int
    seconds_to_flow: float


def environment(number: int, places: tuple[str, str, str], begin: Any, stop: Any, results: Any) -> None:
    """Ask until `stop` is set, and put the events on the queue."""
    dynamodb_url, table_name, kyc_url = places
    seen: Seen = []
    endpoint = kyc_client.Endpoint(
        url=kyc_url,
        provider="verifications",
        dataset="default",
        connect_timeout_seconds=5,
        read_timeout_seconds=20,
    )
    client = kyc_client.Client(endpoint, CONFIG)

    def ask(settlement: Settlement, api_key: str) -> Any:
        seen.append(("call", time.monotonic()))
        answer = client.ask(settlement, api_key)
        seen.append(("answer", time.monotonic()))
        return answer

    def announce(state: State) -> None:
        seen.append((state.value, time.monotonic()))

    dynamodb = boto3.client("dynamodb", endpoint_url=dynamodb_url)
    circuit = SharedCircuit(kyc_circuit.CIRCUIT, dynamodb, table_name, THRESHOLDS, announce)
    guarded = kyc_circuit.guarded(ask, circuit, lambda state: None)
    payments = (replace(PAYMENT, key=f"{PAYMENT.key}-{number}-{next_one}") for next_one in itertools.count())
    begin.wait()
    while not stop.wait(BETWEEN_CALLS_SECONDS):
        with suppress(KycUnavailable, KycCircuitOpen):
            guarded(next(payments), "secret")
        if seen:
            results.put((os.getpid(), seen[:]))
            seen.clear()
    results.put((os.getpid(), None))


def measure(situation: str, environments: int, dynamodb_url: str) -> Figures:
    """Count the calls of `environments` that ask while the provider dies and comes back."""
    table_name = f"{'-'.join(situation.split())}-{environments}"
    boto3.client("dynamodb", endpoint_url=dynamodb_url).create_table(
        TableName=table_name, **templates.table_definition()
    )
    context = multiprocessing.get_context("fork")
    begin, stop, results = context.Event(), context.Event(), context.Queue()
    server = Server(0)
    server.state.behaviour = Behaviour.APPROVE if HEALTHY_SECONDS[situation] else Behaviour.ERROR
    places = (dynamodb_url, table_name, f"http://127.0.0.1:{server.server_address[1]}")
    processes = [
        context.Process(target=environment, args=(number, places, begin, stop, results), daemon=True)
        for number in range(environments)
    ]
    for process in processes:
        process.start()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    begin.set()
    time.sleep(HEALTHY_SECONDS[situation])
    server.state.change({"behaviour": Behaviour.ERROR})
    died_at = time.monotonic() if HEALTHY_SECONDS[situation] else 0
    try:
        return observe(results, environments, server, stop, died_at)
    finally:
        server.stopped.set()
        server.shutdown()
        server.server_close()
        for process in processes:
            process.join(WAIT_SECONDS_MAX)


def observe(results: Any, environments: int, server: Server, stop: Any, died_at: float) -> Figures:
    """Collect the events, and bring the provider back once the circuit has been open for `OPEN_SECONDS`."""
    seen: Seen = []
    opened_at = recovered_at = flowed_at = float("inf")
    flowing: set[int] = set()
    ended, fails_at = 0, time.monotonic() + WAIT_SECONDS_MAX
    while ended < environments:
        with suppress(queue.Empty):
            process, batch = results.get(timeout=0.05)
            ended += batch is None
            seen += batch or []
            opened_at = min([opened_at, *(at for what, at in batch or [] if what == "OPEN")])
            if process not in flowing and (
                answers := [at for what, at in batch or [] if what == "answer" and at > recovered_at]
            ):
                flowing.add(process)
                flowed_at = answers[0]
        now = time.monotonic()
        if recovered_at == float("inf") and now >= opened_at + OPEN_SECONDS:
            recovered_at = now
            server.state.change({"behaviour": Behaviour.APPROVE})
        if len(flowing) == environments or now > fails_at:
            stop.set()
    calls = [at for what, at in seen if what == "call" and died_at < at < recovered_at]
    probes = sum(what == "HALF_OPEN" and at < recovered_at for what, at in seen)
    before = sum(at < opened_at for at in calls)
    return Figures(before, len(calls) - before - probes, probes, flowed_at - recovered_at)


def table(dynamodb_url: str, environments: Sequence[int]) -> Iterator[str]:
    """Yield the lines of a table: each situation with each number of environments."""
    yield (
        "| dead | environments | calls before it opens | calls while open, besides probes"
        " | probes | seconds from recovery until all flow |"
    )
    yield "|---|--:|--:|--:|--:|--:|"
    for name in HEALTHY_SECONDS:
        for number in environments:
            figures = measure(name, number, dynamodb_url)
            yield (
                f"| {name} | {number} | {figures.before} | {figures.while_open} | {figures.probes}"
                f" | {figures.seconds_to_flow:.1f} |"
            )


def main() -> None:
    """Print the table."""
    with engines.server("dynamodb-local") as dynamodb_url:
        for line in table(dynamodb_url, ENVIRONMENTS):
            print(line, flush=True)


if __name__ == "__main__":
    main()
