from typing import Any

from botocore.exceptions import ClientError

from settle.settlements.awaited import decider
from settle.stack import Stack
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED, Status

RUNNING = "RUNNING"


def describe(stack: Stack, state: SettlementState) -> dict[str, Any]:
    """Describe a settlement's owner, executions, deadline, recovery's next check, and activity.

    For a finished settlement, Step Functions is not called.
    """
    is_finished = state.status in FINISHED
    next_look = state.recover_at if state.status is Status.LIMBO else state.listed_at
    found = [{"name": state.owner, "status": None}] if is_finished else _executions(stack, state)
    return {
        "owner": state.owner,
        "owner_epoch": state.owner_epoch,
        "deadline_at": state.deadline_at,
        "next_look_at": None if is_finished else next_look,
        "executions": found,
        "activity": None if is_finished else _activity(state, found, next_look),
    }


def _executions(stack: Stack, state: SettlementState) -> list[dict[str, str | None]]:
    """Return the owner's execution. In LIMBO, also return the execution that waits for a decision.

    A reversal's owner runs on the compensating machine. Another owner runs on Standard if Step Functions
    knows its name, and otherwise on Express.
    """
    is_reversal = state.is_expired or state.status in (Status.COMPENSATING, Status.LIMBO)
    machine = stack.outputs.get("CompensationArn" if is_reversal else "SettlementStandardArn")
    owner = f"{machine.replace(':stateMachine:', ':execution:')}:{state.owner}" if machine else None
    arns = {state.owner: owner}
    waits = stack.store.waiting(state) if state.status is Status.LIMBO else None
    if waits:
        arns[waits["execution"].rpartition(":")[2]] = waits["execution"]
    return [{"name": name, "status": _status(stack, arn)} for name, arn in arns.items()]


def _status(stack: Stack, arn: str | None) -> str | None:
    if arn is None:
        return None
    try:
        status: str = stack.client("stepfunctions").describe_execution(executionArn=arn)["status"]
    except ClientError:  # not found, as for Express, or no permission
        return None
    return status


def _activity(state: SettlementState, found: list[dict[str, Any]], next_look: str | None) -> str:
    looks = f"recovery looks at {next_look}" if next_look else "recovery looks within a minute"
    if running := [one["name"] for one in found if one["status"] == RUNNING]:
        waits = ", which waits for a person's decision" if state.status is Status.LIMBO else ""
        return f"execution {running[0]} runs{waits}; {looks}"
    if state.status is Status.PROCESSING and state.is_in_review:
        return (
            f"in review until {state.deadline_at}: no execution runs before {decider(state.review)} decides"
        )
    ended = [f"{one['name']} is {one['status']}" for one in found if one["status"]]
    if len(ended) == len(found):
        return f"no execution runs ({', '.join(ended)}); {looks}"
    unknown = [one["name"] for one in found if not one["status"]]
    return f"execution {unknown[-1]} may run: Step Functions does not report Express executions; {looks}"
