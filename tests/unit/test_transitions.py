"""The writes against the table of transitions: each condition on every row."""

import pytest

from settlement.ledger.keys import Row
from settlement.ledger.transaction import Write
from settlement.model.status import TRANSITIONS, Status
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
"""The status before a row is created."""

WITHOUT_REQUEST: dict[str, set[str]] = {
    "recovery.take_over.processing": {"owner", "owner_epoch", "gsi1sk"},
    "recovery.take_over.processing.released": {"owner", "owner_epoch", "gsi1sk"},
    "recovery.take_over.processing.overdue": {"owner", "owner_epoch", "gsi1sk", "expired_at"},
    "recovery.take_over.processing.review_over": {"owner", "owner_epoch", "gsi1sk", "expired_at"},
    "recovery.take_over.compensating": {"owner", "owner_epoch", "gsi1sk"},
    "recovery.take_over.limbo": {"owner", "owner_epoch", "recover_at"},
    "recovery.postpone": {"gsi1sk"},
    "recovery.defer_unprocessable": {"gsi1sk"},
    "takeover.take_over.compensating": {"owner", "owner_epoch", "gsi1sk"},
    "takeover.take_over.processing.overdue": {"owner", "owner_epoch", "gsi1sk", "expired_at"},
    "takeover.look_again": {"gsi1sk"},
}
"""The writes without a request, as they start from the index, and the attributes that they change."""

EXPECTED: dict[str, tuple[set[str], str]] = {
    "forward.claim": (NOWHERE, "PROCESSING"),
    "forward.claim.deadline": (NOWHERE, "PROCESSING"),
    "forward.reject": ({"PROCESSING"}, "REJECTED"),
    "forward.advance.fee": ({"PROCESSING"}, "SETTLED"),
    "steps.fee[1]": ({"PROCESSING"}, "SETTLED"),
    "steps.fee.none[1]": ({"PROCESSING"}, "SETTLED"),
    "reversal.tombstone": (NOWHERE, "REJECTED"),
    "reversal.begin": ({"PROCESSING"}, "COMPENSATING"),
    "reversal.begin.owned": ({"PROCESSING"}, "COMPENSATING"),
    "reversal.begin_on_order.settled": ({"SETTLED"}, "COMPENSATING"),
    "reversal.begin_on_order.processing": ({"PROCESSING"}, "COMPENSATING"),
    "reversal.reverse_step.hold": ({"COMPENSATING"}, "COMPENSATED"),
    "reversal.finish_unheld": ({"COMPENSATING"}, "COMPENSATED"),
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
    "compensation.reverse_on_order.settled[1]": ({"SETTLED"}, "COMPENSATING"),
    "compensation.reverse_on_order.processing[1]": ({"PROCESSING"}, "COMPENSATING"),
    "compensation.reverse_step.hold.reversed[1]": ({"COMPENSATING"}, "COMPENSATED"),
    "compensation.reverse_step.hold.skipped[1]": ({"COMPENSATING"}, "COMPENSATED"),
    "compensation.enter_limbo.fee[1]": ({"COMPENSATING"}, "LIMBO"),
    "compensation.enter_limbo.release[1]": ({"COMPENSATING"}, "LIMBO"),
    "compensation.enter_limbo.hold[1]": ({"COMPENSATING"}, "LIMBO"),
    "compensation.enter_limbo.hold.unblocked[1]": ({"COMPENSATING"}, "LIMBO"),
    "compensation.resolve.retry.release[1]": ({"LIMBO"}, "COMPENSATING"),
    "compensation.resolve.retry.hold.unblocked[1]": ({"LIMBO"}, "COMPENSATING"),
    "compensation.resolve.write-off.fee[1]": ({"LIMBO"}, "COMPENSATING"),
    "compensation.resolve.write-off.release[1]": ({"LIMBO"}, "COMPENSATING"),
    "compensation.resolve.complete.release[1]": ({"LIMBO"}, "SETTLED"),
}
"""The statuses from which each of them leads, and the status to which it leads."""


def admitted_by(write: Write) -> set[Status]:
    return {row["status"] for row in rows_met_by(write) if admits(write, row)}


def test_each_write_that_sets_a_status_leads_as_expected() -> None:
    """Exactly these: the tests below would miss a builder that is not listed here."""
    assert {name: (admitted_by(write), status_set_by(write)) for name, write in LEADING.items()} == EXPECTED


