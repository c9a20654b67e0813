"""Many callers of one settlement at once: a client each, a start together."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import boto3

from settlement.adapters.dynamodb import Store
from tests.conftest import Ledger
from tests.store.saga import Saga, outcome_of


def callers(saga: Saga, count: int) -> list[Saga]:
    """Return the same settlement `count` times, each with a client of its own."""

    def own() -> Ledger:
        client = boto3.client("dynamodb", endpoint_url=saga.ledger.client.meta.endpoint_url)
        return replace(
            saga.ledger, client=client, store=Store(client, saga.ledger.table_name, lambda failed_tries: None)
        )

    return [replace(saga, ledger=own()) for _ in range(count)]


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Call each in its own thread, started together; return the results or refusals in order."""
    barrier = threading.Barrier(len(calls))

    def wait_and_call(call: Callable[[], Any]) -> Any:
        barrier.wait(timeout=60)
        return outcome_of(call)

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(wait_and_call, calls))
