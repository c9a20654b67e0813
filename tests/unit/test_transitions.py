"""The writes against the table of statuses: each condition asked about every row there is."""

import pytest

from settlement.rows import Row
from settlement.status import TRANSITIONS, Status
from settlement.writes import Write
from tests.unit import vectors
from tests.unit.conditions import admits, alternatives, clauses, holds, status_set_by
from tests.unit.every_row import rows_met_by
from tests.unit.table import applied
from tests.unit.vectors import SETTLEMENT

WRITES = vectors.named_writes()
SETTLEMENT_WRITES = vectors.settlement_writes()
LEADING = {name: write for name, write in SETTLEMENT_WRITES.items() if status_set_by(write)}
"""The writes that set a status."""

NOWHERE: set[str] = set()
"""Where a row is made: there is none yet."""

UNASKED: dict[str, set[str]] = {
    "recovery.take_over.processing": {"owner", "recoveries", "gsi1sk"},
    "recovery.take_over.processing.released": {"owner", "recoveries", "gsi1sk"},
    "recovery.take_over.processing.overdue": {"owner", "recoveries", "gsi1sk", "given_up_at"},
    "recovery.take_over.processing.review_over": {"owner", "recoveries", "gsi1sk", "given_up_at"},
    "recovery.take_over.compensating": {"owner", "recoveries", "gsi1sk"},
    "recovery.take_over.limbo": {"owner", "recoveries", "recover_at"},
    "recovery.postpone": {"gsi1sk"},
    "recovery.set_aside": {"gsi1sk"},
}
"""The writes that no request stands behind, as they start from what the index lists, and what they change."""

DRAWN: dict[str, tuple[set[str], str]] = {
    "items.claim": (NOWHERE, "PROCESSING"),
    "items.claim.deadline": (NOWHERE, "PROCESSING"),
    "items.reject": ({"PROCESSING"}, "REJECTED"),
    "items.advance.fee": ({"PROCESSING"}, "SETTLED"),
    "steps.fee[1]": ({"PROCESSING"}, "SETTLED"),
    "steps.fee.none[1]": ({"PROCESSING"}, "SETTLED"),
    "reversals.refuse_unclaimed": (NOWHERE, "REJECTED"),
    "reversals.begin": ({"PROCESSING"}, "COMPENSATING"),
    "reversals.begin.owned": ({"PROCESSING"}, "COMPENSATING"),
    "reversals.reopen.settled": ({"SETTLED"}, "COMPENSATING"),
    "reversals.reopen.processing": ({"PROCESSING"}, "COMPENSATING"),
    "reversals.undo.hold": ({"COMPENSATING"}, "COMPENSATED"),
    "reversals.conclude": ({"COMPENSATING"}, "COMPENSATED"),
    "limbo.enter.fee": ({"COMPENSATING"}, "LIMBO"),
    "limbo.enter.fee.done": ({"COMPENSATING"}, "LIMBO"),
    "limbo.enter.release": ({"COMPENSATING"}, "LIMBO"),
    "limbo.enter.hold": ({"COMPENSATING"}, "LIMBO"),
    "limbo.leave.retry.release": ({"LIMBO"}, "COMPENSATING"),
    "limbo.leave.retry.hold": ({"LIMBO"}, "COMPENSATING"),
    "limbo.leave.write-off.fee": ({"LIMBO"}, "COMPENSATING"),
    "limbo.leave.write-off.release": ({"LIMBO"}, "COMPENSATING"),
    "limbo.leave.complete.fee": ({"LIMBO"}, "SETTLED"),
    "limbo.leave.complete.release": ({"LIMBO"}, "SETTLED"),
    "compensation.requested.settled[1]": ({"SETTLED"}, "COMPENSATING"),
    "compensation.requested.processing[1]": ({"PROCESSING"}, "COMPENSATING"),
    "compensation.undo.hold.reversed[1]": ({"COMPENSATING"}, "COMPENSATED"),
    "compensation.undo.hold.skipped[1]": ({"COMPENSATING"}, "COMPENSATED"),
    "compensation.enter_limbo.fee[1]": ({"COMPENSATING"}, "LIMBO"),
    "compensation.enter_limbo.release[1]": ({"COMPENSATING"}, "LIMBO"),
    "compensation.enter_limbo.hold[1]": ({"COMPENSATING"}, "LIMBO"),
    "compensation.enter_limbo.hold.unbarred[1]": ({"COMPENSATING"}, "LIMBO"),
    "compensation.resolve.retry.release[1]": ({"LIMBO"}, "COMPENSATING"),
    "compensation.resolve.retry.hold.unbarred[1]": ({"LIMBO"}, "COMPENSATING"),
    "compensation.resolve.write-off.fee[1]": ({"LIMBO"}, "COMPENSATING"),
    "compensation.resolve.write-off.release[1]": ({"LIMBO"}, "COMPENSATING"),
    "compensation.resolve.complete.release[1]": ({"LIMBO"}, "SETTLED"),
}
"""From where to where each of them leads."""


def admitted_by(write: Write) -> set[Status]:
    return {row["status"] for row in rows_met_by(write) if admits(write, row)}


