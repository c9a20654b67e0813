"""Outcome events of runs, made from stream records of their rows."""

from typing import Any

from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import MalformedRow, exponent_of
from settlement.events.changes import Event
from settlement.payruns.run import Run

ABOUT = "payrun"


def event(old: Row | None, new: Row | None, config: StageConfig) -> Event | None:
    """The event of a run's new status; None for mere progress.

    Raises MalformedRow for an unreadable row, a deletion, or a change that no function makes.
    """
    if new is None:
        raise MalformedRow(f"{(old or {}).get('pk')}: the run's row was deleted")
    after = Run.from_row(new)
    counted = after.sequence - (Run.from_row(old).sequence if old else 0)
    if counted not in ((0, 1) if old else (1,)):
        raise MalformedRow(f"{new['pk']}: its sequence grows by {counted}")
    if not counted:
        return None
    kind = after.status.value.lower()
    return Event(type=kind, key=after.run, sequence=after.sequence, data=told(after, config), about=ABOUT)


def told(run: Run, config: StageConfig) -> dict[str, Any]:
    """Describe a run in events and answers. Raises MalformedRow."""
    sums: dict[str, dict[str, str]] = {}
    for name, amount in run.sums.items():
        outcome, _, currency = name.rpartition(" ")
        exponent = exponent_of(f"PAYRUN#{run.run}", currency, config)
        sums.setdefault(outcome, {})[currency] = money.render(amount, exponent)
    outcomes = [
        {"outcome": name, "lines": lines, "sums": sums.get(name, {})}
        for name, lines in sorted(run.outcomes.items())
    ]
    counts = {"lines": run.lines, "begun": run.begun, "started": run.started, "ended": run.ended}
    cut = {} if run.cut is None else {"cancelled_after": run.cut}
    return {
        "run": run.run,
        "name": run.name,
        "status": run.status.value,
        "approvals": run.approvals,
        **counts,
        **cut,
        "outcomes": outcomes,
    }
