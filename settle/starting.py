"""Starting settlements, on either machine, and waiting for how they end."""

import json
import secrets
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settle.failures import CommandFailed, Exit
from settle.stack import Stack
from settlement import outcome, rows
from settlement.errors import IdempotencyConflict, InvalidRequest
from settlement.request import KEY
from settlement.status import Status

INPUT_BYTES_MAX = 262_144
"""AWS's limit on an execution's input."""

STANDARD_SECONDS_MAX = 600
_POLL_SECONDS = 0.25
_IN_FLIGHT = (Status.PROCESSING, Status.COMPENSATING)


class Machine(StrEnum):
    """The two deployments of the settlement machine."""

    EXPRESS = "express"
    STANDARD = "standard"


@dataclass(frozen=True)
class Ended:
    """How an execution ended: with an outcome (the contract's output), or with an error and its message."""

    key: str
    execution: str
    outcome: dict[str, Any] | None
    error: str | None = None
    message: str | None = None

    def describe(self) -> dict[str, Any]:
        """What `settle start --json` prints: the outcome, or which key ended with which error."""
        return self.outcome or {
            "key": self.key,
            "execution": self.execution,
            "error": self.error,
            "message": self.message,
        }


def start(stack: Stack, machine: Machine, request: str) -> Ended:
    """Start one settlement and wait for its end.

    The execution gets a name of its own each time: whether the key was used before is for the
    settlement's row to say, which remembers it for longer than Step Functions remembers a name.
    """
    key = key_of(request)
    name = f"{key}-{secrets.token_hex(4)}"
    try:
        execution = _run(stack, machine, request, name)
    except (ClientError, BotoCoreError) as failed:
        raise CommandFailed(
            Exit.FAILED,
            f"{key}: outcome unknown, ask with `settle status`; nothing after it was sent: {failed}",
        ) from failed
    if execution["status"] == "SUCCEEDED":
        return Ended(key, name, json.loads(execution["output"]))
    error = execution.get("error", execution["status"])
    return Ended(key, name, None, error, explain(execution.get("cause", "")))


def start_code(ended: Ended) -> Exit:
    """The exit code that tells a script how its settlement ended; one still in flight has not."""
    if ended.outcome:
        return Exit.FAILED if ended.outcome["status"] in _IN_FLIGHT else status_code(ended.outcome["status"])
    known = {InvalidRequest.__name__: Exit.USAGE, IdempotencyConflict.__name__: Exit.CONFLICT}
    return known.get(ended.error or "", Exit.FAILED)


def status_code(status: str) -> Exit:
    """The exit code that tells a script how a settlement stands."""
    codes = {
        Status.REJECTED: Exit.REFUSED,
        Status.COMPENSATED: Exit.REFUSED,
        Status.LIMBO: Exit.LIMBO,
    }
    return codes.get(Status(status), Exit.FINE)


def key_of(request: str) -> str:
    """The key of a request that is fit to be sent; "refused" where the machine will find fault with it.

    Raises CommandFailed for what is no JSON or too large: StartExecution takes neither.
    """
    try:
        size = len(request.encode())
        content = json.loads(request, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CommandFailed(Exit.USAGE, f"request: must be JSON: {error}") from error
    if size > INPUT_BYTES_MAX:
        raise CommandFailed(Exit.USAGE, f"request: must be at most {INPUT_BYTES_MAX} bytes")
    key = content.get("key") if isinstance(content, dict) else None
    return key if isinstance(key, str) and KEY.fullmatch(key) else "refused"


def explain(cause: str) -> str:
    """The message in an error's cause, which Lambda wraps in JSON, and a stalled settlement once more."""
    try:
        content = json.loads(cause)
        if "errorMessage" in content:
            return str(content["errorMessage"])
        return f"{content['Error']}: {explain(content.get('Cause', ''))}"
    except (ValueError, TypeError, KeyError):
        return cause


def _run(stack: Stack, machine: Machine, request: str, name: str) -> Any:
    client = stack.client("stepfunctions", attempts=1)  # a start is never sent twice by the client itself
    if machine is Machine.EXPRESS:
        return client.start_sync_execution(
            stateMachineArn=stack.outputs["SettlementExpressArn"], input=request, name=name
        )
    execution = client.start_execution(
        stateMachineArn=stack.outputs["SettlementStandardArn"], input=request, name=name
    )
    return _await(stack, execution["executionArn"], key_of(request))


def _await(stack: Stack, arn: str, key: str) -> Any:
    """Wait for an execution's end; or for LIMBO, in which it waits for a person for as long as they take."""
    client, give_up_at = stack.client("stepfunctions"), time.monotonic() + STANDARD_SECONDS_MAX
    while True:
        execution = client.describe_execution(executionArn=arn)
        if execution["status"] != "RUNNING":
            return execution
        row = stack.store.read(rows.settlement_key(key))
        if row and row["status"] == Status.LIMBO:
            stuck = outcome.of_settlement(key, row, stack.terms, replayed=False)
            return {"status": "SUCCEEDED", "output": json.dumps(stuck)}
        if time.monotonic() > give_up_at:
            raise CommandFailed(Exit.FAILED, f"{arn} is still running; ask again with `settle status`")
        time.sleep(_POLL_SECONDS)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
