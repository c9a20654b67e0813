"""Carrying out what a person has decided: the way out of LIMBO, and the reversal of a settlement."""

import json
import secrets
import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from settle import journal
from settle.failures import CommandFailed, Exit
from settle.stack import Stack
from settlement import compensation, outcome
from settlement.errors import InvalidRequest, Refusal
from settlement.resolution import Decision, Order, Resolution, parse_order
from settlement.rows import Row
from settlement.status import Status

FOLLOW_SECONDS_MAX = 120
"""How long a command follows what it has set off; reversals are tried for minutes where they meet trouble."""

_REVERSED_OR_STUCK = (Status.COMPENSATED, Status.REJECTED, Status.LIMBO)
_POLL_SECONDS = 0.25
_GONE = ("ExecutionDoesNotExist", "InvalidToken", "TaskDoesNotExist", "TaskTimedOut")
"""What Step Functions says of an execution that waits no longer, or no longer with this token."""


def resolve(stack: Stack, key: str, decision: Decision, reason: str) -> dict[str, Any]:
    """Carry out a decision on a settlement in LIMBO and follow it to its end; return the outcome.

    Safe to repeat: what was decided already is only followed.
    """
    order = _order(stack, reason, "resolution")
    row = journal.row_of(stack, key)
    number = row.get("resolutions", 0)
    if row["status"] == Status.LIMBO:
        settlement = journal.settlement_of(row)
        try:
            compensation.check(settlement, row, decision)
        except Refusal as refusal:
            raise CommandFailed(Exit.CONFLICT, f"{key}: {refusal}") from refusal
        number = compensation.stuck(settlement, row).number
        _hand_over(stack, row, Resolution(reason=order.reason, by=order.by, decision=decision, case=number))
    elif "resolution" not in row:
        raise CommandFailed(Exit.CONFLICT, f"{key}: is {row['status']}, not in LIMBO")
    else:
        _check_decided(key, row, decision, order)

    def is_done(row: Row) -> bool:
        rests = row["status"] in (*compensation.FINISHED, Status.LIMBO)
        return rests and row.get("resolutions", 0) >= number

    row = _follow(stack, key, is_done)
    if row["resolutions"] == number:
        _check_decided(key, row, decision, order)
    return outcome.of_settlement(key, row, stack.terms, replayed=False)


def reverse(stack: Stack, key: str, reason: str) -> dict[str, Any]:
    """Reverse what has settled, fee included, or give up what has stalled; return the outcome.

    Safe to repeat: what is being reversed already is driven on, as nobody else may be doing so.
    """
    order = _order(stack, reason, "reversal")
    row = journal.row_of(stack, key)
    if row["status"] == Status.REJECTED or (row["status"] == Status.SETTLED and "resolution" in row):
        completed = ": it was completed out of LIMBO" * (row["status"] == Status.SETTLED)
        raise CommandFailed(Exit.CONFLICT, f"{key}: is {row['status']}, and not to be reversed{completed}")
    if row["status"] in (Status.SETTLED, Status.PROCESSING):
        _start(stack, row, "reverse", {"reversal": order.record()})
    elif row["status"] == Status.COMPENSATING:
        _start(stack, row, "reverse", {})
    row = _follow(stack, key, lambda row: row["status"] in _REVERSED_OR_STUCK)
    return outcome.of_settlement(key, row, stack.terms, replayed=False)


def _follow(stack: Stack, key: str, is_done: Callable[[Row], bool]) -> Row:
    give_up_at = time.monotonic() + FOLLOW_SECONDS_MAX
    while True:
        row = journal.row_of(stack, key)
        if is_done(row):
            return row
        if time.monotonic() > give_up_at:
            raise CommandFailed(
                Exit.FAILED,
                f"{key}: is still {row['status']}; look at it with `settle status`, then repeat this command",
            )
        time.sleep(_POLL_SECONDS)


def _hand_over(stack: Stack, row: Row, resolution: Resolution) -> None:
    """Wake the execution that waits for the decision; where it is gone, start another one with it."""
    wanted = {**resolution.record(), "case": resolution.case}
    machines, waiting = stack.client("stepfunctions"), row.get("waiting")
    if waiting:
        try:
            execution = machines.describe_execution(executionArn=waiting["execution"])
            if execution["status"] == "RUNNING":
                machines.send_task_success(taskToken=waiting["token"], output=json.dumps(wanted))
                return
        except ClientError as error:
            if error.response["Error"]["Code"] not in _GONE:
                raise
    _start(stack, row, "resolve", {"resolution": wanted})


def _start(stack: Stack, row: Row, what: str, order: dict[str, Any]) -> None:
    """Start the compensating machine with a person's order.

    The execution's name is new each time: whether the order was given before is for the row to say.
    """
    settlement = journal.settlement_of(row)
    stack.client("stepfunctions").start_execution(
        stateMachineArn=stack.outputs["CompensationArn"],
        name=f"{settlement.key}-{what}-{secrets.token_hex(3)}",
        input=json.dumps({"settlement": settlement.to_wire(stack.terms), **order}),
    )


def _check_decided(key: str, row: Row, decision: Decision, order: Order) -> None:
    """Raise CommandFailed where another decision than this one was made, by whomever."""
    made = row["resolution"]
    if (made["decision"], made["reason"]) != (decision, order.reason):
        raise CommandFailed(
            Exit.CONFLICT,
            f"{key}: was resolved by {made['decision']} at {made['decided_at']}: {made['reason']}"
            f" ({made['by']})",
        )


def _order(stack: Stack, reason: str, what: str) -> Order:
    """What a person asks for, with their identity as AWS knows it."""
    try:
        parse_order({"reason": reason, "by": "not looked up yet"}, what)
        by = stack.client("sts").get_caller_identity()["Arn"]
        return parse_order({"reason": reason, "by": by}, what)
    except InvalidRequest as refusal:
        raise CommandFailed(Exit.USAGE, str(refusal)) from refusal
