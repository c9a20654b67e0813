from collections.abc import Mapping, Sequence
from datetime import datetime

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import (
    LISTED_IN_FLIGHT,
    Condition,
    is_still_of,
    listed_at,
    status_is,
)
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Write, placeholders, update
from settlement.core.model.errors import StepFenced
from settlement.core.model.state import SettlementState
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp


def take_over(
    state: SettlementState, owner: str, changes: Mapping[str, str], conditions: Sequence[Condition] = ()
) -> Write:
    """Change the owner and increment the epoch. Status, owner and index entry must still be as read."""
    assignments = [
        "#owner = :owner",
        "owner_epoch = owner_epoch + :one",
        *(f"{name} = :{name}" for name in changes),
    ]
    return update(
        keys.settlement(state.key),
        f"SET {', '.join(assignments)}",
        values={":owner": owner, ":one": 1, **placeholders(dict(changes))},
        conditions=[
            status_is(state.status),
            is_still_of(state.owner),
            listed_at(sort_key(state)),
            *conditions,
        ],
        on_failure=_moved_on,
    )


def sort_key(state: SettlementState) -> str:
    """The index sort key. Raises MalformedRow for an unlisted row."""
    if state.listed_at is None:
        raise MalformedRow(f"{state.key}: is {state.status}, but has no place in the index")
    return state.listed_at


def look_again(listed: Row, until: datetime) -> Write:
    """Move recovery's next look. `listed` has the settlement's key and index sort key."""
    return update(
        {"pk": listed["pk"], "sk": listed["sk"]},
        "SET gsi1sk = :again",
        values={":again": timestamp(until)},
        conditions=[listed_at(listed["gsi1sk"]), LISTED_IN_FLIGHT],
        on_failure=_moved_on,
    )


def _moved_on(_: SettlementState | None) -> StepFenced:
    return StepFenced("recover", "the settlement has moved on")
