"""Measure Chromium's time to load the console's queue of 10,000 open cases: `python -m benchmarks.console`.

The table is on a real DynamoDB server on this machine. The time is from the click to the end of the load.
"""

import argparse
import statistics
import time
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from unittest import mock

import boto3

from benchmarks import engine
from settle.reports import queue
from settlement.aws import step_functions
from settlement.core.ledger import keys
from settlement.core.model.timestamps import timestamp
from settlement.core.store.wire import to_wire
from tests.browser.chromium import Looking, browser
from tests.settle.desk import Desk
from tests.settle.reports.test_report_queue import CloudWatch
from tests.settle.served import serving
from tests.settle.visitor import Sts
from tests.world.environment import NOW
from tests.world.ledger import Ledger, over, signing

ROUNDS = 10
_BATCH = 25


def _stuck(ledger: Ledger) -> Desk:
    """Return a desk whose one settlement is in LIMBO."""
    from handlers import _dependencies  # noqa: PLC0415 - they read the environment
    from handlers.kyc import _provider as _kyc  # noqa: PLC0415 - they read the environment

    desk = Desk(ledger)
    desk.stack.clients.update(cloudwatch=CloudWatch(), sts=Sts())
    with (
        mock.patch.object(_dependencies, "store", ledger.store),
        mock.patch.object(_dependencies, "now", return_value=NOW),
        mock.patch.object(step_functions, "_client", desk.machines),
        mock.patch.object(_kyc, "ask", desk.provider.ask),
    ):
        desk.open().stuck()
    return desk


def _fill(ledger: Ledger, row: dict[str, Any], cases: int) -> None:
    for start in range(0, cases, _BATCH):
        copies = [
            row
            | to_wire(keys.settlement(f"order-many-{number:06}"))
            | {"gsi1sk": {"S": timestamp(NOW + timedelta(seconds=number))}}
            for number in range(start, min(start + _BATCH, cases))
        ]
        requests = [{"PutRequest": {"Item": one}} for one in copies]
        left = ledger.client.batch_write_item(RequestItems={ledger.table_name: requests})
        assert not left["UnprocessedItems"]


def main() -> None:
    """Print the median and the longest of some loads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    cases = parser.parse_args().cases
    with ExitStack() as stack:
        place = engine.table(stack.enter_context(engine.dynamodb()), "queue", is_ours=True)
        client = boto3.client("dynamodb", endpoint_url=place.url)
        ledger = signing(over(client, place.table))
        desk = _stuck(ledger)
        _fill(ledger, to_wire(desk.row()), cases - 1)
        served = stack.enter_context(serving(desk.stack, lambda: NOW + timedelta(hours=4)))
        window = Looking(stack.enter_context(browser())).enter(served.address)
        seconds = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            window.go(f"{served.origin}/")
            seconds.append(time.perf_counter() - began)
        shown = window.page.locator("[aria-label='Open cases'] tbody tr").count()
        size = len(window.page.content())
        window.close()
    print(
        f"{cases} cases, {shown} of them on the page (most: {queue.LINES_MAX}; {size / 1e6:.1f} MB):"
        f" median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s"
    )


if __name__ == "__main__":
    main()
