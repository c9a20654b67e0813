"""The write by which recovery takes on what has stopped moving: a pure function, pinned by a vector."""

from datetime import datetime, timedelta

from settlement import rows
from settlement.conditions import AS_LISTED, IN_PROCESS, NOT_YET_COMMITTED, OVERDUE
from settlement.errors import StepFenced
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.terms import Terms
from settlement.writes import Write, update


def give_up(listed: Row, now: datetime, terms: Terms) -> Write:
    """Take on a settlement whose deadline has passed before its release, to have it reversed.

    From here on no forward step commits. `listed` is what the index says of it. It is listed again for
    later, should the reversal not start.
    """
    again_at = now + timedelta(seconds=terms.recover_after_seconds)
    return update(
        {"pk": listed["pk"], "sk": listed["sk"]},
        "SET gsi1sk = :again, recoveries = recoveries + :one, given_up_at = :now",
        *(IN_PROCESS, AS_LISTED, OVERDUE, NOT_YET_COMMITTED),
        values={
            ":processing": Status.PROCESSING,
            ":listed": listed["gsi1sk"],
            ":now": rows.timestamp(now),
            ":this": Step.RELEASE,
            ":again": rows.timestamp(again_at),
            ":one": 1,
        },
        refusal=lambda row: StepFenced("recover: the settlement has moved on, or has time left"),
    )
