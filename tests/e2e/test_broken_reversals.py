import io
import json
import secrets
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from infra.assets import LAMBDAS
from settle.local.demo.stuck_reversal import TOPICS, messages
from settle.settlements.settlement import state_of
from tests.e2e.embedded import COMMAND_SECONDS_MAX, Embedded, at_once, new_account
from tests.e2e.stuck import REASON, pay

pytestmark = pytest.mark.long

REVERSALS = 3
PAGE_SECONDS = 5
"""Seconds from an event to its page."""

CANNOT_START = "Runtime.Unknown"
"""The embedded AWS's error for an unstartable function; on AWS `Runtime.ImportModuleError`."""

MODULE = "handlers/core/reclaim_funds.py"


def deploy(embedded: Embedded, *, broken: bool) -> None:
    """Deploy ReclaimFunds, if `broken` with an import of a missing module."""
    asset = io.BytesIO()
    with zipfile.ZipFile(asset, "w") as archive:
        for path in sorted(LAMBDAS.rglob("*")):
            name = str(path.relative_to(LAMBDAS))
            if path.is_file() and "__pycache__" not in name and name != MODULE:
                archive.write(path, name)
        text = (LAMBDAS / MODULE).read_text()
        archive.writestr(MODULE, text + "\nimport left_out_of_the_asset\n" if broken else text)
    client, name = embedded.stack.client("lambda"), embedded.functions["ReclaimFunds"]
    client.update_function_code(FunctionName=name, ZipFile=asset.getvalue())
    client.get_waiter("function_updated_v2").wait(
        FunctionName=name, WaiterConfig={"Delay": 1, "MaxAttempts": COMMAND_SECONDS_MAX}
    )


@contextmanager
def broken(embedded: Embedded) -> Iterator[None]:
    """Break ReclaimFunds, and let the machine retry each call only once, after a second.

    The embedded AWS takes 20 s for each call of an unstartable function.
    """
    machine, client = embedded.stack.outputs["CompensationArn"], embedded.step_functions
    definition = client.describe_state_machine(stateMachineArn=machine)["definition"]
    hasty = json.loads(definition)
    for retry in hasty["States"]["ReclaimFunds"]["Retry"][1:]:  # the first one names refusals, never repeated
        retry.update(IntervalSeconds=1, MaxDelaySeconds=2, MaxAttempts=1)
    client.update_state_machine(stateMachineArn=machine, definition=json.dumps(hasty))
    try:
        deploy(embedded, broken=True)
        yield
    finally:
        deploy(embedded, broken=False)
        client.update_state_machine(stateMachineArn=machine, definition=definition)


def reversed_by_order(embedded: Embedded, key: str) -> str:
    order = {"key": key, "reason": REASON, "expected_status": state_of(embedded.stack, key).status}
    assert embedded.stack.door.send("reverse", order).status == 200
    return key


def failures(embedded: Embedded, keys: list[str]) -> list[dict[str, Any]]:
    pages = embedded.step_functions.get_paginator("list_executions").paginate(
        stateMachineArn=embedded.stack.outputs["CompensationArn"], statusFilter="FAILED"
    )
    return [one for page in pages for one in page["executions"] if one["name"].startswith(tuple(keys))]


def alarms_of(embedded: Embedded, ended: list[datetime]) -> int:
    """Return how often the deployed alarm would go off if executions failed at these times."""
    (alarm,) = (
        one
        for one in embedded.stack.client("cloudwatch").describe_alarms()["MetricAlarms"]
        if one["MetricName"] == "ExecutionsFailed" and "#compensationfailed" in one["AlarmDescription"]
    )
    assert (alarm["Threshold"], alarm["Period"], alarm["DatapointsToAlarm"]) == (1.0, 60, 1)
    assert alarm["AlarmActions"] == alarm["OKActions"] == [embedded.stack.outputs["PagerTopicArn"]]
    minutes = {int(at.timestamp()) // 60 for at in ended}
    states = [
        any(minute - ago in minutes for ago in range(alarm["EvaluationPeriods"]))
        for minute in range(min(minutes) - 1, max(minutes) + alarm["EvaluationPeriods"] + 1)
    ]
    return sum(now and not before for before, now in pairwise(states))


def pages_until_now(embedded: Embedded, received: Callable[[], Iterator[dict[str, str]]]) -> list[str]:
    """Return all alerts published until now.

    Waits for a mark on each topic instead of silence, because other tests' alerts may never pause.
    """
    mark, told = secrets.token_hex(8), list[str]()
    until = time.monotonic() + PAGE_SECONDS
    for topic in TOPICS:
        embedded.stack.client("sns").publish(TopicArn=embedded.stack.outputs[topic], Message=mark)

    def have_arrived() -> bool:
        told.extend(one["Message"] for one in received())
        return told.count(mark) == len(TOPICS) and time.monotonic() > until

    embedded.wait_for(have_arrived)
    return told


def test_a_broken_reversal_function_pages_once_and_recovers_after_repair(embedded: Embedded) -> None:
    payee = new_account(embedded, "hugo")
    payers = [new_account(embedded, "gina", "100.00") for _ in range(REVERSALS)]
    keys = [str(pay(embedded, payer, payee, "48.20")["key"]) for payer in payers]

    def status() -> set[str]:
        return {str(embedded.settlement(key)["status"]) for key in keys}

    with messages(embedded.stack) as received:
        with broken(embedded):
            for key in keys:
                reversed_by_order(embedded, key)
            embedded.wait_for(lambda: len(failures(embedded, keys)) == REVERSALS)
            failed = failures(embedded, keys)
            in_between = status()
        taken = [one["action"] for one in at_once([lambda k=key: embedded.recover(k) for key in keys], 4)]
        embedded.wait_for(lambda: status() == {"COMPENSATED"})
        pages = pages_until_now(embedded, received)

    ends = [embedded.ended(one["executionArn"]) for one in failed]
    assert {one["error"] for one in ends} == {"CompensationStalled"}
    assert {json.loads(one["cause"])["Error"] for one in ends} == {CANNOT_START}
    assert (in_between, set(taken)) == ({"COMPENSATING"}, {"compensate"})
    steps = [step for key in keys for step in embedded.entries(key)]
    assert [step for step in steps if step.startswith(("resolve:", "limbo:"))] == []
    assert {embedded.available(payer) for payer in payers} == {"100.00"}
    assert embedded.available(payee) == "0.00"
    assert [page for page in pages if any(key in page for key in keys)] == []
    assert alarms_of(embedded, [one["stopDate"] for one in failures(embedded, keys)]) == 1
    assert embedded.conserved()
