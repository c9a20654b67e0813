"""The way out of LIMBO: a person's decision, handed to the execution that waits for it, and followed."""

import json
from typing import Any

from botocore.exceptions import ClientError

from settle.actions.order import caller, check_order, start_compensation
from settle.exit_codes import CommandFailed, Exit
from settle.queries.follow import follow, is_at_rest
from settle.queries.settlement import state_of
from settle.stack import Stack
from settlement.model.errors import Refusal
from settlement.model.orders import Decision, Resolution, parse_resolution
from settlement.model.state import SettlementState
from settlement.model.status import Status
from settlement.policy import compensation, outcome

_GONE = ("ExecutionDoesNotExist", "InvalidToken", "TaskDoesNotExist", "TaskTimedOut")
"""Step Functions' errors for an execution that no longer waits, or no longer with this token."""


def resolve(
    stack: Stack, key: str, decision: Decision, reason: str, case: int | None = None
) -> dict[str, Any]:
    """Carry out a decision on a case of LIMBO and follow it to its end; return the outcome.

    Safe to repeat: a case that is decided already is resumed, and a repeated command that names no case is
    never taken for a decision on the next case.
    """
    check_order(parse_resolution, {"decision": decision, "reason": reason, "case": case})
    state = state_of(stack, key)
    decided, in_limbo = state.resolutions, state.status is Status.LIMBO
    number = case or decided + in_limbo
    if not 0 < number <= decided + in_limbo:
        lacking = f"and has no case {number}" if case else "not in LIMBO"
        raise CommandFailed(Exit.CONFLICT, f"{key}: is {state.status}, {lacking}")
    order = Resolution(reason=reason.strip(), by=caller(stack), decision=decision, case=number)
    if number > decided:
        if case is None:
            _refuse_repeated(stack, key, order)
        try:
            compensation.ensure_can_resolve(state, decision)
        except Refusal as refusal:
            raise CommandFailed(Exit.CONFLICT, f"{key}: {refusal}") from refusal
        _hand_over(stack, state, order)
    else:
        _ensure_decided(stack, key, order)
        if state.status is Status.COMPENSATING:  # its execution may be gone, and its notice not sent
            start_compensation(stack, state, "resolve", {"resolution": _wire(order)})

    def is_done(state: SettlementState) -> bool:
        return is_at_rest(state) and state.resolutions >= number

    state = follow(stack, key, is_done)
    if not is_done(state):
        raise still(state)
    _ensure_decided(stack, key, order)
    return outcome.of_state(state, stack.config, replayed=False)


def still(state: SettlementState) -> CommandFailed:
    """Return the failure of a command that has followed a settlement for too long."""
    return CommandFailed(
        Exit.FAILED,
        f"{state.key}: is still {state.status}; look at it with `settle status`, then repeat this command",
    )


def _hand_over(stack: Stack, state: SettlementState, resolution: Resolution) -> None:
    """Wake the execution that waits for the decision; if it is gone, start another one with it."""
    wanted = _wire(resolution)
    machines, waiting = stack.client("stepfunctions"), stack.store.waiting(state)
    if waiting:
        try:
            execution = machines.describe_execution(executionArn=waiting["execution"])
            if execution["status"] == "RUNNING":
                machines.send_task_success(taskToken=waiting["token"], output=json.dumps(wanted))
                return
        except ClientError as error:
            if error.response["Error"]["Code"] not in _GONE:
                raise
    start_compensation(stack, state, "resolve", {"resolution": wanted})


def _wire(resolution: Resolution) -> dict[str, Any]:
    return {**resolution.record(), "case": resolution.case}


def _ensure_decided(stack: Stack, key: str, wanted: Resolution) -> None:
    """Raise CommandFailed if another decision closed the case, or the same one for another reason."""
    made = stack.store.evidence(key, f"resolve:{wanted.case}")
    if made is None:
        raise CommandFailed(Exit.FAILED, f"{key}: case {wanted.case} is not decided yet; repeat this command")
    if (made["decision"], made["reason"]) != (wanted.decision, wanted.reason):
        raise CommandFailed(
            Exit.CONFLICT,
            f"{key}: case {wanted.case} was resolved by {made['decision']} at {made['posted_at']}:"
            f" {made['reason']} ({made['by']})",
        )


def _refuse_repeated(stack: Stack, key: str, wanted: Resolution) -> None:
    """Raise CommandFailed if the previous case was closed by this very command, which is now repeated."""
    number = wanted.case or 0
    before = stack.store.evidence(key, f"resolve:{number - 1}")
    if before is not None and wanted.is_on(before):
        raise CommandFailed(
            Exit.LIMBO,
            f"{key}: that was carried out as case {number - 1}, and it is stuck again as case {number};"
            f" look at it with `settle limbo show`, then decide with --case {number}",
        )
