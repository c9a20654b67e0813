"""Concurrent callers of one settlement, each with a connection of its own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

from settlement.core.store.dynamodb import Store
from tests.world.saga import Saga, outcome_of

CONNECTIONS_MAX = 32


def callers(saga: Saga, count: int) -> list[Saga]:
    assert count <= CONNECTIONS_MAX
    client = _client(saga.ledger.client.meta.endpoint_url)
    store = Store(client, saga.ledger.table_name, lambda failed_tries: None)
    return [replace(saga, ledger=replace(saga.ledger, client=client, store=store))] * count


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call each in its own thread, started together; return results or refusals in order."""
    barrier = threading.Barrier(len(calls))

    def wait_and_call(call: Callable[[], Any]) -> Any:
        barrier.wait(timeout=60)
        return outcome_of(call)

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(wait_and_call, calls))


@cache
def _client(endpoint_url: str) -> Any:
    config = Config(max_pool_connections=CONNECTIONS_MAX)
    return boto3.client("dynamodb", endpoint_url=endpoint_url, config=config)
