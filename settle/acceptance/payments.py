import json
import secrets
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any

from botocore.exceptions import ClientError

from settle.acceptance.run import AMOUNT, DEPOSIT, REST_SECONDS_MAX, Run
from settle.acceptance.throttling import API, Throttled, quota_of_error, quota_of_text
from settle.acceptance.verdict import NotApplicable, Refuted, expect
from settle.door import Answer
from settle.exit_codes import Exit
from settle.order import DoorForbidden, give
from settle.orders.reversal import reverse
from settle.settlements.machines import Machine
from settle.settlements.start import Ended
from settle.settlements.start import send as send_to_queue
from settlement.core.model import executions
from settlement.core.model.orders import REVERSE
from settlement.core.model.status import FINISHED

TWINS, THREADS, THREADS_EMBEDDED = 64, 64, 12
"""Payments with one key, and their threads: few on the embedded AWS, where each call is a process."""

API_WAIT_SECONDS = 20
"""Seconds that the services' API may wait for a settlement's end."""

LOOK_SECONDS = 4
"""Pause between a twin's polls: 32 twins then poll 8 times a second. AWS's lowest default limit is 10."""

_TWINS_END_AS = {"SETTLED", "PROCESSING"}

STARTS_MAX = 5
"""Maximum payments to try, because a fast one may end before its second start."""


def express(run: Run) -> str:
    return _settles(run, Machine.EXPRESS)


def standard(run: Run) -> str:
    return _settles(run, Machine.STANDARD)


def queue(run: Run) -> str:
    payer, payee = run.parties("queue")
    request, began = run.request("queue", payer, payee), time.monotonic()
    send_to_queue(run.stack, json.dumps(request))
    state = run.at_rest(request["key"])
    if state is None:
        raise Refuted("no request has claimed the key that the queue was sent")
    seconds = time.monotonic() - began
    expect("status", str(state.status), "SETTLED")
    return f"SETTLED {seconds:.1f} s after the message; {moved_once(run, payer, payee)}"


def services(run: Run) -> str:
    """Start a settlement by the services' API, twice. Then read the settlement and its entries."""
    payer, payee = run.parties("services")
    request, door, began = run.request("services", payer, payee), run.stack.services, time.monotonic()
    key = request["key"]

    def started(content: dict[str, str]) -> Answer:
        run.waits_for = f"the start of {key} by the services' API"
        headers = {"Idempotency-Key": key, "Prefer": f"wait={API_WAIT_SECONDS}"}
        return door.call("POST", "/settlements", content, **headers)

    expect_status("the start", started(request), 202, 200)
    expect("status", str(getattr(run.at_rest(key), "status", None)), "SETTLED")
    seconds = time.monotonic() - began
    expect("the repeated start", started(request).content.get("status"), "SETTLED")
    expect_status("another amount under the key", started(request | {"amount": run.text(AMOUNT + 1)}), 409)
    settlement = door.call("GET", f"/settlements/{key}")
    expect_status("the settlement", settlement, 200)
    expect("the settlement", settlement.content.get("status"), "SETTLED")
    statement = door.call("GET", f"/accounts/{payee}/entries")
    expect_status("the payee's entries", statement, 200)
    expect("the payee's entries", [one["step"] for one in statement.content.get("entries", ())], ["release"])
    expect_status("the fees' entries", door.call("GET", f"/accounts/fees%3A{run.currency}/entries"), 200)
    expect_status("a parameter twice", door.call("GET", f"/settlements/{key}?wait=1&wait=2"), 400)
    return f"SETTLED {seconds:.1f} s after the start; {moved_once(run, payer, payee)}; read in three ways"


def expect_status(what: str, answer: Answer, *wanted: int) -> None:
    """Raise Refuted for an unwanted HTTP status, or DoorForbidden if AWS denies the call."""
    if answer.status == HTTPStatus.FORBIDDEN:
        raise DoorForbidden(Exit.FAILED, f"{what}: AWS does not let you call the services' API")
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        raise Throttled(f"{what}: HTTP 429", API)
    if answer.status not in wanted:
        raise Refuted(f"{what}: HTTP {answer.status}, {answer.content.get('message', 'without a message')}")


