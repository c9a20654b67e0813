from itertools import islice, product

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Write
from settlement.core.model.status import TRANSITIONS, Status
from tests.unit import vectors
from tests.unit.conditions import alternatives, asked, clauses, status_set_by
from tests.unit.every_row import rows_met_by
from tests.unit.states import account_row

SETTLEMENT_WRITES = vectors.settlement_writes()
OTHERS = {
    name: write
    for name, write in vectors.named_writes().items()
    if write.action == "Put" or keys.is_account(write.parameters["Key"])
}
WRITES = OTHERS | SETTLEMENT_WRITES
NOWHERE = None


def test_the_writes_admit_exactly_the_transitions_of_the_table() -> None:
    admitted = set()
    for write in SETTLEMENT_WRITES.values():
        if target := status_set_by(write):
            sources = {row["status"] for row in filter(asked(write), rows_met_by(write))}
            admitted |= {(source, Status(target)) for source in sources or {NOWHERE}}

    legal = {(source, target) for source, targets in TRANSITIONS.items() for target in targets}
    assert admitted == legal | {(NOWHERE, Status.PROCESSING), (NOWHERE, Status.REJECTED)}


MARKS: list[Row] = [{}, {"limbo_cases": 0}, {"limbo_cases": 1}, {"frozen_at": "then"}, {"closed_at": "then"}]
ACCOUNTS: list[Row] = [
    account_row(account, available, currency, **extra)
    for account, available, currency, extra in product(
        ("alice", "bob"),
        (0, 499, 4771, 4772, 4819, 4820, *(100_000_000 - less for less in (10_000, 9_999, 4772, 4771))),
        ("EUR", "JPY", "USD"),
        MARKS,
    )
]


def put_rows_met_by(write: Write) -> list[Row]:
    """Return rows already put: the write's own, and with a case number of one less and one more."""
    row = dict(write.parameters["Item"])
    return [row, *(row | {"case": row["case"] + more} for more in (-1, 1) if "case" in row)]


@pytest.mark.parametrize("name", WRITES)
def test_every_condition_of_a_write_refuses_some_row(name: str) -> None:
    write = WRITES[name]
    fragments = {clause: asked(write, clause) for clause in clauses(write)}
    met: list[Row | None] = [None, *ACCOUNTS, *(rows_met_by(write) if name in SETTLEMENT_WRITES else ())]
    if write.action == "Put":
        met += put_rows_met_by(write)

    needed: set[str] = set()
    for row in met:
        refusing = list(islice((clause for clause, holds in fragments.items() if not holds(row)), 2))
        if len(refusing) == 1:
            needed.add(refusing[0])
        if needed == fragments.keys():
            break

    assert needed == fragments.keys()


CHOICES = [
    (name, clause) for name, write in WRITES.items() for clause in clauses(write) if alternatives(clause)
]


@pytest.mark.parametrize(("name", "clause"), CHOICES, ids=str)
def test_every_alternative_in_a_condition_admits_some_row(name: str, clause: str) -> None:
    write = WRITES[name]
    admitting = asked(write)
    choices = {each: asked(write, each) for each in alternatives(clause)}

    if write.action == "Put":
        met = [None, *put_rows_met_by(write)]
    else:
        met = [*(ACCOUNTS if keys.is_account(write.parameters["Key"]) else rows_met_by(write))]
    admitted = [row for row in met if admitting(row)]
    sole = [[each for each, holds in choices.items() if holds(row)] for row in admitted]

    assert len(choices) > 1
    assert [[each] for each in choices if [each] not in sole] == []


def test_the_test_finds_the_conditions_with_alternatives() -> None:
    ending_a_review = {
        f"kyc_review.end_review.{variant}" for variant in (*vectors.VERDICTS, "approved.deadline")
    }

    unblocked = {name for name, write in WRITES.items() if "limbo_cases = :none" in str(write.parameters)}

    assert {name for name, _ in CHOICES} == {
        "limbo.await_decision",
        "parts.count.later",
        "parts.count.later.by-name",
        "reversal.reverse_step.hold",
        *ending_a_review,
        *unblocked,
    }
    assert {"balances.debit_payer", "account_orders.withdraw", "account_orders.close"} <= unblocked
