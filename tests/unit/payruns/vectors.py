"""Golden vectors of the pay runs' writes, added to those of `tests/unit/vectors.py`."""

from dataclasses import replace
from datetime import timedelta
from types import ModuleType

from settlement.payruns import writes
from settlement.payruns.run import Status
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
from tests.unit.vectors import Vector
from tests.world.environment import NOW

LATER = NOW + timedelta(hours=1)
POSTERS: dict[ModuleType, tuple[Vector, ...]] = {
    writes: (
        Vector(writes.propose, (PROPOSAL, ADA)),
        Vector(writes.approve, (PROPOSED, PROPOSAL, BEA, LATER), variant="first"),
        Vector(writes.approve, (replace(PROPOSED, approvals=1), PROPOSAL, BEA, LATER), variant="last"),
        Vector(writes.resume, (APPROVED, PROPOSAL, ADA, LATER)),
        Vector(writes.pause, (RUNNING, PROPOSAL, BEA, LATER)),
        Vector(writes.cancel, (BEGUN, PROPOSAL, BEA, LATER), variant="begun"),
        Vector(writes.cancel, (PROPOSED, PROPOSAL, BEA, LATER), variant="unbegun"),
        Vector(writes.begin, (RUNNING, 2)),
        Vector(writes.started, (BEGUN,)),
        Vector(writes.ended, (STARTED, HALF)),
        Vector(writes.end, (OVER, LATER), variant="finished"),
        Vector(writes.end, (replace(OVER, cut=3, status=Status.RUNNING), LATER), variant="cancelled"),
        Vector(writes.refused, (PROPOSAL.run, 3, "InsufficientFunds", "market: too little", LATER)),
        Vector(writes.taken, (PROPOSAL.run, 3, LATER)),
    ),
}
BUILDERS: dict[ModuleType, tuple[Vector, ...]] = {}
