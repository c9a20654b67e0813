"""Each condition of each write, tested on a table by changing one attribute at a time.

`RULES` of tests/unit/test_writes.py states when each update commits and how it is refused.
"""

from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.errors import IdempotencyConflict, ProposalRefused
from settlement.core.model.status import REVERSIBLE, Status, Step
from tests.unit.conditions import applied
from tests.unit.every_row import AFTER, AT, BEFORE, MOVED, PREFIXES, RESOLUTIONS, rows_met_by, verdicts
from tests.unit.states import account_row
from tests.unit.test_writes import PUT_BACK, RULES, VECTORS, built, conflict, key_of, told
from tests.unit.vectors import DECIDER, EXECUTION, LISTED, VERDICT, named_writes, slots
from tests.world.ledger import Ledger
from tests.world.saga import CAP, outcome_of

UNCOMMITTED = dict.fromkeys((step.slot for step in Step), None)
CHANGES: list[dict[str, Any]] = [
    *({"status": status} for status in Status),
    {"request_hash": "another"},
    *({**UNCOMMITTED, **slots(steps), **verdicts(steps)[0]} for steps in PREFIXES),
    *(slots((), {step}) for step in REVERSIBLE),
    *({step.reversal_slot: None} for step in REVERSIBLE),
    *({"escrow": escrow} for escrow in (0, 48, 4819, 4820, 4821)),
    *({"deadline_at": deadline} for deadline in (BEFORE, AT, AFTER)),
    {"expired_at": LISTED},
    *({"owner": owner} for owner in (EXECUTION, DECIDER)),
    {"gsi1sk": MOVED},
    {"gsi1pk": keys.LIMBO},
    *({"review": reference} for reference in (VERDICT.reference, "another")),
    {"verdict": "REJECTED"},
    *RESOLUTIONS,
]
"""Attributes tested by conditions, with values on both sides. None removes the attribute."""


def commits(name: str, row: Row) -> bool:
    if name in PUT_BACK:
        return row.get("gsi1sk") == LISTED and row["gsi1pk"] != keys.LIMBO
    rule = RULES[name]
    return is_ours(name, row) and row["status"] is rule.status and rule.and_if(row)


def is_ours(name: str, row: Row) -> bool:
    return RULES[name].any_request or bool(row["request_hash"] == VECTORS[name].arguments[0].request_hash)


def refusal(name: str, row: Row | None) -> str:
    if name in PUT_BACK or RULES[name].any_request:
        return "StepFenced: recover: the settlement has moved on"
    step = RULES[name].step
    if row is None:
        error = "NotReversible" if "on_order" in name else "StepFenced"
        return f"{error}: {step}: the key {key_of(name)} was never claimed"
    return RULES[name].told(step, row) if is_ours(name, row) else conflict(name)


@pytest.mark.parametrize("name", [*RULES, *PUT_BACK])
def test_an_update_is_refused_with_reason_if_one_attribute_differs(ledger: Ledger, name: str) -> None:
    write = built(name)
    admitted = next(row for row in rows_met_by(write) if commits(name, row))
    changed = [
        {attribute: value for attribute, value in (admitted | change).items() if value is not None}
        for change in CHANGES
    ]

    assert told(outcome_of(lambda: ledger.store.transact([write]))) == refusal(name, None)
    assert ledger.rows() == []
    for row in (row for row in changed if not commits(name, row)):
        ledger.put(row)
        assert told(outcome_of(lambda: ledger.store.transact([write]))) == refusal(name, row), row
    assert ledger.rows() == [row]

    ledger.put(admitted)
    ledger.store.transact([write])
    assert ledger.rows() == [applied(write, admitted)]


