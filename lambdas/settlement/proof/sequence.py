"""A settlement's event number, compared with the events that its row shows.

Some events leave no trace, such as the end of a review, or a claim in the hold's millisecond. So only bounds
of the number are known.
"""

from collections.abc import Iterator

from settlement.core.ledger.keys import Row
from settlement.core.model.orders import Decision
from settlement.core.model.status import Status
from settlement.proof.facts import SettlementFacts


def sequence_faults(row: Row, facts: SettlementFacts) -> Iterator[str]:
    least, most = _bounds(row, facts)
    if not least <= row["sequence"] <= most:
        expected = least if least == most else f"{least} to {most}"
        yield f"its sequence is {row['sequence']}, but it has made {expected} events"


def _bounds(row: Row, facts: SettlementFacts) -> tuple[int, int]:
    is_tombstone = facts.status == Status.REJECTED and row["claimed_at"] == row["deadline_at"]
    certain = (
        facts.verify_at is not None,
        facts.release_at is not None,
        facts.fee_at is not None,
        facts.status == Status.REJECTED and not is_tombstone,
        "reversed_for" in row,
        facts.status == Status.LIMBO,
        facts.status == Status.COMPENSATED,
        "review" in row,
        facts.hold_at is not None and facts.hold_at != row["claimed_at"],  # claimed by an earlier write
    )
    covered = sum(at is not None for at in (facts.fee_reversed_at, facts.release_reversed_at))
    covered -= facts.resolution == Decision.WRITE_OFF  # the latest decision: it made one event
    counted = 1 + sum(certain) + 2 * facts.resolutions + facts.parts + facts.waits + covered
    may_be_less = min(covered, max(facts.resolutions - 1, 0))
    may_be_more = (facts.hold_at == row["claimed_at"]) + (
        facts.verdict is not None and "in_flight_since" in row and "review" not in row
    )
    return counted - may_be_less, counted + may_be_more
