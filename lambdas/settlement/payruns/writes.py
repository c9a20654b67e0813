"""Writes of a run. `sequence` fences a change of status, and the counts fence progress."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import Condition, sequence_is
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, OnFailure, Write, placeholders, put, update
from settlement.core.model.errors import PayRunRefused, SettlementError
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller
from settlement.payruns.run import Proposal, Run, Status

_ALIASES = {"status": "#status", "sequence": "#sequence"}
_RUNNING = Condition("#status = :running", {":running": Status.RUNNING})
_NOT_CUT = Condition("attribute_not_exists(cut)")


def propose(one: Proposal, caller: Caller) -> tuple[Write, ...]:
    def meaning(found: Row) -> SettlementError | AlreadyApplied:
        return AlreadyApplied(found)

    told = {name: value for name, value in vars(one).items() if value is not None}
    row = {**keys.payrun_proposed(one.run), **told, "kind": one.kind.value, **caller.proof}
    run = Run(
        run=one.run,
        name=one.name,
        status=Status.PROPOSED,
        sequence=1,
        proposed_at=one.posted_at,
        lines=one.lines,
    )
    return put(row, on_failure=meaning), put(run.to_row(), on_failure=meaning)


def approve(run: Run, one: Proposal, caller: Caller, now: datetime) -> tuple[Write, ...]:
    """Approve a run, once for each person. Raises PayRunRefused."""
    if run.status is not Status.PROPOSED:
        raise PayRunRefused(f"run: it is {run.status}")
    row = {
        **keys.payrun_approved(run.run, caller.person),
        "digest": one.digest,
        "by": caller.by,
        "posted_at": timestamp(now),
        **caller.proof,
    }
    approvals = run.approvals + 1
    status = Status.APPROVED if approvals >= one.needed else Status.PROPOSED
    after = _changed(run, now, status=status, approvals=approvals)
    move = _update(run, after.to_row(), [sequence_is(run.sequence)], _moved_on(None))  # not of another person
    return put(row, on_failure=AlreadyApplied), move


def resume(run: Run, one: Proposal, caller: Caller, now: datetime) -> tuple[Write, ...]:
    """Start an approved run, or resume a paused one. Raises PayRunRefused."""
    if run.status not in (Status.APPROVED, Status.PAUSED):
        raise PayRunRefused(f"run: it is {run.status}")
    after = _changed(run, now, status=Status.RUNNING)
    return _move(run, after), _ordered("run", after, one, caller)


def pause(run: Run, one: Proposal, caller: Caller, now: datetime) -> tuple[Write, ...]:
    """Pause a run: no more lines begin. Raises PayRunRefused."""
    if run.status is not Status.RUNNING or run.cut is not None:
        raise PayRunRefused(f"run: it is {run.status}" if run.cut is None else "run: it is cancelled already")
    after = _changed(run, now, status=Status.PAUSED)
    return _move(run, after), _ordered("pause", after, one, caller)


def cancel(run: Run, one: Proposal, caller: Caller, now: datetime) -> tuple[Write, ...]:
    """Cancel a run: no more lines ever begin. Begun lines continue. Raises PayRunRefused."""
    if run.status in (Status.FINISHED, Status.CANCELLED) or run.cut is not None:
        raise PayRunRefused(f"run: it is {run.status}" if run.cut is None else "run: it is cancelled already")
    status = Status.RUNNING if run.begun else Status.CANCELLED
    after = _changed(run, now, status=status, cut=run.begun)
    return _move(run, after, _still(run, "begun")), _ordered("cancel", after, one, caller)


def _ordered(order: str, after: Run, one: Proposal, caller: Caller) -> Write:
    def meaning(found: Row) -> SettlementError | AlreadyApplied:
        if (found.get("order"), found.get("by")) == (order, caller.by):
            return AlreadyApplied(found)
        return PayRunRefused(f"run: {found.get('by')} has moved it to sequence {after.sequence} before")

    row = {
        **keys.payrun_ordered(after.run, after.sequence),
        "order": order,
        "digest": one.digest,
        "by": caller.by,
        "posted_at": after.changed_at,
        **caller.proof,
    }
    return put(row, on_failure=meaning)


def begin(run: Run, lines: int) -> Write:
    """Begin the next lines, unless the run is paused, cancelled, or another call has begun them."""
    return _progress(run, {"begun": run.begun + lines}, _RUNNING, _NOT_CUT, _still(run, "begun"))


def started(run: Run) -> Write:
    return _progress(run, {"started": run.begun}, _still(run, "started"), _still(run, "begun"))


def ended(run: Run, after: Run) -> Write:
    told = {name: getattr(after, name) for name in ("ended", "outcomes", "sums")}
    return _progress(run, told, _still(run, "ended"))


def end(run: Run, now: datetime) -> Write:
    status = Status.FINISHED if run.cut is None else Status.CANCELLED
    return _move(run, _changed(run, now, status=status))


def refused(run: str, number: int, error: str, message: str, now: datetime) -> Write:
    """Record a line's refusal. A payout's line is then never paid."""
    row = {**keys.payrun_line(run, number), "refused": error, "why": message, "posted_at": timestamp(now)}
    return put(row, on_failure=AlreadyApplied)


def taken(run: str, number: int, now: datetime) -> Write:
    """Record a paid line, in the transaction that reserves its payout. A refused line stays refused."""

    def meaning(found: Row) -> SettlementError | AlreadyApplied:
        return PayRunRefused(f"line: it was refused: {found.get('why')}")

    return put({**keys.payrun_line(run, number), "posted_at": timestamp(now)}, on_failure=meaning)


def _changed(run: Run, now: datetime, **changed: Any) -> Run:
    return replace(run, sequence=run.sequence + 1, changed_at=timestamp(now), **changed)


def _move(run: Run, after: Run, *conditions: Condition) -> Write:
    return _update(run, after.to_row(), [sequence_is(run.sequence), *conditions], _moved_on(after))


def _progress(run: Run, told: Mapping[str, Any], *conditions: Condition) -> Write:
    return _update(run, {**run.to_row(), **told}, [*conditions], _moved_on(None))


def _update(run: Run, row: Row, conditions: list[Condition], meaning: OnFailure) -> Write:
    was = run.to_row()
    changed = {name: value for name, value in row.items() if was.get(name) != value}
    assignments = ", ".join(f"{_ALIASES.get(name, name)} = :{name}" for name in changed)
    return update(
        keys.payrun(run.run),
        f"SET {assignments}",
        values=placeholders(changed),
        conditions=conditions,
        on_failure=meaning,
    )


def _still(run: Run, name: str) -> Condition:
    return Condition(f"{name} = :was_{name}", {f":was_{name}": getattr(run, name)})


def _moved_on(after: Run | None) -> OnFailure:
    def meaning(found: Row | None) -> SettlementError | AlreadyApplied:
        if found is None:
            return PayRunRefused("run: it is gone")
        state = Run.from_row(found)
        if state == after:
            return AlreadyApplied(found)
        return PayRunRefused(f"run: it has moved on to {state.status}; look at it again")

    return meaning