OWN: dict[str, Row] = {"balances.unblock": {"limbo_cases": 2}}
BALANCES: dict[str, tuple[str, int, dict[str, Row]]] = {
    "balances.debit_payer": (
        "payer",
        4820,
        {
            "InsufficientFunds": {"available": 4819},
            "AccountInLimbo": {"limbo_cases": 1},
            "CurrencyMismatch": {"currency": "USD"},
        },
    ),
    "balances.credit_payee.capped": (
        "payee",
        CAP - 4772,
        {"CapExceeded": {"available": CAP - 4771}, "CurrencyMismatch": {"currency": "USD"}},
    ),
    "balances.credit_payee.uncapped": ("payee", CAP, {"CurrencyMismatch": {"currency": "USD"}}),
    "balances.debit_payee": (
        "payee",
        4772,
        {"InsufficientFunds": {"available": 4771}, "CurrencyMismatch": {"currency": "USD"}},
    ),
    "balances.credit_payer": ("payer", CAP + 1, {"CurrencyMismatch": {"currency": "USD"}}),
    "balances.block": ("stuck party", 0, {}),
    "balances.unblock": ("stuck party", 0, {"CaseNotCounted": {"limbo_cases": 0}}),
}
"""Party of each account write, the lowest or highest balance admitted, and the changes that refuse it."""


@pytest.mark.parametrize("name", BALANCES)
def test_a_balance_moves_within_bounds_or_refuses_naming_the_party(ledger: Ledger, name: str) -> None:
    write = named_writes()[name]
    party, available, refused = BALANCES[name]
    account = write.parameters["Key"]["pk"].removeprefix("ACCOUNT#")
    admitted = account_row(account, available, **OWN.get(name, {}))

    assert told(outcome_of(lambda: ledger.store.transact([write]))).startswith(f"AccountNotFound: {party}: ")
    for error, change in refused.items():
        ledger.put(admitted | change)
        outcome = told(outcome_of(lambda: ledger.store.transact([write])))
        assert outcome.startswith(f"{error}: {party}: ")
        assert ledger.rows() == [admitted | change]

    ledger.put(admitted)
    ledger.store.transact([write])
    assert ledger.rows() == [applied(write, admitted)]


PUTS = {name: write for name, write in named_writes().items() if write.action == "Put"}
OF_SETTLEMENTS = [
    name for name, write in PUTS.items() if {"debit", "request_hash"} <= write.parameters["Item"].keys()
]
"""Entries of settlements; excludes deposits."""

OF_SETTLEMENTS += [name for name in PUTS if name == "writes.reserve[1]"]
"""A payout's reference, whose record is the payout's row."""

REPLACED = [name for name, write in PUTS.items() if write.parameters["Item"]["sk"] == "WAITING"]
REPLACED += ["sweep.fold.again[0]", "proposals.propose.again"]
"""Rows that are replaced: see the tests of LIMBO, of sweeps and of approvals."""


MOVES = [name for name in PUTS if name.startswith("proposals.record.")]


@pytest.mark.parametrize("name", MOVES)
def test_the_evidence_of_a_move_is_put_only_once(ledger: Ledger, name: str) -> None:
    """A replay is detected on the proposal's row."""
    write = named_writes()[name]
    ledger.store.transact([write])

    again = outcome_of(lambda: ledger.store.transact([write]))

    assert isinstance(again, ProposalRefused)
    assert ledger.rows() == [applied(write, None)]


@pytest.mark.parametrize("name", [name for name in PUTS if name not in (*OF_SETTLEMENTS, *REPLACED, *MOVES)])
def test_a_row_is_put_once_and_found_by_later_puts(ledger: Ledger, name: str) -> None:
    write = named_writes()[name]
    ledger.store.transact([write])
    (row,) = ledger.rows()

    again = outcome_of(lambda: ledger.store.transact([write]))

    assert isinstance(again, AlreadyApplied)
    assert ledger.rows() == [row] == [applied(write, None)]


@pytest.mark.parametrize("name", OF_SETTLEMENTS)
def test_an_entry_of_a_settlement_is_put_only_once(ledger: Ledger, name: str) -> None:
    """A replay is detected on the settlement's row: an entry that blocks a due one is a fault."""
    write = named_writes()[name]
    ledger.store.transact([write])
    (row,) = ledger.rows()

    again = outcome_of(lambda: ledger.store.transact([write]))

    assert isinstance(again, IdempotencyConflict)
    assert ledger.rows() == [row] == [applied(write, None)]
