"""The fee: what is left in escrow, and the end of the settlement in the same transaction."""

from settlement import rows, steps
from settlement.status import Step
from tests.store.saga import ALICE, BOB, ENTRIES, FINISHED, LATER, POSTED_AT, Saga

STEPS = {"hold", "verify", "release", "fee"}


def test_the_fee_empties_escrow_and_settles_in_one_transaction(saga: Saga) -> None:
    saga.before(Step.FEE)

    entry = saga.post(Step.FEE)

    assert entry == ENTRIES[Step.FEE]
    assert saga.ledger.rows() == [
        ALICE | {"available": 5180},
        BOB | {"available": 5272},
        FINISHED | {"steps": STEPS, "verdict": "APPROVED", "finished_at": POSTED_AT},
        ENTRIES[Step.FEE],
        ENTRIES[Step.HOLD],
        ENTRIES[Step.RELEASE],
        ENTRIES[Step.VERIFY],
    ]


def test_a_settlement_without_a_fee_settles_all_the_same(saga: Saga) -> None:
    free = saga.asking(fee=0)
    free.after(Step.RELEASE)

    entry = free.post(Step.FEE)

    assert (entry["amount"], entry["credit"]) == (0, "fees:EUR")
    assert free.row()["status"] == "SETTLED"
    assert free.row()["escrow"] == 0
    assert free.ledger.rows()[1] == BOB | {"available": 5320}


def test_the_settled_row_is_what_the_fee_step_says_without_reading_it(saga: Saga) -> None:
    saga.before(Step.FEE)

    entry = saga.post(Step.FEE, LATER)

    told = steps.settled(saga.settlement, POSTED_AT, entry)
    stored = saga.ledger.row(rows.settlement_key(saga.settlement.key))
    assert stored is not None
    assert {name: stored[name] for name in told} == told