@pytest.mark.parametrize("target", Status)
def test_the_writes_that_set_a_status_admit_exactly_the_transitions_of_the_table(target: Status) -> None:
    admitted = [admitted_by(write) for write in LEADING.values() if status_set_by(write) == target]

    assert admitted
    assert set().union(*admitted) == {status for status in Status if target in TRANSITIONS[status]}


@pytest.mark.parametrize("name", LEADING)
def test_a_write_that_creates_a_row_needs_its_absence_and_any_other_write_its_presence(name: str) -> None:
    assert admits(LEADING[name], None) == (EXPECTED[name][0] == NOWHERE)


PUT_BACK = ["recovery.postpone", "recovery.defer_unprocessable", "takeover.look_again"]
"""The writes that only move a settlement in flight within the index."""


@pytest.mark.parametrize("name", sorted(SETTLEMENT_WRITES.keys() - LEADING.keys() - set(PUT_BACK)))
def test_a_write_that_leaves_the_status_alone_admits_one_status_only(name: str) -> None:
    assert len(admitted_by(SETTLEMENT_WRITES[name])) == 1
    assert not admits(SETTLEMENT_WRITES[name], None)


@pytest.mark.parametrize("name", PUT_BACK)
def test_a_settlement_that_is_put_back_is_in_flight_of_any_status_but_never_in_limbo(name: str) -> None:
    """An unknown status is a reason to put it back. In LIMBO the sort key is the start of the case."""
    write = SETTLEMENT_WRITES[name]

    assert admitted_by(write) == {Status.PROCESSING, Status.COMPENSATING}
    assert not admits(write, None)
    (row, *_) = (row for row in rows_met_by(write) if admits(write, row))
    assert admits(write, row | {"status": "unknown"})
    assert not admits(write, row | {"gsi1pk": "LIMBO"})


@pytest.mark.parametrize("name", sorted(SETTLEMENT_WRITES.keys() - WITHOUT_REQUEST.keys()))
def test_no_write_admits_the_row_of_another_request(name: str) -> None:
    write = SETTLEMENT_WRITES[name]
    others_rows = [row for row in rows_met_by(write) if row["request_hash"] == "another"]

    assert others_rows
    assert not [row for row in others_rows if admits(write, row)]


@pytest.mark.parametrize("name", sorted(WITHOUT_REQUEST))
def test_a_write_without_a_request_takes_the_row_as_it_is_and_adds_no_content(name: str) -> None:
    """Its key comes from the index, and the settlement from the row."""
    write = SETTLEMENT_WRITES[name]
    met = [row for row in rows_met_by(write) if admits(write, row)]

    assert {row["request_hash"] for row in met} == {SETTLEMENT.request_hash, "another"}
    for row in met:
        changed = {
            attribute for attribute, value in applied(write, row).items() if row.get(attribute) != value
        }
        assert changed == WITHOUT_REQUEST[name]


ACCOUNTS: list[Row] = [
    {"pk": f"ACCOUNT#{account}", "sk": "BALANCE", "available": available, "currency": currency, **extra}
    for account in ("alice", "bob")
    for available in (0, 4771, 4772, 4819, 4820, 100_000_000 - 4772, 100_000_000 - 4771)
    for currency in ("EUR", "JPY", "USD")
    for extra in ({}, {"limbo_keys": {"order-2026-000001"}})
]
DEMANDS = [(name, clause) for name, write in WRITES.items() for clause in clauses(write)]


@pytest.mark.parametrize(("name", "clause"), DEMANDS, ids=str)
def test_no_write_has_a_fragment_without_an_effect(name: str, clause: str) -> None:
    """For each fragment there is a row that only this one refuses."""
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
def test_no_write_has_an_alternative_without_an_effect(name: str, clause: str, alternative: str) -> None:
    """For each alternative there is a row that only this one admits."""
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
    """Otherwise the test above would examine no alternative."""
    assert {name for name, _, _ in CHOICES} == {
        *(f"kyc_review.end_review.{variant}" for variant in (*vectors.VERDICTS, "approved.deadline")),
        *(f"steps.record_webhook_verdict.{variant}[2]" for variant in vectors.VERDICTS),
    }
