"""Starting settlements, on either machine, and waiting for how they end."""

import json
import secrets
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from settle.failures import CommandFailed, Exit
from settle.stack import Stack
from settlement.errors import IdempotencyConflict, InvalidRequest
from settlement.request import KEY

INPUT_BYTES_MAX = 262_144
"""AWS's limit on an execution's input."""

STANDARD_SECONDS_MAX = 600
_POLL_SECONDS = 0.25


class Machine(StrEnum):
    """The two deployments of the settlement machine."""

    EXPRESS = "express"
    STANDARD = "standard"


@dataclass(frozen=True)
class Ended:
    """How an execution, by its name, ended: with an outcome (the contract's output), or with an error."""

    execution: str
    outcome: dict[str, Any] | None
    error: str | None = None
    message: str | None = None


def start(stack: Stack, machine: Machine, request: str) -> Ended:
    """Start one settlement and wait for its end.

    The execution gets a name of its own each time: whether the key was used before is for the
    settlement's row to say, which remembers it for longer than Step Functions remembers a name.
    """
    name = f"{_key_of(request)}-{secrets.token_hex(4)}"
    client = stack.client("stepfunctions")
    if machine is Machine.EXPRESS:
        execution = client.start_sync_execution(
            stateMachineArn=stack.outputs["SettlementExpressArn"], input=request, name=name
        )
    else:
        execution = _run_standard(client, stack.outputs["SettlementStandardArn"], request, name)
    if execution["status"] == "SUCCEEDED":
        return Ended(name, json.loads(execution["output"]))
    error = execution.get("error", execution["status"])
    return Ended(name, None, error, explain(execution.get("cause", "")))


def exit_code(ended: Ended) -> Exit:
    """The exit code that tells a script how an execution ended."""
    if ended.outcome:
        return status_code(ended.outcome["status"])
    known = {InvalidRequest.__name__: Exit.USAGE, IdempotencyConflict.__name__: Exit.CONFLICT}
    return known.get(ended.error or "", Exit.FAILED)


def status_code(status: str) -> Exit:
    """The exit code that tells a script how a settlement stands."""
    codes = {"REJECTED": Exit.REFUSED, "COMPENSATED": Exit.REFUSED, "LIMBO": Exit.LIMBO}
    return codes.get(status, Exit.FINE)


def explain(cause: str) -> str:
    """The message in an error's cause, which Lambda wraps in JSON, and a stalled settlement once more."""
    try:
        content = json.loads(cause)
        if "errorMessage" in content:
            return str(content["errorMessage"])
        return f"{content['Error']}: {explain(content.get('Cause', ''))}"
    except (ValueError, TypeError, KeyError):
        return cause


def _run_standard(client: Any, machine_arn: str, request: str, name: str) -> Any:
    arn = client.start_execution(stateMachineArn=machine_arn, input=request, name=name)["executionArn"]
    give_up_at = time.monotonic() + STANDARD_SECONDS_MAX
    while True:
        execution = client.describe_execution(executionArn=arn)
        if execution["status"] != "RUNNING":
            return execution
        if time.monotonic() > give_up_at:
            raise CommandFailed(Exit.FAILED, f"{arn} is still running; ask again with `settle status`")
        time.sleep(_POLL_SECONDS)


def _key_of(request: str) -> str:
    """The request's key if it has a good one; the machine says what is wrong with any other request."""
    if len(request.encode()) > INPUT_BYTES_MAX:
        raise CommandFailed(Exit.USAGE, f"request: must be at most {INPUT_BYTES_MAX} bytes")
    try:
        content = json.loads(request, parse_constant=_refuse_constant)
    except ValueError as error:
        raise CommandFailed(Exit.USAGE, f"request: must be JSON: {error}") from error
    key = content.get("key") if isinstance(content, dict) else None
    return key if isinstance(key, str) and KEY.fullmatch(key) else "refused"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
