"""Runs one settlement on the in-memory table, and checks its money."""

from hypothesis import strategies as st

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.settlement import Settlement
from settlement.core.model.status import REVERSIBLE, Step
from tests.unit.vectors import CONFIG, SETTLEMENT
from tests.world import ledger
from tests.world.books import assert_conserved
from tests.world.journal import journal
from tests.world.saga import Saga

OPENING = {"alice": 10_000, "bob": 500}
"""Each account's first deposit, made by `Saga.fund` and enough for all amounts."""

SETTLEMENTS = st.integers(1, OPENING["alice"]).flatmap(
    lambda amount: st.builds(
        Settlement,
        key=st.just(SETTLEMENT.key),
        payer=st.just("alice"),
        payee=st.just("bob"),
        amount=st.just(amount),
        currency=st.just("EUR"),
        fee=st.integers(0, amount - 1),
    )
)

LAST = [None, *Step]
"""Each possible last committed step; None before the hold."""

STUCK = [
    (last, step) for last in Step for step in REVERSIBLE if list(Step).index(step) <= list(Step).index(last)
]
"""Pairs of the last committed step and a committed step whose reversal can get stuck."""

UNMOVED = [(last, step) for last in LAST for step in REVERSIBLE if (last, step) not in STUCK]
"""Pairs of the last committed step and a step that has not committed.

Its reversal never runs, but an error may name it.
"""


def fresh(settlement: Settlement = SETTLEMENT) -> Saga:
    return Saga(ledger.in_memory(), settlement, CONFIG)


def reached(last: Step | None, settlement: Settlement = SETTLEMENT) -> Saga:
    """Return a settlement whose steps up to and including `last` have committed."""
    saga = fresh(settlement)
    saga.reach(last)
    return saga


def begun(last: Step | None, settlement: Settlement = SETTLEMENT) -> Saga:
    """Return a settlement whose reversal has begun: by an order if it was SETTLED, else by a failure."""
    saga = fresh(settlement)
    saga.begun(last)
    return saga


def stuck(last: Step | None, step: Step, settlement: Settlement = SETTLEMENT) -> Saga:
    saga = fresh(settlement)
    saga.stuck(step, last)
    return saga


def moved(saga: Saga) -> dict[str, int]:
    """Check that money is conserved. Return each account's change since the deposits, without zeros."""
    rows = saga.ledger.rows()
    changes = assert_conserved(rows)
    del changes["external:EUR"]
    for row in filter(keys.is_account, rows):
        _, account = keys.subject(row)
        changes[account] = row["available"] - OPENING[account]
    return {account: change for account, change in changes.items() if change}


def entries(saga: Saga) -> dict[str, Row]:
    return journal(saga.ledger.rows(), saga.settlement.key)
