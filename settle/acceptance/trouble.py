import json
import time
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from settle.acceptance.run import AMOUNT, DEPOSIT, Run
from settle.acceptance.verdict import NotApplicable, Refuted, expect
from settle.local.demo.stuck_reversal import pager
from settle.orders.resolution import resolve
from settle.orders.reversal import reverse
from settlement.accounts.order import OrderKind
from settlement.core.ledger import keys
from settlement.core.model import executions
from settlement.core.model.orders import Decision

STOPS_MAX = 5
"""Maximum payments to stop: a fast payment may end before it is stopped."""

_SPENT = AMOUNT // 2


def recovery(run: Run) -> str:
    """Stop a Standard execution after its claim. Expect recovery to settle the payment."""
    payer, payee = run.account("stopped-a", DEPOSIT), run.account("stopped-b")
    for settled in range(1, STOPS_MAX + 1):
        seconds, is_recovered = _stopped(run, run.request("stopped", payer, payee))
        expect("what the payer has left", run.balance(payer), DEPOSIT - settled * AMOUNT)
        expect("what the payee has got", run.balance(payee), settled * run.net)
        if is_recovered:
            return f"stopped while PROCESSING, SETTLED by recovery {seconds:.0f} s later, and once"
    raise NotApplicable(f"each of {STOPS_MAX} payments ended by itself, as it was stopped too late")


def _stopped(run: Run, request: dict[str, str]) -> tuple[float, bool]:
    """Stop an execution. Return the seconds until SETTLED, and whether recovery settled the payment."""
    client, key = run.stack.client("stepfunctions"), request["key"]
    arn = client.start_execution(
        stateMachineArn=run.stack.outputs["SettlementStandardArn"],
        name=executions.sent(key, run.id),
        input=json.dumps(request),
    )["executionArn"]
    if not run.wait_for(f"the claim of {key}", lambda: run.stack.store.settlement(key)):
        raise Refuted(f"{key}: a Standard execution has claimed nothing")
    run.stopped_at = run.stopped_at or datetime.now(UTC)
    try:
        client.stop_execution(executionArn=arn)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationException":  # it has ended by itself
            raise
    stopped_at, state = time.monotonic(), run.at_rest(key)
    expect(f"status of {key}", str(state and state.status), "SETTLED")
    return time.monotonic() - stopped_at, state is not None and state.owner_epoch > 0


def limbo(run: Run) -> str:
    """Get a reversal stuck, receive the page, and decide by an order."""
    payer, payee = run.parties("limbo")
    shop = run.account("limbo-c")
    stuck, spent = run.request("limbo", payer, payee), run.request("limbo", payee, shop, _SPENT)
    for request in (stuck, spent):
        outcome = run.send(request).outcome
        expect(f"status of {request['key']}", outcome and outcome["status"], "SETTLED")
    key = stuck["key"]
    with pager(run.stack) as receive:
        began = time.monotonic()
        run.waits_for = f"the reversal of {key}, and its page"
        expect("status", reverse(run.stack, key, run.reason)["status"], "LIMBO")
        receive(f"{key} is in LIMBO since")
        seconds = time.monotonic() - began
        run.wait_for(f"an execution to wait for {key}", lambda: run.stack.store.read(keys.waiting(key)))
        run.stuck = str((run.stack.store.read(keys.waiting(key)) or {}).get("execution", ""))
        run.move(OrderKind.DEPOSIT, payee, _SPENT)
        run.waits_for = f"the retry of {key}, and its message"
        expect("status", resolve(run.stack, key, Decision.RETRY, run.reason)["status"], "COMPENSATED")
        receive(f"{key} is out of LIMBO")
    expect("what the payer has back", run.balance(payer), DEPOSIT)
    return f"LIMBO, its page was heard {seconds:.1f} s after the order; a retry by order ended it COMPENSATED"


def interval(run: Run) -> str:
    """Check in an execution's history that its case of LIMBO waits for the input's `wait_seconds`."""
    if run.stack.endpoint_url:
        raise NotApplicable("the embedded AWS: knows no TimeoutSecondsPath, and waits for a fixed time")
    if not run.stuck:
        raise NotApplicable("no case of LIMBO has waited: `limbo` has to run with it, and to get one")
    pages = run.stack.client("stepfunctions").get_paginator("get_execution_history")
    events = [event for page in pages.paginate(executionArn=run.stuck) for event in page["events"]]
    entered = next(
        (n for n, event in enumerate(events) if _entered(event).get("name") == "AwaitResolution"), None
    )
    if entered is None:
        raise Refuted(f"{run.stuck} has not entered AwaitResolution")
    told = int(json.loads(_entered(events[entered])["input"])["wait_seconds"])
    waits = [event["taskScheduledEventDetails"] for event in events[entered:] if _is_scheduled(event)]
    expect("the wait for a decision, in seconds", waits[0].get("timeoutInSeconds") if waits else None, told)
    return f"without a decision the second alert would have come after {told} s, as the state told"


def _is_scheduled(event: dict[str, Any]) -> bool:
    return "taskScheduledEventDetails" in event


def _entered(event: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = event.get("stateEnteredEventDetails", {})
    return found
