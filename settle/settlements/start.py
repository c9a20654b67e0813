import json
import secrets
import time
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from settle.exit_codes import CommandFailed, Exit
from settle.settlements.machines import Machine, explain
from settle.settlements.request_file import key_of
from settle.stack import Stack
from settlement.core.model import executions
from settlement.core.model.errors import IdempotencyConflict, InvalidRequest
from settlement.core.model.status import Status
from settlement.core.policy import outcome

STANDARD_SECONDS_MAX = 600
_POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Ended:
    """An execution's end: the contract's output, or an error."""

    key: str
    execution: str
    outcome: dict[str, Any] | None
    error: str | None = None
    message: str | None = None

    @property
    def status(self) -> str:
        return str(self.outcome["status"]) if self.outcome else f"{self.error}: {self.message}"

    def describe(self) -> dict[str, Any]:
        return self.outcome or {
            "key": self.key,
            "execution": self.execution,
            "error": self.error,
            "message": self.message,
        }


def start(stack: Stack, machine: Machine, request: str) -> Ended:
    """Run a request, and wait for its end. Raises CommandFailed.

    Each execution gets a new name. The settlement's row shows whether the key was used, and outlives Step
    Functions' memory of names.
    """
    key = key_of(request)
    name = executions.sent(key, secrets.token_hex(4))
    try:
        execution = _run(stack, machine, request, name)
    except (ClientError, BotoCoreError) as failed:
        raise CommandFailed(
            Exit.FAILED,
            f"{key}: its outcome is unknown; see `{stack.command('status', key)}`."
            f" The requests after it were not sent. {failed}",
        ) from failed
    if execution["status"] == "SUCCEEDED":
        return Ended(key, name, json.loads(execution["output"]))
    error = execution.get("error", execution["status"])
    return Ended(key, name, None, error, explain(execution.get("cause", "")))


def send(stack: Stack, request: str) -> str:
    """Send a request to the start queue. Return its key. Safe to repeat after CommandFailed."""
    key = key_of(request)
    try:
        stack.client("sqs").send_message(QueueUrl=stack.outputs["StartQueueUrl"], MessageBody=request)
    except (ClientError, BotoCoreError) as failed:
        raise CommandFailed(
            Exit.FAILED, f"{key}: may not be in the queue: send it again. Nor are those after it. {failed}"
        ) from failed
    return key


def start_code(ended: Ended) -> Exit:
    if ended.outcome:
        return Exit.of_status(ended.outcome["status"])
    known = {InvalidRequest.__name__: Exit.USAGE, IdempotencyConflict.__name__: Exit.CONFLICT}
    return known.get(ended.error or "", Exit.FAILED)


def _run(stack: Stack, machine: Machine, request: str, name: str) -> Any:
    client = stack.client("stepfunctions", attempts=1)  # the client must not send a start twice
    if machine is Machine.EXPRESS:
        return client.start_sync_execution(
            stateMachineArn=stack.outputs["SettlementExpressArn"], input=request, name=name
        )
    execution = client.start_execution(
        stateMachineArn=stack.outputs["SettlementStandardArn"], input=request, name=name
    )
    return _await(stack, execution["executionArn"], key_of(request))


def _await(stack: Stack, arn: str, key: str) -> Any:
    """Wait for the execution's end or LIMBO. In LIMBO, an execution waits without limit."""
    client, give_up_at = stack.client("stepfunctions"), time.monotonic() + STANDARD_SECONDS_MAX
    while True:
        execution = client.describe_execution(executionArn=arn)
        if execution["status"] != "RUNNING":
            return execution
        state = stack.store.settlement(key)
        if state and state.status is Status.LIMBO:
            stuck = outcome.of_state(state, stack.config, replayed=False)
            return {"status": "SUCCEEDED", "output": json.dumps(stuck)}
        if time.monotonic() > give_up_at:
            see = stack.command("status", key)
            raise CommandFailed(Exit.IN_FLIGHT, f"{arn} is still running; see `{see}`")
        time.sleep(_POLL_SECONDS)
