"""How a settlement that has stopped moving goes on: pure decisions, whose writes are pinned by vectors.

     claim   +30 s        +60 s          +120 s                 deadline
    ───┼───────┼────────────┼──────────────┼──── … ────────────────┼────────────▶
       │ first │ `<key>-r1` │ `<key>-r2`   │ `<key>-r<n>`          │ `<key>-compensate-<n>`
       │ owner │ resumes    │ resumes      │                       │ gives back what is not released

What is released goes on to its fee however late it is. Each takeover is one conditional update, which names
the new owner and moves the time of the next one, and only then is the owner started: if that fails, or the
owner dies, or recovery does, the settlement is found again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from settlement import rows
from settlement.conditions import (
    AS_LISTED,
    COMPENSATES,
    IN_LIMBO,
    IN_PROCESS,
    LISTED_IN_FLIGHT,
    NOT_IN_REVIEW,
    NOT_YET_COMMITTED,
    NOT_YET_TAKEN_ON,
    OVERDUE,
)
from settlement.errors import StepFenced
from settlement.request import Settlement
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.terms import Terms
from settlement.writes import Write, update

BACKOFF_SECONDS_MAX = 900
"""What is stuck for long is looked at this often."""

NO_TIME_LEFT = {"Error": "DeadlineExceeded", "Cause": "recover: the time to settle is over"}
REVIEW_OVER = {"Error": "DeadlineExceeded", "Cause": "recover: the review has not ended in time"}

_HAS_STATUS = {
    Status.PROCESSING: (IN_PROCESS, ":processing"),
    Status.COMPENSATING: (COMPENSATES, ":compensating"),
    Status.LIMBO: (IN_LIMBO, ":limbo"),
}


class Action(StrEnum):
    """What is started for a settlement that has stopped moving."""

    SETTLE = "settle"
    """The Standard settlement machine: it finds what has committed, and goes on from there."""

    COMPENSATE = "compensate"
    """The compensating machine, to reverse what is overdue, or to go on with a reversal."""

    PAGE = "page"
    """The compensating machine as well: in LIMBO it pages, and waits for a person's decision."""


@dataclass(frozen=True, kw_only=True)
class Takeover:
    """The write that makes the execution called `execution` the settlement's owner, and that one's input."""

    action: Action
    execution: str
    input: dict[str, Any]
    write: Write


def is_due(row: Row, now: datetime) -> bool:
    """Whether it is time to look after a settlement; the index may be behind.

    Raises ValueError for what is no status: such a row is nobody's.
    """
    match Status(row["status"]):
        case Status.PROCESSING | Status.COMPENSATING:
            return bool(row["gsi1sk"] <= rows.timestamp(now))
        case Status.LIMBO:
            return bool(row.get("recover_at", "") <= rows.timestamp(now))
    return False


def seconds_since(timestamp: str, now: datetime) -> int:
    """The age of what a row or the index has the time of; not below 0, whosever clock is behind."""
    return max(0, (now - datetime.fromisoformat(timestamp)) // timedelta(seconds=1))


def in_flight_since(row: Row) -> str:
    """When a settlement was last set in motion: its claim, a review's end, or a decision upon it."""
    return str(row.get("in_flight_since", row["claimed_at"]))


def take_over(row: Row, now: datetime, terms: Terms) -> Takeover | None:
    """How a settlement goes on; None where it need not: it is finished, or in review until its deadline."""
    settlement = Settlement.of_row(row).to_wire(terms)
    again = rows.timestamp(_backoff(row["recoveries"] + 1, now, terms))
    is_released = Step.RELEASE in row.get("steps", ())
    match row["status"]:
        case Status.PROCESSING if not is_released and row["deadline_at"] <= rows.timestamp(now):
            at = rows.timestamp(now)
            error = REVIEW_OVER if "review" in row else NO_TIME_LEFT
            return Takeover(
                action=Action.COMPENSATE,
                execution=(owner := _name(row, "compensate-")),
                input={"settlement": settlement, "error": error},
                write=_take(
                    *(row, owner, {"gsi1sk": again, "given_up_at": at}, OVERDUE, NOT_YET_COMMITTED),
                    values={":now": at, ":this": Step.RELEASE},
                ),
            )
        case Status.PROCESSING if "review" not in row:
            if not is_released:  # then it is to be given back in time
                again = min(again, str(row["deadline_at"]))
            return Takeover(
                action=Action.SETTLE,
                execution=(owner := _name(row, "r")),
                input=settlement,
                write=_take(row, owner, {"gsi1sk": again}, NOT_IN_REVIEW),
            )
        case Status.COMPENSATING:
            return Takeover(
                action=Action.COMPENSATE,
                execution=(owner := _name(row, "compensate-")),
                input={"settlement": settlement},
                write=_take(row, owner, {"gsi1sk": again}),
            )
        case Status.LIMBO:
            return Takeover(
                action=Action.PAGE,
                execution=(owner := _name(row, "compensate-")),
                input={"settlement": settlement},
                write=_take(row, owner, {"recover_at": again}),  # the index has since when
            )
    return None


def postpone(row: Row, now: datetime, terms: Terms) -> Write:
    """Look at a settlement again later, as it is being driven."""
    return _set_aside(row, _backoff(row["recoveries"] + 1, now, terms))


def set_aside(listed: Row, now: datetime, seconds: int = BACKOFF_SECONDS_MAX) -> Write:
    """Look at what the index lists again in a while: nothing can be made of it, and it stands in front."""
    return _set_aside(listed, now + timedelta(seconds=seconds))


def _take(
    row: Row,
    owner: str,
    changes: Mapping[str, str],
    *conditions: str,
    values: Mapping[str, Any] | None = None,
) -> Write:
    """Give a settlement to `owner`, if nothing that matters has happened to it since it was read."""
    has_status, status = _HAS_STATUS[row["status"]]
    assignments = [
        "#owner = :owner",
        "recoveries = recoveries + :one",
        *(f"{name} = :{name}" for name in changes),
    ]
    return update(
        {"pk": row["pk"], "sk": row["sk"]},
        f"SET {', '.join(assignments)}",
        *(has_status, NOT_YET_TAKEN_ON, AS_LISTED, *conditions),
        values={
            status: row["status"],
            ":listed": row["gsi1sk"],
            ":recoveries": row["recoveries"],
            ":owner": owner,
            ":one": 1,
            **{f":{name}": value for name, value in changes.items()},
            **(values or {}),
        },
        refusal=_moved_on,
    )


def _set_aside(listed: Row, until: datetime) -> Write:
    return update(
        {"pk": listed["pk"], "sk": listed["sk"]},
        "SET gsi1sk = :again",
        *(AS_LISTED, LISTED_IN_FLIGHT),
        values={
            ":listed": listed["gsi1sk"],
            ":in_flight": rows.IN_FLIGHT,
            ":again": rows.timestamp(until),
        },
        refusal=_moved_on,
    )


def _moved_on(_: Row | None) -> StepFenced:
    return StepFenced("recover: the settlement has moved on")


def _backoff(recoveries: int, now: datetime, terms: Terms) -> datetime:
    """When to look again after so many takeovers: twice as late each time, within bounds."""
    seconds = min(terms.recover_after_seconds << min(recoveries, 10), BACKOFF_SECONDS_MAX)
    return now + timedelta(seconds=seconds)


def _name(row: Row, infix: str) -> str:
    """What the next owner is called."""
    return f"{rows.subject(row)[1]}-{infix}{row['recoveries'] + 1}"
