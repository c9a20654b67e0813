"""A killed, denied and throttled relay loses and invents no event.

`EVENTS_STORM=1000 pytest -s tests/e2e/events/test_events_storm.py` sets the number of payments (default 60).
`EVENTS_CALM=yes` leaves the relay alone, to measure latency.
"""

import json
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from statistics import median, quantiles
from threading import Event
from typing import Any

import psutil
import pytest

from settle.exit_codes import CommandFailed
from settle.orders import reversal
from settle.settlements.machines import Machine
from settle.settlements.start import start
from tests.e2e.embedded import Embedded, at_once, embedded_aws, new_account, new_key
from tests.e2e.hearing import hearing

pytestmark = pytest.mark.long

PAYMENTS = int(os.environ.get("EVENTS_STORM", "60"))
CALM = "EVENTS_CALM" in os.environ
AT_ONCE = 4
HIGHEST = "1000000.00"


@pytest.fixture(scope="module")
def embedded() -> Iterator[Embedded]:
    """A separate embedded AWS, because PublishEvents is in trouble there."""
    with embedded_aws() as embedded:
        embedded.up()
        embedded.schedule(enabled=False)
        yield embedded


def pay(embedded: Embedded, payer: str, payee: str) -> str:
    key = new_key("storm")
    request = {"key": key, "payer": payer, "payee": payee, "amount": "1.00", "fee": "0.00", "currency": "EUR"}
    start(embedded.stack, Machine.STANDARD, json.dumps(request))
    return key


def reverse(embedded: Embedded, key: str) -> None:
    with suppress(CommandFailed):
        reversal.reverse(embedded.stack, key, "the goods came back")


def trouble(embedded: Embedded, over: Event) -> int:
    """Kill, deny and throttle the relay in turn until `over` is set; return the number of faults."""
    function, times = embedded.functions["PublishEvents"], 0
    client = embedded.stack.client("lambda")
    while not CALM and not over.wait(random.uniform(0.5, 2)):
        match times % 3:
            case 0:
                for pid in embedded.environments("PublishEvents"):
                    with suppress(psutil.NoSuchProcess):
                        psutil.Process(pid).kill()
            case 1:
                with embedded.without_grants("PublishEvents", "events:PutEvents"):
                    over.wait(2)
            case 2:
                client.put_function_concurrency(FunctionName=function, ReservedConcurrentExecutions=0)
                over.wait(2)
                client.delete_function_concurrency(FunctionName=function)
        times += 1
    return times


def test_each_change_is_published_after_the_event_publisher_recovers(embedded: Embedded) -> None:
    rich = [new_account(embedded, f"rich{number}", "1000.00") for number in range(AT_ONCE)]
    payees = [new_account(embedded, f"payee{number}") for number in range(AT_ONCE)]
    full = new_account(embedded, "full", HIGHEST)
    over = Event()

    def one(number: int) -> str:
        payer = rich[number % AT_ONCE]
        key = pay(embedded, payer, full if number % 7 == 6 else payees[number % AT_ONCE])
        if number % 5 == 4:
            reverse(embedded, key)
        return key

    with hearing(embedded) as heard, ThreadPoolExecutor(1) as beside:
        troubled = beside.submit(trouble, embedded, over)
        try:
            keys = at_once([lambda number=number: one(number) for number in range(PAYMENTS)], AT_ONCE)
            limbo = stuck(embedded, rich[0])
        finally:
            over.set()
        ended = time.monotonic()
        told = {key: heard.wait_for(key) for key in (*keys, *limbo)}

        rows = {key: embedded.settlement(key) for key in told}
        for key, row in rows.items():
            last = heard.of(key)[-1]["data"]
            assert (last["status"], last["finished_at"]) == (row["status"], row.get("finished_at")), key
        phantoms = [event["id"] for event in heard.events if is_phantom(event, rows)]
        assert phantoms == []
        statuses = {row["status"] for row in rows.values()}
        assert statuses == {"SETTLED", "COMPENSATED", "LIMBO"}
        events = sum(map(len, told.values()))
        late = time.monotonic() - ended
        print(
            f"{len(rows)} payments, {events} events, heard {len(heard.events)} times;"
            f" {troubled.result()} troubles; the last event came {late:.1f} s after the end;"
            f" from commit to queue: median {median(heard.lags):.2f} s,"
            f" p95 {quantiles(heard.lags, n=20)[-1]:.2f} s"
        )


def stuck(embedded: Embedded, payer: str) -> list[str]:
    poor, shop = new_account(embedded, "poor"), new_account(embedded, "shop")
    paid, spent = pay(embedded, payer, poor), pay(embedded, poor, shop)
    reverse(embedded, paid)
    embedded.wait_for(lambda: embedded.settlement(paid)["status"] == "LIMBO")
    return [paid, spent]


def is_phantom(event: dict[str, Any], rows: dict[str, dict[str, Any]]) -> bool:
    row = rows.get(event["subject"])
    return row is None or int(event["sequence"]) > row["sequence"]
