"""Concurrent callers of one settlement, each with a connection of its own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from itertools import permutations
from typing import Any

import boto3
from botocore.config import Config

from settlement.core.ledger.keys import Row
from settlement.core.model.state import SettlementState
from settlement.core.store.dynamodb import Store
from tests.world.books import assert_conserved
from tests.world.journal import assert_recorded
from tests.world.ledger import in_memory
from tests.world.saga import Saga, outcome_of

CALLERS, CONNECTIONS_MAX = 16, 32

Act = Callable[[Saga, SettlementState | None], Any]
"""A call on a settlement; its second argument is the state seen before the race."""

Start = Callable[[Saga], Any]
Ended = tuple[list[Row], dict[Act, set[type]]]
"""All rows after the calls, and the types of each call's answers."""


def assert_one_order(saga: Saga, start: Start, acts: Sequence[Act]) -> None:
    """Check that concurrent calls, each by several callers, end as in some sequential order."""
    ends = [in_order(replace(saga, ledger=in_memory()), start, order) for order in permutations(acts)]
    start(saga)
    seen = saga.ledger.store.settlement(saga.settlement.key)
    calls = [(acts[number % len(acts)], caller) for number, caller in enumerate(callers(saga, CALLERS))]

    answers = at_once([partial(act, caller, seen) for act, caller in calls])

    rows = saga.ledger.rows()
    assert_conserved(rows)
    assert_recorded(rows)
    lawful = [told for found, told in ends if found == rows]
    assert lawful, f"in no order of the calls: {rows}"
    for (act, _), answer in zip(calls, answers, strict=True):
        assert type(answer) in set().union(*(told[act] for told in lawful)), answer


def in_order(saga: Saga, start: Start, acts: Sequence[Act]) -> Ended:
    """Make the calls one by one, and then repeat them all."""
    start(saga)
    seen = saga.ledger.store.settlement(saga.settlement.key)
    told: dict[Act, set[type]] = {act: set() for act in acts}
    for act in (*acts, *acts):
        told[act].add(type(outcome_of(partial(act, saga, seen))))
    return saga.ledger.rows(), told


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