def same_start(run: Run) -> str:
    """Start a running Standard execution again; expect the same execution."""
    payer, payee = run.account("same-a", DEPOSIT), run.account("same-b")
    client, machine = run.stack.client("stepfunctions"), run.stack.outputs["SettlementStandardArn"]
    for _ in range(STARTS_MAX):
        request = run.request("same", payer, payee)
        sent = {
            "stateMachineArn": machine,
            "name": executions.sent(request["key"], run.id),
            "input": json.dumps(request),
        }
        arn = client.start_execution(**sent)["executionArn"]
        try:
            again = client.start_execution(**sent)["executionArn"]
        except client.exceptions.ExecutionAlreadyExists:
            again = "ExecutionAlreadyExists"
        described = client.describe_execution(executionArn=arn)["status"]
        expect(
            f"status of {request['key']}",
            str(getattr(run.at_rest(request["key"]), "status", None)),
            "SETTLED",
        )
        if described == "RUNNING":
            if run.stack.endpoint_url and again != arn:
                raise NotApplicable(f"the embedded AWS: answers {again}, and settles the payment once")
            expect("the same start again", again, arn)
            return "the same start while it ran was the same execution, which was described at once"
    raise NotApplicable(f"each of {STARTS_MAX} executions had ended before the second start")


def twins(run: Run) -> str:
    """Send one key many times at once to both machines. Expect one settlement."""
    payer, payee = run.parties("twins")
    request = run.request("twins", payer, payee)
    starts, looks = run.stack.client("stepfunctions", attempts=1), run.stack.client("stepfunctions")
    arns = {one: run.stack.outputs[f"Settlement{one.capitalize()}Arn"] for one in Machine}

    def twin(number: int) -> tuple[str, str | None]:
        machine = list(Machine)[number % 2]
        name = executions.sent(request["key"], secrets.token_hex(4))
        sent = {"stateMachineArn": arns[machine], "input": json.dumps(request), "name": name}
        try:
            if machine is Machine.EXPRESS:
                return _end(starts.start_sync_execution(**sent))
            arn = starts.start_execution(**sent)["executionArn"]
        except ClientError as refused:
            return _throttled("not started", refused)
        try:
            return _end(_ended(looks, arn))
        except ClientError as refused:
            return _throttled("not followed", refused)

    run.waits_for = f"the ends of {TWINS} executions of {request['key']}"
    pool = ThreadPoolExecutor(THREADS_EMBEDDED if run.stack.endpoint_url else THREADS)
    try:
        answers = Counter(pool.map(twin, range(TWINS)))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # the check may be overdue
    return _judged(run, request, answers)


def _judged(run: Run, request: dict[str, str], answers: Counter[tuple[str, str | None]]) -> str:
    """Judge the twins' answers. Raises Refuted if money moved twice, even if AWS throttled some twins."""
    state = run.rested(request["key"])
    status = str(state and state.status)
    ends = Counter[str]()
    for (answer, quota), count in answers.items():
        ends[f"{answer} (throttled)" if quota else answer] += count
    figures = f"of {TWINS} twins: " + ", ".join(f"{count} {answer}" for answer, count in sorted(ends.items()))
    quotas = {quota for _, quota in answers if quota}
    if failure := state and state.failure:
        quotas |= {quota for quota in [quota_of_text(failure["cause"])] if quota}
    payer, payee = request["payer"], request["payee"]
    if status == "SETTLED" or not quotas:
        expect(f"status after {figures}", status, "SETTLED")
        moved = moved_once(run, payer, payee)
    else:
        moved = moved_at_most_held(run, status, payer, payee)
    told = {answer for answer, quota in answers if not quota}
    if wrong := (told - _TWINS_END_AS - {status}) | ({"SETTLED"} & told - {status}):
        raise Refuted(f"{figures}; not by throttling: {', '.join(sorted(wrong))}")
    if quotas:
        raise Throttled(f"{figures}; the payment is {status}; {moved}", *quotas)
    return f"{figures}; {moved}"


def moved_at_most_held(run: Run, status: str, payer: str, payee: str) -> str:
    expect(f"what the payee has got of a payment that is {status}", run.balance(payee), 0)
    left, may_hold = run.balance(payer), status not in FINISHED
    if left != DEPOSIT and not (may_hold and left == DEPOSIT - AMOUNT):
        held = f", or less {AMOUNT} held" if may_hold else ""
        raise Refuted(f"what the payer has left: is {left}, and should be {DEPOSIT}{held}")
    return "no money has reached the payee"


