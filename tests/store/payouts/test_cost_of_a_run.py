"""A run of FollowPayouts reads only due payouts, however many others wait."""

import pytest

from benchmarks.payouts import DUE, fill, run_of
from tests.world.ledger import Ledger

pytestmark = pytest.mark.parametrize("engine", ["server"])

WAITING = (100, 3_000)
QUERIES = 13
"""Queries of a run: eight payout partitions, lines, refused lines twice, cases twice."""


def test_a_run_costs_the_same_with_many_waiting_payouts(ledger: Ledger) -> None:
    costs = []
    for first, last in zip((0, *WAITING), WAITING, strict=False):
        fill(ledger, range(DUE + first, DUE + last))
        idle, busy = run_of(ledger, 0), run_of(ledger, DUE)
        costs.append((idle.calls, idle.read_units, idle.write_units, busy.calls, busy.read_units))

    assert costs[0] == costs[1]
    calls, read_units, write_units, busy_calls, _ = costs[0]
    assert (calls["Query"], write_units) == (QUERIES, 0)
    assert read_units <= QUERIES / 2 + 1  # and the circuit's row
    assert busy_calls["TransactWriteItems"] == DUE
