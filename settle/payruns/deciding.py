"""Gives orders on a pay run, after its file is compared with its proposal."""

from datetime import datetime
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.order import give
from settle.payruns import checking, on_record
from settle.stack import Stack

SHOWN_MAX = 20
"""Maximum equal lines in an error."""

_PAYING = ("approve", "run")


def order(stack: Stack, verb: str, name: str, digest: str | None, at: datetime) -> dict[str, Any]:
    """Give an order on a run, and return the run afterwards. Safe to repeat. Raises CommandFailed.

    `digest` names the file that the person was shown. Before a run begins, its lines are compared with other
    runs again: two runs can be proposed at once.
    """
    one = on_record.find(stack, name)
    run = on_record.file_of(stack, one.proposal)
    found = on_record.described(stack, one)
    if digest is None:
        raise CommandFailed(Exit.USAGE, "digest: look at the run first, then pass its digest with --digest")
    if digest != found["digest"]:
        raise CommandFailed(Exit.CONFLICT, "digest: the run has another file than you were shown")
    if verb in _PAYING and not one.state.begun and (equal := checking.equal_lines(stack, run, at)):
        told = "its lines may be paid twice: cancel this run, or settle each of these"
        raise CommandFailed(Exit.CONFLICT, f"run: {told}", "\n".join(map(str, equal[:SHOWN_MAX])))
    give(stack, f"{verb}-payrun", {"run": found["run"], "digest": digest})
    return on_record.described(stack, on_record.of(stack, found["run"]))
