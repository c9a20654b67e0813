"""Load on one item: one payer pays one payee at a steady pace."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from botocore.exceptions import ClientError

from settle.acceptance.payments import THREADS_EMBEDDED, told
from settle.acceptance.run import AMOUNT, Run
from settle.acceptance.throttling import quota_of_error
from settle.acceptance.verdict import Refuted, expect
from settle.acceptance.watching import LOGS_SECONDS_MAX
from settle.local.demo.cost import READS
from settle.local.demo.cost import lines as lines_since
from settle.settlements.follow import is_at_rest
from settle.stack import client_of
from settlement.core.ledger import keys
from settlement.core.model import executions
from settlement.core.model.state import SettlementState
from settlement.core.store import batch

SECONDS = 10
"""Duration at each rate. 10/s gives 100 payments, the fewest for a 99th percentile."""

THREADS_MAX = 400
"""Maximum threads. With more, payments are sent late, and the pace drops."""

WRITES = 5
"""Writes of a settled payment: hold, release, fee, and two for the verdict."""

REST_SECONDS_MAX = 300

_POLL_SECONDS = 2


@dataclass(frozen=True)
class Paid:
    """A sent payment. `seconds` is None if no execution started."""

    key: str
    sent_at: float
    end: str
    seconds: float | None


def load(run: Run, rates: list[int]) -> str:
    for rate in rates:
        run.figures.append(_at(run, rate))
    return "; ".join(_told(one) for one in run.figures)


def _at(run: Run, rate: int) -> dict[str, Any]:
    count = rate * SECONDS
    payer, payee = run.account(f"load-{rate}-a", AMOUNT * count), run.account(f"load-{rate}-b")
    began = time.time() - 60
    run.waits_for = f"{count} payments at {rate}/s"
    paid = _pay(run, rate, [run.request(f"load-{rate}", payer, payee) for _ in range(count)])
    states = _at_rest(run, [one.key for one in paid if one.seconds is not None])
    settled = sum(state.status == "SETTLED" for state in states)
    expect("what the payer has left", run.balance(payer), AMOUNT * (count - settled))
    expect("what the payee has got", run.balance(payee), run.net * settled)
    sends, conflicts = _sends(run, began, rate, settled)
    seconds = [one.seconds for one in paid if one.seconds is not None]
    sending = max(one.sent_at for one in paid) - min(one.sent_at for one in paid)
    return {
        "rate": rate,
        "reached": round((count - 1) / sending, 1),
        "ends": dict(sorted(Counter(one.end for one in paid).items())),
        "settled_in_the_end": settled,
        "p50_seconds": _quantile(seconds, 50),
        "p99_seconds": _quantile(seconds, 99),
        "max_seconds": round(max(seconds, default=0), 3),
        "writes_sent": sends,
        "conflicts": conflicts,
        "conflict_share": round(conflicts / sends, 4) if sends else None,
    }


def _pay(run: Run, rate: int, requests: list[dict[str, str]]) -> list[Paid]:
    threads = THREADS_EMBEDDED if run.stack.endpoint_url else THREADS_MAX
    client = client_of(run.stack.session, "stepfunctions", run.stack.endpoint_url, 1, threads)
    began, futures = time.monotonic(), []
    with _pool(threads) as pool:
        for number, request in enumerate(requests):
            time.sleep(max(0, began + number / rate - time.monotonic()))
            futures.append(pool.submit(_one, run, client, request))
        return [future.result() for future in futures]


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # the check may be overdue


def _one(run: Run, client: Any, request: dict[str, str]) -> Paid:
    """Send a payment. AWS measures its `seconds`, so they exclude the network."""
    key, sent_at = request["key"], time.monotonic()
    try:
        ended = client.start_sync_execution(
            stateMachineArn=run.stack.outputs["SettlementExpressArn"],
            name=executions.sent(key, run.id),
            input=json.dumps(request),
        )
    except ClientError as refused:
        if quota_of_error(refused):
            return Paid(key, sent_at, "not started", None)
        raise
    seconds = (ended["stopDate"] - ended["startDate"]).total_seconds()
    return Paid(key, sent_at, str(told(ended)), seconds)


def _at_rest(run: Run, sent: list[str]) -> list[SettlementState]:
    run.waits_for = f"{len(sent)} payments to come to rest"
    give_up_at = time.monotonic() + REST_SECONDS_MAX
    while True:
        rows = batch.read(run.stack.store, [keys.settlement(key) for key in sent])
        states = [SettlementState.from_row(row) for row in rows]
        moving = sum(not is_at_rest(state) for state in states)
        if not moving:
            return states
        if time.monotonic() > give_up_at:
            raise Refuted(
                f"{moving} of {len(sent)} payments are in flight {REST_SECONDS_MAX} s after the last"
            )
        time.sleep(_POLL_SECONDS)


def _sends(run: Run, began: float, rate: int, settled: int) -> tuple[int, int]:
    prefix, found = f"acceptance-{run.id}-load-{rate}-", (0, 0)

    def are_told() -> bool:
        nonlocal found
        lines = [one for one in lines_since(run.stack, began) if str(one.get("key")).startswith(prefix)]
        used = [(operation, of) for one in lines for operation, of in one["dynamodb"].items()]
        sends = sum(of["calls"] for operation, of in used if operation not in READS)
        conflicts = sum(sum(one.get("TransactionConflict", ())) for one in lines)
        found = int(sends), int(conflicts)
        return found[0] - found[1] >= WRITES * settled

    run.wait_for("the functions' lines", are_told, LOGS_SECONDS_MAX)
    return found


def _quantile(seconds: list[float], hundredth: int) -> float | None:
    if len(seconds) < 2:
        return seconds[0] if seconds else None
    return round(quantiles(seconds, n=100, method="inclusive")[hundredth - 1], 3)


def _told(one: dict[str, Any]) -> str:
    share = "unknown" if one["conflict_share"] is None else f"{one['conflict_share']:.1%}"
    ends = ", ".join(f"{count} {end}" for end, count in one["ends"].items())
    return (
        f"{one['rate']}/s for {SECONDS} s (reached {one['reached']}/s): {ends};"
        f" {one['settled_in_the_end']} settled in the end;"
        f" p50 {one['p50_seconds']} s, p99 {one['p99_seconds']} s; conflicts {share} of the writes"
    )
