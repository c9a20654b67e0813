"""Having recovery take on one settlement now: the same function as the schedule calls, and the same path."""

import json
from typing import Any

from settle import journal
from settle.failures import CommandFailed, Exit
from settle.stack import Stack
from settle.starting import explain, status_code
from settlement.compensation import FINISHED
from settlement.rows import Row
from settlement.status import Status

NOTHING = "none"
"""What recovery calls its action where there is nothing to do."""


def recover(stack: Stack, key: str) -> tuple[dict[str, Any], str | None]:
    """Have a settlement taken on; return what was done and how it stands after that, and why where not.

    Safe to repeat: recovery starts nothing where an execution runs. What is finished is not asked about.
    """
    row = journal.row_of(stack, key)
    done = {"action": NOTHING, "execution": None} if row["status"] in FINISHED else _invoke(stack, key)
    row = journal.row_of(stack, key)
    result = {"key": key, "status": row["status"], "action": done["action"], "execution": done["execution"]}
    return result, _why_not(key, row) if done["action"] == NOTHING else None


def recover_code(result: dict[str, Any]) -> Exit:
    """The exit code of a recovery: fine if it was taken on or need not be, else as the settlement stands."""
    stands = status_code(result["status"])
    return stands if result["action"] == NOTHING or stands is Exit.LIMBO else Exit.FINE


def _invoke(stack: Stack, key: str) -> dict[str, Any]:
    if "RecoverStalledArn" not in stack.outputs:
        raise CommandFailed(
            Exit.FAILED,
            f"stack {stack.name}: has no output RecoverStalledArn, as it is too old; deploy it again",
        )
    answer = stack.client("lambda").invoke(
        FunctionName=stack.outputs["RecoverStalledArn"],
        InvocationType="RequestResponse",
        Payload=json.dumps({"key": key}),
    )
    told = answer["Payload"].read().decode()
    if "FunctionError" in answer:
        raise CommandFailed(Exit.FAILED, f"{key}: not recovered, or not known to be: {explain(told)}")
    done: dict[str, Any] = json.loads(told)
    return done


def _why_not(key: str, row: Row) -> str:
    """Why there was nothing to do, from the settlement's row."""
    if row["status"] in FINISHED:
        return f"{key} is {row['status']}: there is nothing to recover"
    if row["status"] == Status.LIMBO:
        return f"{key} waits for a person's decision, its execution too; see `settle limbo show {key}`"
    if row["status"] == Status.PROCESSING and "review" in row:
        return f"{key} is in review until {row['deadline_at']}, unless the provider decides before"
    return f"{key} is being driven: its execution {row['owner']} runs"
