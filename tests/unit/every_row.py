"""Every settlement row that a write may meet: what conditions are asked about."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

from settlement import rows
from settlement.request import Settlement
from settlement.rows import Row
from settlement.status import REVERSIBLE, Status, Step
from settlement.writes import Write
from tests.unit.vectors import DECIDER, EXECUTION, IN_HASTE, LISTED, REJECTED, SETTLEMENT, VERDICT, YEN

BEFORE, AT, AFTER = "2026-11-20T12:00:00.122Z", "2026-11-20T12:00:00.123Z", "2026-11-20T12:00:00.124Z"
"""Around the instant at which the writes are made."""

PREFIXES = [set(list(Step)[:length]) for length in range(len(Step) + 1)]
"""What may have committed: steps commit in their order, so nothing else is ever on a row."""

ROUNDS: list[dict[str, Any]] = [
    {},
    {"resolutions": 0},
    {"resolutions": 1, "resolution": {"decision": "retry"}},
    {"resolutions": 2, "resolution": {"decision": "retry"}},
]
"""How many decisions were made: the attribute is there from the beginning of a compensation."""

MOVED = "2026-11-20T12:00:30.000Z"
"""Where the index lists what somebody else has taken on since it was read."""


def verdicts(steps: set[Any]) -> list[dict[str, Any]]:
    """What a row may say of its verification: an approval and its step are there together, or neither is."""
    if Step.VERIFY in steps:
        return [{"verdict": VERDICT.decision.value}]
    if Step.HOLD not in steps:
        return [{}]
    return [{}, {"review": VERDICT.reference}, {"review": "another"}, {"verdict": REJECTED.decision.value}]


def listings(status: Status) -> list[dict[str, Any]]:
    """Who drives a row, where it is listed, and whether recovery has given it up. What is finished is not."""
    partition = rows.LIMBO if status is Status.LIMBO else rows.in_flight_partition(2)
    driven: list[dict[str, Any]] = [
        {"owner": owner, "recoveries": recoveries, "gsi1pk": partition, "gsi1sk": gsi1sk}
        for owner, recoveries, gsi1sk in ((EXECUTION, 0, LISTED), (EXECUTION, 0, MOVED), (DECIDER, 1, LISTED))
    ]
    if status is Status.PROCESSING:
        return [*driven, driven[-1] | {"gsi1sk": MOVED, "given_up_at": LISTED}]
    if status in (Status.COMPENSATING, Status.LIMBO):
        return driven
    return [{"owner": EXECUTION, "recoveries": 0}]


def settlement_row(
    status: Status,
    steps: set[Any],
    deadline_at: str,
    *,
    same_request: bool = True,
    settlement: Settlement = SETTLEMENT,
    **more: Any,
) -> Row:
    row = {
        **rows.settlement_key(settlement.key),
        "status": status,
        "request_hash": settlement.request_hash if same_request else "another",
        "deadline_at": deadline_at,
        "escrow": 0,
    }
    return row | ({"steps": steps} if steps else {}) | more


def progress() -> Iterator[tuple[set[Step], set[Step]]]:
    """What has committed and what of it is reversed: reversals go back in their order."""
    for steps in PREFIXES:
        moved = [step for step in REVERSIBLE if step in steps]
        for length in range(len(moved) + 1):
            yield steps, set(moved[:length])


def rows_met_by(write: Write) -> list[Row]:
    """Every row that may ever stand where the write of a settlement's row goes."""
    key = write.parameters.get("Key") or write.parameters["Item"]
    known = (SETTLEMENT, YEN, IN_HASTE)
    (settlement,) = (each for each in known if rows.settlement_key(each.key)["pk"] == key["pk"])
    return _rows_of(settlement)


@cache
def _rows_of(settlement: Settlement) -> list[Row]:
    escrows = (0, settlement.fee, settlement.net, settlement.amount)
    return [
        settlement_row(
            status,
            steps,
            deadline_at,
            same_request=same,
            settlement=settlement,
            escrow=escrow,
            reversed_for={"step": "verify"},
            **({"reversed": reversed_} if reversed_ else {}),
            **decided,
            **verified,
            **listed,
        )
        for status, (steps, reversed_), deadline_at, same, escrow, decided in product(
            Status, progress(), (AT, AFTER), (True, False), escrows, ROUNDS
        )
        for verified, listed in product(verdicts(steps), listings(status))
    ]
