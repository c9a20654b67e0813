from enum import StrEnum

from settlement.core.model.saga import REVERSIBLE, Step

__all__ = ["FINISHED", "REVERSIBLE", "TRANSITIONS", "Status", "Step"]


class Status(StrEnum):
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
"""Allowed changes of status. Only a person's resolution leads out of LIMBO."""

FINISHED = frozenset({Status.SETTLED, Status.REJECTED, Status.COMPENSATED})
"""No execution works on a settlement in these statuses. A reversal may reopen a SETTLED settlement."""