def test_each_write_that_sets_a_status_leads_where_it_was_drawn() -> None:
    """Exactly these: a builder whose status is not found here would pass the tests below unseen."""
    assert {name: (admitted_by(write), status_set_by(write)) for name, write in LEADING.items()} == DRAWN


@pytest.mark.parametrize("target", Status)
def test_the_writes_that_set_a_status_admit_exactly_the_transitions_of_the_table(target: Status) -> None:
    admitted = [admitted_by(write) for write in LEADING.values() if status_set_by(write) == target]

    assert admitted
    assert set().union(*admitted) == {status for status in Status if target in TRANSITIONS[status]}


@pytest.mark.parametrize("name", LEADING)
def test_a_write_that_makes_a_row_meets_none_and_any_other_write_needs_one(name: str) -> None:
    assert admits(LEADING[name], None) == (DRAWN[name][0] == NOWHERE)


PUT_BACK = ["recovery.postpone", "recovery.set_aside"]
"""The writes that only move what is in flight within the index."""


@pytest.mark.parametrize("name", sorted(SETTLEMENT_WRITES.keys() - LEADING.keys() - set(PUT_BACK)))
def test_a_write_that_leaves_the_status_alone_admits_one_status_only(name: str) -> None:
    assert len(admitted_by(SETTLEMENT_WRITES[name])) == 1
    assert not admits(SETTLEMENT_WRITES[name], None)


@pytest.mark.parametrize("name", PUT_BACK)
def test_what_is_put_back_in_the_queue_is_in_flight_and_never_in_limbo_whatever_its_status(name: str) -> None:
    """A status that nobody knows is a reason to put it back. LIMBO's own time is since when it is there."""
    write = SETTLEMENT_WRITES[name]

    assert admitted_by(write) == {Status.PROCESSING, Status.COMPENSATING}
    assert not admits(write, None)
    (row, *_) = (row for row in rows_met_by(write) if admits(write, row))
    assert admits(write, row | {"status": "unheard of"})
    assert not admits(write, row | {"gsi1pk": "LIMBO"})


@pytest.mark.parametrize("name", sorted(SETTLEMENT_WRITES.keys() - UNASKED.keys()))
def test_no_write_admits_the_row_of_another_request(name: str) -> None:
    write = SETTLEMENT_WRITES[name]
    strangers = [row for row in rows_met_by(write) if row["request_hash"] == "another"]

    assert strangers
    assert not [row for row in strangers if admits(write, row)]


@pytest.mark.parametrize("name", sorted(UNASKED))
def test_what_nobody_has_asked_for_knows_the_row_by_itself_and_adds_no_content(name: str) -> None:
    """Its key comes from the index, and what is to be driven on from the row that is read there."""
    write = SETTLEMENT_WRITES[name]
    met = [row for row in rows_met_by(write) if admits(write, row)]

    assert {row["request_hash"] for row in met} == {SETTLEMENT.request_hash, "another"}
    for row in met:
        changed = {
            attribute for attribute, value in applied(write, row).items() if row.get(attribute) != value
        }
        assert changed == UNASKED[name]


ACCOUNTS: list[Row] = [
    {"pk": f"ACCOUNT#{account}", "sk": "BALANCE", "available": available, "currency": currency, **extra}
    for account in ("alice", "bob")
    for available in (0, 4771, 4772, 4819, 4820, 100_000_000 - 4772, 100_000_000 - 4771)
    for currency in ("EUR", "JPY", "USD")
    for extra in ({}, {"limbo_keys": {"order-2026-000001"}})
]
DEMANDS = [(name, clause) for name, write in WRITES.items() for clause in clauses(write)]


@pytest.mark.parametrize(("name", "clause"), DEMANDS, ids=str)
def test_no_write_demands_what_makes_no_difference(name: str, clause: str) -> None:
    """For each fragment there is a row that this one alone keeps out."""
    write = WRITES[name]
    others = [each for each in clauses(write) if each != clause]
    met: list[Row | None] = [None, *ACCOUNTS, *(rows_met_by(write) if name in SETTLEMENT_WRITES else ())]
    if write.action == "Put":
        met.append(dict(write.parameters["Item"]))

    assert any(
        not holds(clause, write, row) and all(holds(other, write, row) for other in others) for row in met
    )


CHOICES = [(name, clause, each) for name, clause in DEMANDS for each in alternatives(clause)]


@pytest.mark.parametrize(("name", "clause", "alternative"), CHOICES, ids=str)
def test_no_write_is_content_with_what_makes_no_difference(name: str, clause: str, alternative: str) -> None:
    """For each of several that will do there is a row that this one alone lets in."""
    write = WRITES[name]
    others = [each for each in clauses(write) if each != clause]
    rest = [each for each in alternatives(clause) if each != alternative]

    assert rest
    assert any(
        holds(alternative, write, row)
        and not any(holds(each, write, row) for each in rest)
        and all(holds(other, write, row) for other in others)
        for row in rows_met_by(write)
    )


def test_choices_are_found() -> None:
    """Were a fragment with two sides not seen as one, neither side would be asked about."""
    assert {name for name, _, _ in CHOICES} == {
        *(f"reviews.decide.{how}" for how in (*vectors.VERDICTS, "approved.deadline")),
        *(f"steps.verdict_received.{how}[2]" for how in vectors.VERDICTS),
    }
