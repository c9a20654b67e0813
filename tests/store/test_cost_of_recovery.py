"""A recovery run reads only the due settlements, however large the number in flight."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import urllib3

from handlers import _dependencies
from handlers.core import recover_stalled
from settlement.aws import step_functions as _step_functions
from settlement.core.ledger import forward, keys
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.timestamps import timestamp
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.ledger import Ledger

DUE = 10
FEW = 100
BATCH = 25
THREADS = 4
QUERIES = 3 * keys.IN_FLIGHT_SHARDS + 1
"""Three per shard: its listing, its head, and its reviews about to end. One more for LIMBO."""

HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Target": "DynamoDB_20120810.BatchWriteItem",
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20261120/eu-west-1/dynamodb/aws4_request,"
    " SignedHeaders=host, Signature=0",
    "X-Amz-Date": "20261120T120000Z",
}
"""The servers read the table's owner from these headers, without checking the signature."""

LATER = timestamp(NOW + timedelta(seconds=31))


def in_flight(numbers: range, settlement: Settlement, config: StageConfig) -> list[keys.Row]:
    found = (replace(settlement, key=f"order-2026-{number:06}") for number in numbers)
    return [dict(forward.claim(each, "execution-1", NOW, config).parameters["Item"]) for each in found]


def waiting(numbers: range) -> Iterator[dict[str, Any]]:
    for number in numbers:
        key = f"order-2026-{number:06}"
        row = {**keys.settlement(key), **keys.in_flight_index(key, LATER)}
        yield {"PutRequest": {"Item": {name: {"S": value} for name, value in row.items()}}}


def fill(ledger: Ledger, numbers: range) -> None:
    """Send rows without the SDK, whose signing is slower than the engine's answers."""
    pool = urllib3.PoolManager(maxsize=THREADS, headers=HEADERS)
    requests = list(waiting(numbers))

    def send(first: int) -> bytes:
        call = {"RequestItems": {ledger.table_name: requests[first : first + BATCH]}}
        return pool.request("POST", ledger.client.meta.endpoint_url, body=json.dumps(call)).data

    with ThreadPoolExecutor(THREADS) as threads:
        answers = set(threads.map(send, range(0, len(requests), BATCH)))
    assert answers == {b'{"UnprocessedItems":{}}'}


@contextmanager
def answers_of(ledger: Ledger) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    found: list[tuple[str, dict[str, Any]]] = []

    def answered(parsed: dict[str, Any], model: Any, **_: Any) -> None:
        found.append((model.name, parsed))

    ledger.client.meta.events.register("after-call.dynamodb", answered)
    yield found
    ledger.client.meta.events.unregister("after-call.dynamodb", answered)


def run(ledger: Ledger) -> tuple[float, set[str]]:
    """Run recovery on each partition; return its read units and the keys of the rows read."""
    with answers_of(ledger) as answers:
        for partition in recover_stalled.PARTITIONS:
            recover_stalled.handler({"partition": partition}, Context())
    reads = [(name, answer) for name, answer in answers if name in ("Query", "GetItem")]
    listed = [answer for name, answer in reads if name == "Query"]
    assert len(listed) == QUERIES
    assert all(answer["ScannedCount"] == answer["Count"] for answer in listed)
    assert {name for name, _ in answers} == {"Query", "GetItem", "UpdateItem"}
    shown = [item["pk"]["S"] for answer in listed for item in answer["Items"]]
    shown += [answer["Item"]["pk"]["S"] for name, answer in reads if name == "GetItem"]
    return sum(answer["ConsumedCapacity"]["CapacityUnits"] for _, answer in reads), set(shown)


@pytest.mark.parametrize("engine", ["server"])
@pytest.mark.parametrize("many", [2_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_a_recovery_run_reads_only_the_settlements_that_are_due(
    ledger: Ledger,
    settlement: Settlement,
    config: StageConfig,
    monkeypatch: pytest.MonkeyPatch,
    many: int,
) -> None:
    started: list[str] = []
    monkeypatch.setattr(_dependencies, "store", ledger.store)
    monkeypatch.setattr(_dependencies, "now", lambda: NOW + timedelta(seconds=30))
    monkeypatch.setattr(_step_functions, "start", lambda machine, name, *_: started.append(name))
    due = in_flight(range(DUE), settlement, config)
    for row in due:
        ledger.put(row)
    fill(ledger, range(DUE, FEW))

    of_few, shown_of_few = run(ledger)
    for row in due:
        ledger.put(row)  # as if no run had been there
    fill(ledger, range(FEW, many))
    of_many, shown_of_many = run(ledger)

    assert shown_of_few == shown_of_many == {row["pk"] for row in due}
    assert len(started) == 2 * DUE
    assert 0 < of_many <= of_few * 1.1
    assert of_few <= DUE + QUERIES  # a unit a row, and a query takes half of one or so
