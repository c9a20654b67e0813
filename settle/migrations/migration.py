from collections import Counter
from collections.abc import Iterator
from typing import Any

from settle.migrations.rows import PARTS, Direction, Migration
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.core.model.stored import MalformedRow
from settlement.orders.requests import REVERSE_PART
from settlement.proof import pages


def plan(stack: Stack, migration: Migration, direction: Direction) -> dict[str, Any]:
    found = Counter(
        direction if migration.needs[direction] in row else "other" for row in _concerned(stack, migration)
    )
    return {
        "migration": migration.name,
        "direction": direction,
        "rows": found[direction],
        "done": found["other"],
        "obstacles": obstacles(stack, migration, direction),
    }


def obstacles(stack: Stack, migration: Migration, direction: Direction) -> list[str]:
    layout, found = stack.config.row_layout, []
    if direction is Direction.FORWARD and layout < migration.layout:
        found.append(f"row_layout is {layout}: deploy with row_layout={migration.layout} first")
    if direction is Direction.BACK and layout >= migration.layout:
        found.append(f"row_layout is {layout}: deploy with row_layout={migration.layout - 1} first")
    if "MigrationRoleArn" not in stack.outputs:
        found.append(f"the stack has no role for it: deploy with migration={migration.name}")
    return found


def verify(stack: Stack, migration: Migration, direction: Direction) -> dict[str, Any]:
    left, faults, right = list[str](), list[str](), 0
    for row in _concerned(stack, migration):
        key = keys.subject(row)[1]
        if migration.needs[direction] in row:
            left.append(key)
        elif fault := _fault(stack, migration, row):
            faults.append(f"{key}: {fault}")
        else:
            right += 1
    return {
        "migration": migration.name,
        "direction": direction,
        "right": right,
        "left": sorted(left),
        "faults": sorted(faults),
    }


def _concerned(stack: Stack, migration: Migration) -> Iterator[Row]:
    names = " OR ".join(f"attribute_exists({name})" for name in migration.attributes)
    return pages.scan(
        stack.store,
        FilterExpression=f"sk = :settlement AND #status = :settled AND ({names})",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues={
            ":settlement": {"S": keys.settlement("")["sk"]},
            ":settled": {"S": Status.SETTLED},
        },
    )


def _fault(stack: Stack, migration: Migration, row: Row) -> str | None:
    try:
        state = SettlementState.from_row(row)
    except MalformedRow as malformed:
        return str(malformed)
    if migration is PARTS:
        partition = keys.evidence(state.key, "")["pk"]
        parts = [
            one for one in pages.query(stack.store, partition) if one["step"].startswith(f"{REVERSE_PART}:")
        ]
        found = (len(parts), sum(one["amount"] for one in parts))
        if found != (state.parts, state.reversed_in_part):
            return (
                f"has {state.parts} parts of {state.reversed_in_part}, its evidence {found[0]} of {found[1]}"
            )
    return None
