"""Checks of trouble: an execution that is stopped half way, and a reversal that is stuck."""

import json
import time

from settle.acceptance.run import AMOUNT, DEPOSIT, Run, wait_for
from settle.acceptance.verdict import NotApplicable, Refuted, expect
from settle.actions.resolution import resolve
from settle.actions.reversal import reverse
from settle.local.demo.stuck_reversal import pager
from settlement.model import executions
from settlement.model.account_order import OrderKind
from settlement.model.orders import Decision
from settlement.model.status import Status

STOPS_MAX = 5
"""Payments that are started to be stopped: a fast one may have ended before."""

_SPENT = AMOUNT // 2


def recovery(run: Run) -> str:
    """Stop a Standard execution after its hold; recovery ends the payment."""
    payer, payee = run.account("stopped-a", DEPOSIT), run.account("stopped-b")
    client, settled = run.stack.client("stepfunctions"), 0
    for _ in range(STOPS_MAX):
        request = run.request("stopped", payer, payee)
        arn = client.start_execution(
            stateMachineArn=run.stack.outputs["SettlementStandardArn"],
            name=executions.sent(request["key"], run.id),
            input=json.dumps(request),
        )["executionArn"]
        wait_for(lambda key=request["key"]: run.stack.store.settlement(key))  # type: ignore[misc]
        client.stop_execution(executionArn=arn)
        stopped_at, state = time.monotonic(), run.stack.store.settlement(request["key"])
        if state is None:
            raise Refuted("a Standard execution has claimed nothing")
        if state.status is Status.PROCESSING:
            break
        settled += 1
    else:
        raise NotApplicable(f"each of {STOPS_MAX} payments had ended before it was stopped")
    left = run.at_rest(request["key"])
    seconds = time.monotonic() - stopped_at
    expect("status", str(left and left.status), "SETTLED")
    settled += 1
    expect("what the payer has left", run.balance(payer), DEPOSIT - settled * AMOUNT)
    expect("what the payee has got", run.balance(payee), settled * run.net)
    return f"stopped while PROCESSING, SETTLED by recovery {seconds:.0f} s later, and once"


def limbo(run: Run) -> str:
    """Let a reversal get stuck, hear the page, and decide by an order."""
    payer, payee = run.parties("limbo")
    shop = run.account("limbo-c")
    stuck, spent = run.request("limbo", payer, payee), run.request("limbo", payee, shop, _SPENT)
    for request in (stuck, spent):
        outcome = run.send(request).outcome
        expect(f"status of {request['key']}", outcome and outcome["status"], "SETTLED")
    key = stuck["key"]
    with pager(run.stack) as receive:
        began = time.monotonic()
        expect("status", reverse(run.stack, key, run.reason)["status"], "LIMBO")
        receive(f"{key} is in LIMBO since")
        seconds = time.monotonic() - began
        run.move(OrderKind.DEPOSIT, payee, _SPENT)
        expect("status", resolve(run.stack, key, Decision.RETRY, run.reason)["status"], "COMPENSATED")
        receive(f"{key} is out of LIMBO")
    expect("what the payer has back", run.balance(payer), DEPOSIT)
    return f"LIMBO, its page was heard {seconds:.1f} s after the order; a retry by order ended it COMPENSATED"
