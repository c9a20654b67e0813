"""Builds all settlement rows that a write can meet, to evaluate its condition on each."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Write
from settlement.core.model.settlement import Settlement
from settlement.core.model.state import SettlementState
from settlement.core.model.status import REVERSIBLE, Status, Step
from tests.unit import states
from tests.unit.vectors import DECIDER, EXECUTION, IN_HASTE, LISTED, REJECTED, SETTLEMENT, VERDICT, YEN, slots

BEFORE, AT, AFTER = "2026-11-20T12:00:00.122Z", "2026-11-20T12:00:00.123Z", "2026-11-20T12:00:00.124Z"

PREFIXES = [set(list(Step)[:length]) for length in range(len(Step) + 1)]
"""All possible sets of committed steps, because steps commit in order."""

RESOLUTIONS: list[dict[str, Any]] = [
    {},
    {"resolutions": 0},
    {"resolutions": 1, "resolution": {"decision": "retry"}},
]
"""A row's possible decisions: none, or a count, which exists from the start of a compensation."""

PARTS = tuple(
    {**counted, "reversed_in_part": amount}
    for count, amount in ((1, 500), (1, 3_772), (1, 3_773), (2, 500))
    for counted in ({"parts": count}, {"reversals_in_part": count, "layout": 2})
)
"""Counts and sums of reversals in part, in both row layouts.

3,772 leaves exactly the amount of `PART_2`, 1,000.
"""

MOVED = "2026-11-20T12:00:30.000Z"
"""A row's index position after another execution has taken the settlement over."""


def verdicts(steps: set[Any]) -> list[dict[str, Any]]:
    """Return a verification's possible attributes: an approval exactly if VERIFY has committed."""
    if Step.VERIFY in steps:
        return [{"verdict": VERDICT.decision.value}]
    if Step.HOLD not in steps:
        return [{}]
    return [
        {},
        {"review": VERDICT.reference},
        *({"review": f"check:{name}"} for name in ("delivered", "limits")),
        *({"answered": {name}} for name in ("delivered", "limits")),
        {"verdict": REJECTED.decision.value},
    ]


def listings(status: Status) -> list[dict[str, Any]]:
    """Return a row's possible owners, index positions and expiries. Finished rows are in no index."""
    partition = keys.LIMBO if status is Status.LIMBO else keys.in_flight_partition(2)
    owned: list[dict[str, Any]] = [
        {"owner": owner, "owner_epoch": owner_epoch, "gsi1pk": partition, "gsi1sk": gsi1sk}
        for owner, owner_epoch, gsi1sk in (
            (EXECUTION, 0, LISTED),
            (EXECUTION, 0, MOVED),
            (DECIDER, 1, LISTED),
        )
    ]
    if status is Status.PROCESSING:
        return [*owned, owned[-1] | {"gsi1sk": MOVED, "expired_at": LISTED}]
    if status in (Status.COMPENSATING, Status.LIMBO):
        return owned
    return [{"owner": EXECUTION, "owner_epoch": 0}]


def settlement_row(
    status: Status,
    steps: set[Any],
    deadline_at: str,
    *,
    same_request: bool = True,
    settlement: Settlement = SETTLEMENT,
    **more: Any,
) -> Row:
    row = states.row(settlement, status=status, deadline_at=deadline_at)
    if not same_request:
        row |= {"request_hash": "another"}
    return row | slots(steps) | more


def progress() -> Iterator[tuple[set[Step], set[Step]]]:
    """Yield each possible pair of committed steps and already reversed steps."""
    for steps in PREFIXES:
        moved = [step for step in REVERSIBLE if step in steps]
        for length in range(len(moved) + 1):
            yield steps, set(moved[:length])


def rows_met_by(write: Write) -> list[Row]:
    return _rows_of(_settlement_of(write))


def states_met_by(write: Write) -> list[tuple[Row, SettlementState]]:
    return _states_of(_settlement_of(write))


def _settlement_of(write: Write) -> Settlement:
    key = write.parameters.get("Key") or write.parameters["Item"]
    known = (SETTLEMENT, YEN, IN_HASTE)
    (settlement,) = (each for each in known if keys.settlement(each.key)["pk"] == key["pk"])
    return settlement


@cache
def _states_of(settlement: Settlement) -> list[tuple[Row, SettlementState]]:
    return [(row, SettlementState.from_row(row)) for row in _rows_of(settlement)]


@cache
def _rows_of(settlement: Settlement) -> list[Row]:
    escrows = (0, settlement.fee, settlement.amount)
    return (
        [
            settlement_row(
                status,
                steps,
                deadline_at,
                same_request=same,
                settlement=settlement,
                escrow=escrow,
                reversed_for={"step": "verify"},
                **slots((), undone),
                **decided,
                **verified,
                **listed,
            )
            for status, (steps, undone), deadline_at, same, escrow, decided in product(
                Status, progress(), (AT, AFTER), (True, False), escrows, RESOLUTIONS
            )
            for verified, listed in product(verdicts(steps), listings(status))
        ]
        + [
            settlement_row(
                status,
                set(Step),
                AFTER,
                same_request=same,
                settlement=settlement,
                verdict=VERDICT.decision.value,
                reversed_for={"step": "verify"},
                **reversed_in_part,
                **decided,
                **listings(status)[0],
            )
            for status, same, decided, reversed_in_part in product(Status, (True, False), RESOLUTIONS, PARTS)
        ]
        + [
            settlement_row(
                status,
                steps,
                AFTER,
                same_request=same,
                settlement=settlement,
                escrow=settlement.amount if steps else 0,
                sequence=2,
                **verified,
                **listings(status)[0],
            )
            for status, same, steps in product(Status, (True, False), PREFIXES)
            for verified in verdicts(steps)
        ]
    )
