"""Each condition of each update, tested on a table by changing one attribute at a time.

`RULES` of tests/unit/test_writes.py states when each update commits and how it is refused. Rows that are put
once: tests/unit/test_entries.py; accounts: test_balances.py.
"""

from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.model.status import REVERSIBLE, Status, Step
from tests.unit.conditions import applied
from tests.unit.every_row import AFTER, AT, BEFORE, MOVED, PREFIXES, RESOLUTIONS, rows_met_by, verdicts
from tests.unit.test_writes import PUT_BACK, RULES, built, commits, refusal, told
from tests.unit.vectors import DECIDER, EXECUTION, LISTED, VERDICT, slots
from tests.world.ledger import Ledger
from tests.world.saga import outcome_of

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
"""Attributes that conditions test, with passing and failing values. None removes the attribute."""


@pytest.mark.parametrize("name", [*RULES, *PUT_BACK])
def test_an_update_is_refused_if_any_needed_attribute_differs(ledger: Ledger, name: str) -> None:
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
