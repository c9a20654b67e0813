"""The checks of a deployed stack, and their answers about one payment. It only reads."""

import json
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.settlements.settlement import unclaimed
from settle.stack import Stack
from settlement.checks import waits
from settlement.checks.answers import step_of
from settlement.core.ledger.keys import Row
from settlement.core.model.state import SettlementState
from settlement.core.model.stored import MalformedRow


def declared(stack: Stack) -> list[dict[str, Any]]:
    """Return each check's name, refusals and longest wait (s). Raises CommandFailed without checks."""
    if "StageChecks" not in stack.outputs:
        raise CommandFailed(Exit.NOT_FOUND, f"stack {stack.name}: has no checks")
    found: list[dict[str, Any]] = json.loads(stack.outputs["StageChecks"])
    return found


def answers(stack: Stack, key: str) -> list[dict[str, Any]]:
    """Return the answer, or the state, of each check that a payment demands.

    Raises CommandFailed for a payment that is unreadable, unclaimed or without checks.
    """
    try:
        state = stack.store.settlement(key)
    except MalformedRow as malformed:
        raise CommandFailed(Exit.FAILED, f"key: {malformed}") from malformed
    if state is None:
        raise unclaimed(stack, key)
    if not state.checks:
        raise CommandFailed(Exit.NOT_FOUND, f"key: {key} demands no checks")
    return [_answer(name, state, stack.store.evidence(key, step_of(name))) for name in sorted(state.checks)]


def _answer(name: str, state: SettlementState, evidence: Row | None) -> dict[str, Any]:
    told = {field: (evidence or {}).get(field) for field in ("decision", "reason", "by_way", "posted_at")}
    waits_until = state.deadline_at if not evidence and waits.waited_for(state) == name else None
    return {"check": name, **told, "waits_until": waits_until}
