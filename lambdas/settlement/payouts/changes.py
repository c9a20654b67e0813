"""Outcome events of payouts, made from stream records of their rows."""

from settlement.core.ledger.keys import Row
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import MalformedRow
from settlement.events.changes import Event
from settlement.payouts import moves, told
from settlement.payouts.payout import State, Status

ABOUT = "payout"


def event(old: Row | None, new: Row | None, config: StageConfig) -> Event | None:
    """Return the event of one write, or None for a note, which leaves `sequence` as it is.

    A move, a line or a case has an event.

    `old` is None for a new row. Raises MalformedRow for an unreadable row, a deletion, or a change that no
    function makes.
    """
    if new is None:
        raise MalformedRow(f"{(old or {}).get('pk')}: the payout's row was deleted")
    after = State.from_row(new)
    before = State.from_row(old) if old is not None else None
    counted = after.sequence - (before.sequence if before else 0)
    if counted not in _counts(before, after):
        was = before.status if before else "no row"
        raise MalformedRow(f"{new['pk']}: is {after.status} after {was}, and its sequence grows by {counted}")
    if not counted:
        return None
    data = told.of_event(after, config)
    return Event(
        type=after.status.value.lower(), key=after.key, sequence=after.sequence, data=data, about=ABOUT
    )


def _counts(before: State | None, after: State) -> tuple[int, ...]:
    """Return the allowed increases of `sequence` by this write; none for an illegal write."""
    if before is None:
        return (1,) if after.status is Status.RESERVED else ()
    if after.payout != before.payout:
        return ()
    if after.status is before.status:
        return 0, 1
    may = {rule.to for rule in moves.RULES.values() if before.status in rule.money}
    return (1,) if after.status in may else ()
