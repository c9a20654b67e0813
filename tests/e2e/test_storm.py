"""Everything dies at random, and all that was in flight ends: an embedded AWS of its own, with its clock."""

import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest

from settle import decisions, ledger
from settlement.resolution import Decision
from settlement.status import Status
from tests.e2e.embedded import COMMAND_SECONDS_MAX, Embedded, at_once, embedded_aws, new_account, new_key

SETTLEMENTS, STORM_SECONDS, CALM_SECONDS_MAX = 200, 60, 900
IN_FLIGHT = (Status.PROCESSING, Status.COMPENSATING)


@pytest.fixture(scope="module")
def embedded() -> Iterator[Embedded]:
    """Recovery is called by the clock here, each minute. What there is outlives an orderly stop.

    No more than 12 functions run at once, as each is a process; what is beyond that is throttled.
    """
    with embedded_aws() as embedded:
        up = embedded.settle("local", "up", PERSIST_STATE="1", LAMBDA_ACCOUNT_CONCURRENCY="12")
        assert up.returncode == 0, up.stderr
        yield embedded


def in_flight(embedded: Embedded, count: int) -> list[str]:
    """So many settlements of 1.00 EUR, claimed and started; return their keys.

    Every tenth cannot be released, as its payee has all that an account may hold.
    """
    payer, payee = new_account(embedded, "alice", "1000.00"), new_account(embedded, "bob")
    rich = new_account(embedded, "rich", "1000000.00")
    keys = [new_key("storm") for _ in range(count)]
    requests = [
        {
            "key": key,
            "payer": payer,
            "payee": payee if number % 10 else rich,
            "amount": "1.00",
            "currency": "EUR",
        }
        for number, key in enumerate(keys)
    ]
    embedded.invoke("ClaimKey", None)  # makes the client that all threads share
    at_once(
        [
            lambda one=one: embedded.invoke("ClaimKey", one, execution=f"{one['key']}-mine")
            for one in requests
        ],
        threads=4,
    )
    for one in requests:
        embedded.step_functions.start_execution(
            stateMachineArn=embedded.stack.outputs["SettlementStandardArn"],
            name=f"{one['key']}-mine",
            input=json.dumps(one),
        )
    return keys


def environments(embedded: Embedded) -> list[psutil.Process]:
    found = []
    for process in embedded.processes():
        with suppress(psutil.Error):
            if "awslambdaric" in process.cmdline():
                found.append(process)
    return found


def statuses(embedded: Embedded, keys: list[str]) -> Counter[str]:
    """How many settlements stand how."""
    found = {row["pk"].partition("#")[2]: row for row in embedded.rows() if row["sk"] == "SETTLEMENT"}
    return Counter(found[key]["status"] for key in keys)


def over(embedded: Embedded, keys: list[str]) -> Counter[str]:
    """The same once nothing is in flight any more."""
    give_up_at = time.monotonic() + CALM_SECONDS_MAX
    while any(statuses(embedded, keys)[status] for status in IN_FLIGHT):
        assert time.monotonic() < give_up_at, statuses(embedded, keys)
        time.sleep(2)
    return statuses(embedded, keys)


def kill_at_random(embedded: Embedded, seconds: float) -> int:
    """Kill functions, at work or not, one or more a second; return how many."""
    killed, over_at = 0, time.monotonic() + seconds
    while time.monotonic() < over_at:
        if alive := environments(embedded):
            with suppress(psutil.NoSuchProcess):
                random.choice(alive).kill()
                killed += 1
        time.sleep(random.uniform(0.1, 0.5))
    return killed


@contextmanager
def stopped_and_started(embedded: Embedded) -> Iterator[None]:
    """Stop the embedded AWS with all that runs on it, and start it again from what it has kept."""
    process = psutil.Process(embedded.running().pid)
    command, environment, folder = process.cmdline(), process.environ(), process.cwd()
    process.terminate()
    process.wait(COMMAND_SECONDS_MAX)
    for orphan in environments(embedded):
        with suppress(psutil.NoSuchProcess):
            orphan.kill()
    again = subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    client = embedded.stack.client("sts")

    def answers() -> bool:
        with suppress(Exception):
            return bool(client.get_caller_identity())
        return False

    try:
        embedded.wait_for(answers)
        yield
    finally:
        again.terminate()
        again.wait(COMMAND_SECONDS_MAX)


def test_settlements_end_though_functions_are_killed_and_all_of_the_embedded_aws_is_stopped(
    embedded: Embedded,
) -> None:
    keys = in_flight(embedded, SETTLEMENTS)

    killed = kill_at_random(embedded, STORM_SECONDS / 2)
    assert statuses(embedded, keys)[Status.PROCESSING] > 0
    with stopped_and_started(embedded):
        killed += kill_at_random(embedded, STORM_SECONDS / 2)
        ended = over(embedded, keys)

        # A reversal whose function dies at every retry gets stuck: then a person is paged, and says so.
        stuck = [key for key in keys if embedded.settlement(key)["status"] == Status.LIMBO]
        for key in stuck:
            decisions.resolve(embedded.stack, key, Decision.RETRY, "the storm is over")
        settled = ended[Status.SETTLED]
        assert killed > 20
        assert settled + ended[Status.COMPENSATED] + len(stuck) == SETTLEMENTS
        # A provider that is too slow in all of this makes a payment be given back, as one should know.
        assert SETTLEMENTS / 2 < settled <= SETTLEMENTS - SETTLEMENTS // 10
        findings = ledger.check(embedded.stack)
        assert (findings.faults, findings.conserved) == ([], True)
        assert findings.totals["EUR"]["escrow"] == 0
        assert findings.totals["EUR"]["fees"] == settled  # a cent of each
