"""Carrying out what a person has decided: the way out of LIMBO, and the reversal of a settlement."""

import json
import secrets
import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from settle import journal, recovering
from settle.failures import CommandFailed, Exit
from settle.stack import Stack
from settlement import compensation, outcome, rows
from settlement.errors import InvalidRequest, Refusal
from settlement.request import Settlement
from settlement.resolution import Decision, Resolution, parse_resolution, parse_reversal
from settlement.rows import Row
from settlement.status import Status

FOLLOW_SECONDS_MAX = 120
"""How long a command follows what it has set off; reversals are tried for minutes where they meet trouble."""

_POLL_SECONDS = 0.25
_GONE = ("ExecutionDoesNotExist", "InvalidToken", "TaskDoesNotExist", "TaskTimedOut")
"""What Step Functions says of an execution that waits no longer, or no longer with this token."""


def resolve(
    stack: Stack, key: str, decision: Decision, reason: str, case: int | None = None
) -> dict[str, Any]:
    """Carry out a decision on a case of LIMBO and follow it to its end; return the outcome.

    Safe to repeat: what was decided already is driven on, and never taken for a decision on the next case.
    """
    _check(parse_resolution, {"decision": decision, "reason": reason, "case": case})
    row = journal.row_of(stack, key)
    decided, in_limbo = row.get("resolutions", 0), row["status"] == Status.LIMBO
    number = case or decided + in_limbo
    if not 0 < number <= decided + in_limbo:
        lacking = f"and has no case {number}" if case else "not in LIMBO"
        raise CommandFailed(Exit.CONFLICT, f"{key}: is {row['status']}, {lacking}")
    order = Resolution(reason=reason.strip(), by=_caller(stack), decision=decision, case=number)
    if number > decided:
        _refuse_repeated(stack, key, order)
        try:
            compensation.check(Settlement.of_row(row), row, decision)
        except Refusal as refusal:
            raise CommandFailed(Exit.CONFLICT, f"{key}: {refusal}") from refusal
        _hand_over(stack, row, order)
    else:
        _check_decided(stack, key, order)
        if row["status"] == Status.COMPENSATING:  # whoever drove it may be gone, and its news not told
            _start(stack, row, "resolve", {"resolution": _wire(order)})

    def is_done(row: Row) -> bool:
        rests = row["status"] in (*compensation.FINISHED, Status.LIMBO)
        return rests and row.get("resolutions", 0) >= number

    row = _follow(stack, key, is_done)
    _check_decided(stack, key, order)
    return outcome.of_settlement(key, row, stack.terms, replayed=False)


def reverse(stack: Stack, key: str, reason: str) -> dict[str, Any]:
    """Reverse what has settled, fee included, or give up what has stalled; return the outcome.

    Safe to repeat: what is being reversed already is driven on, unless somebody does so.
    """
    _check(parse_reversal, {"reason": reason})
    row = journal.row_of(stack, key)
    seen = row["status"]
    if seen == Status.REJECTED or (seen == Status.SETTLED and "resolution" in row):
        completed = ": it was completed out of LIMBO" * (seen == Status.SETTLED)
        raise CommandFailed(Exit.CONFLICT, f"{key}: is {seen}, and not to be reversed{completed}")
    if seen in (Status.SETTLED, Status.PROCESSING):
        order = {"reason": reason.strip(), "by": _caller(stack), "seen": seen}
        _start(stack, row, "reverse", {"reversal": order})
    elif seen == Status.COMPENSATING:
        recovering.recover(stack, key)
    ends = {Status.COMPENSATED, Status.REJECTED, Status.LIMBO, Status.SETTLED} - {seen}

    def is_done(row: Row) -> bool:
        completed = row["status"] == Status.SETTLED and "resolution" in row
        return completed or row["status"] in ends | {Status.COMPENSATED, Status.LIMBO}

    row = _follow(stack, key, is_done)
    if row["status"] in (Status.SETTLED, Status.REJECTED):
        raise CommandFailed(
            Exit.CONFLICT, f"{key}: is {row['status']} since; nothing was reversed, look at it again"
        )
    return outcome.of_settlement(key, row, stack.terms, replayed=False)


def is_on_record(stack: Stack, key: str, reason: str) -> bool:
    """Whether a settlement was reversed on an order for this reason, and not on another or by itself."""
    entry = stack.store.read(rows.entry_key(key, "reverse"))
    return entry is not None and entry["reason"] == reason.strip()


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
    wanted = _wire(resolution)
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
    settlement = Settlement.of_row(row)
    stack.client("stepfunctions").start_execution(
        stateMachineArn=stack.outputs["CompensationArn"],
        name=f"{settlement.key}-{what}-{secrets.token_hex(3)}",
        input=json.dumps({"settlement": settlement.to_wire(stack.terms), **order}),
    )


def _check(parse: Callable[[object], object], order: dict[str, Any]) -> None:
    """Refuse a malformed order before anything is looked up or sent."""
    try:
        parse(order | {"by": "not looked up yet"})
    except InvalidRequest as refusal:
        raise CommandFailed(Exit.USAGE, str(refusal)) from refusal


def _wire(resolution: Resolution) -> dict[str, Any]:
    return {**resolution.record(), "case": resolution.case}


def _check_decided(stack: Stack, key: str, wanted: Resolution) -> None:
    """Raise CommandFailed where a case was closed by another decision, or for another reason."""
    made = stack.store.read(rows.entry_key(key, f"resolve:{wanted.case}"))
    if made is None:
        raise CommandFailed(Exit.FAILED, f"{key}: case {wanted.case} is not decided yet; repeat this command")
    if (made["decision"], made["reason"]) != (wanted.decision, wanted.reason):
        raise CommandFailed(
            Exit.CONFLICT,
            f"{key}: case {wanted.case} was resolved by {made['decision']} at {made['posted_at']}:"
            f" {made['reason']} ({made['by']})",
        )


def _refuse_repeated(stack: Stack, key: str, wanted: Resolution) -> None:
    """Raise CommandFailed for a command that was carried out on the case before, and is now repeated."""
    number = wanted.case or 0
    before = stack.store.read(rows.entry_key(key, f"resolve:{number - 1}"))
    if before is not None and wanted.is_on(before):
        raise CommandFailed(
            Exit.LIMBO,
            f"{key}: that was carried out as case {number - 1}, and it is stuck again as case {number};"
            f" look at it with `settle limbo show`, then decide with --case {number}",
        )


def _caller(stack: Stack) -> str:
    """Who gives the order, as AWS knows them."""
    arn: str = stack.client("sts").get_caller_identity()["Arn"]
    return arn
