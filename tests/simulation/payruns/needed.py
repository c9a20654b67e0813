"""Lists, for each condition of the pay runs' writes, a call that only this condition refuses."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.errors import SettlementError
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import to_wire
from settlement.payruns import writes
from settlement.payruns.run import Run, Status
from tests.simulation.seeded.weakened import Atom
from tests.unit.payruns.rows import (
    ADA,
    APPROVED,
    BEA,
    BEGUN,
    HALF,
    OVER,
    PROPOSAL,
    PROPOSED,
    RUNNING,
    STARTED,
)
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

MODULES = (writes,)
LATER = NOW + timedelta(hours=1)
CUT = replace(BEGUN, cut=2)
Writes = tuple[Write, ...]


@dataclass(frozen=True)
class Call:
    """A call that a condition must refuse, so it changes nothing.

    `rows`: the table at first. `earlier`: writes before the call. `refused`: the call's writes.
    """

    refused: Callable[[], Writes]
    rows: tuple[Row, ...] = ()
    earlier: Callable[[], Writes] = tuple

    def changes(self) -> bool:
        table = MemoryDynamoDb()
        store = Store(table, "needed", pause=lambda tries: None)
        for row in self.rows:
            table.put_item(TableName="needed", Item=to_wire(row))
        if happened := self.earlier():
            store.transact(happened)
        before = dict(table.items)
        with suppress(AlreadyApplied, SettlementError):
            store.transact(self.refused())
        return table.items != before


def _of(state: Run, refused: Callable[[], Writes]) -> Call:
    return Call(refused, (state.to_row(),))


def _refused() -> Writes:
    return (writes.refused(PROPOSAL.run, 3, "InvalidRequest", "amount", NOW),)


def _taken() -> Writes:
    return (writes.taken(PROPOSAL.run, 3, NOW),)


_ONCE_APPROVED = replace(PROPOSED, approvals=1, sequence=2)
_PAUSED = replace(BEGUN, status=Status.PAUSED)
_ENDED_MORE = replace(HALF, ended=2, outcomes={"SETTLED": 2})

NEEDED: Mapping[Atom, tuple[Call, ...]] = {
    ("writes.propose", "ABSENT"): (
        Call(
            lambda: writes.propose(replace(PROPOSAL, needed=1), BEA),
            earlier=lambda: writes.propose(PROPOSAL, ADA),
        ),
        Call(lambda: writes.propose(PROPOSAL, ADA), (RUNNING.to_row(),)),
    ),
    ("writes.approve", "ABSENT"): (
        Call(
            lambda: writes.approve(_ONCE_APPROVED, PROPOSAL, BEA, LATER),
            (PROPOSED.to_row(),),
            lambda: writes.approve(PROPOSED, PROPOSAL, BEA, NOW),
        ),
    ),
    ("writes._ordered", "ABSENT"): (
        Call(
            lambda: writes.resume(APPROVED, PROPOSAL, BEA, LATER),
            (APPROVED.to_row(), writes.resume(APPROVED, PROPOSAL, ADA, NOW)[1].parameters["Item"]),
        ),
    ),
    ("writes._update", "sequence_is"): (
        _of(
            replace(PROPOSED, status=Status.CANCELLED, sequence=2),
            lambda: writes.approve(PROPOSED, PROPOSAL, BEA, LATER),
        ),
        _of(
            replace(APPROVED, status=Status.CANCELLED, sequence=4),
            lambda: writes.resume(APPROVED, PROPOSAL, ADA, LATER),
        ),
        _of(replace(RUNNING, cut=0, sequence=5), lambda: writes.pause(RUNNING, PROPOSAL, ADA, LATER)),
        _of(
            replace(OVER, status=Status.FINISHED, sequence=5),
            lambda: writes.cancel(OVER, PROPOSAL, ADA, LATER),
        ),
        _of(replace(OVER, cut=3, sequence=5), lambda: (writes.end(OVER, LATER),)),
    ),
    ("writes._update", "begun = :was_begun"): (
        _of(BEGUN, lambda: writes.cancel(RUNNING, PROPOSAL, ADA, LATER)),
        _of(BEGUN, lambda: (writes.begin(RUNNING, 1),)),
        _of(replace(BEGUN, begun=3), lambda: (writes.started(BEGUN),)),
    ),
    ("writes._update", "#status = :running"): (_of(_PAUSED, lambda: (writes.begin(BEGUN, 1),)),),
    ("writes._update", "attribute_not_exists(cut)"): (_of(CUT, lambda: (writes.begin(BEGUN, 1),)),),
    ("writes._update", "started = :was_started"): (
        _of(replace(BEGUN, started=1), lambda: (writes.started(BEGUN),)),
    ),
    ("writes._update", "ended = :was_ended"): (_of(_ENDED_MORE, lambda: (writes.ended(STARTED, HALF),)),),
    ("writes.refused", "ABSENT"): (Call(_refused, earlier=_taken),),
    ("writes.taken", "ABSENT"): (Call(_taken, earlier=_refused),),
}
IDLE: Mapping[Atom, str] = {}
"""Conditions that no call fails alone, each with the reason."""