def _ended(client: Any, arn: str) -> Any:
    give_up_at = time.monotonic() + REST_SECONDS_MAX
    while True:
        execution = client.describe_execution(executionArn=arn)
        if execution["status"] != "RUNNING" or time.monotonic() > give_up_at:
            return execution
        time.sleep(LOOK_SECONDS)


def _end(execution: Any) -> tuple[str, str | None]:
    if execution["status"] == "SUCCEEDED":
        outcome = json.loads(execution["output"])
        return str(outcome["status"]), quota_of_text((outcome.get("failure") or {}).get("cause", ""))
    return str(told(execution)), quota_of_text(execution.get("cause", ""))


def _throttled(answer: str, refused: ClientError) -> tuple[str, str]:
    quota = quota_of_error(refused)
    if quota is None:
        raise refused
    return answer, quota


def conflict(run: Run) -> str:
    """Send a settled key with another amount. Expect a refusal that moves nothing."""
    payer, payee = run.parties("conflict")
    request = run.request("conflict", payer, payee)
    _settled(run.send(request))
    ended = run.send(request | {"amount": run.text(AMOUNT + 1)})
    expect("the second content's error", ended.error, "IdempotencyConflict")
    return f"IdempotencyConflict; {moved_once(run, payer, payee)}"


def refusals(run: Run) -> str:
    payer, payee = run.parties("refusals")
    too_much = run.request("refusals", payer, payee, DEPOSIT + 1)
    nowhere = run.request("refusals", payer, f"{payee}-not-open")
    malformed = run.request("refusals", payer, payee) | {"amount": "-1"}
    found = [reason_of(run.send(request)) for request in (too_much, nowhere, malformed)]
    expect("the reasons", found, ["InsufficientFunds", "AccountNotFound", "InvalidRequest"])
    expect("the balances", [run.balance(payer), run.balance(payee)], [DEPOSIT, 0])
    return f"{', '.join(found)}; no balance has moved"


def reversal(run: Run) -> str:
    """Reverse a settled payment by order, twice. Expect the money to return once."""
    payer, payee = run.parties("reversal")
    request = run.request("reversal", payer, payee)
    _settled(run.send(request))
    began, run.waits_for = time.monotonic(), f"the reversal of {request['key']}"
    expect("status", reverse(run.stack, request["key"], run.reason)["status"], "COMPENSATED")
    seconds = time.monotonic() - began
    order = {"key": request["key"], "expected_status": "SETTLED", "reason": run.reason}
    give(run.stack, REVERSE, order)  # directly: `reverse` sends no order for a reversed payment
    state = run.at_rest(request["key"])
    expect("status after the repeated order", str(state and state.status), "COMPENSATED")
    expect("the balances", [run.balance(payer), run.balance(payee)], [DEPOSIT, 0])
    return f"COMPENSATED {seconds:.1f} s after the order, fee included; the same order again moved nothing"


def _settles(run: Run, machine: Machine) -> str:
    payer, payee = run.parties(machine)
    began = time.monotonic()
    _settled(run.send(run.request(machine, payer, payee), machine))
    return f"SETTLED in {time.monotonic() - began:.2f} s; {moved_once(run, payer, payee)}"


def _settled(ended: Ended) -> None:
    if ended.outcome is None or ended.outcome["status"] != "SETTLED":
        raise Refuted(f"{ended.key}: is not SETTLED: {reason_of(ended)}")


def reason_of(ended: Ended) -> str:
    if ended.outcome is None:
        return str(ended.error)
    return str((ended.outcome["failure"] or {}).get("error", ended.outcome["status"]))


def moved_once(run: Run, payer: str, payee: str) -> str:
    expect("what the payer has left", run.balance(payer), DEPOSIT - AMOUNT)
    expect("what the payee has got", run.balance(payee), run.net)
    return f"payer less {run.text(AMOUNT)}, payee plus {run.text(run.net)} {run.currency}"


def told(execution: Any) -> Any:
    if execution["status"] == "SUCCEEDED":
        return json.loads(execution["output"])["status"]
    return execution.get("error", execution["status"])
