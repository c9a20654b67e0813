"""Statuses of a settlement, and the legal transitions; with its steps, of the table of the saga."""

from enum import StrEnum

from settlement.core.model.saga import REVERSIBLE, Step

__all__ = ["FINISHED", "REVERSIBLE", "TRANSITIONS", "Status", "Step"]


class Status(StrEnum):
    """The `status` attribute of a settlement's row."""

    PROCESSING = "PROCESSING"
    SETTLED = "SETTLED"
    REJECTED = "REJECTED"
    COMPENSATING = "COMPENSATING"
    COMPENSATED = "COMPENSATED"
    LIMBO = "LIMBO"


TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.PROCESSING: frozenset({Status.SETTLED, Status.REJECTED, Status.COMPENSATING}),
    Status.SETTLED: frozenset({Status.COMPENSATING}),
    Status.REJECTED: frozenset(),
    Status.COMPENSATING: frozenset({Status.COMPENSATED, Status.LIMBO}),
    Status.COMPENSATED: frozenset(),
    Status.LIMBO: frozenset({Status.COMPENSATING, Status.SETTLED}),
}
"""The legal transitions. Only a person's resolution leads out of LIMBO."""

FINISHED = frozenset({Status.SETTLED, Status.REJECTED, Status.COMPENSATED})
"""The statuses in which no execution works on a settlement. A reversal may reopen a SETTLED one."""
