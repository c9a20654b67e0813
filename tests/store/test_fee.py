"""The fee: the rest of the escrow, and the end of the settlement in the same transaction."""

from settlement.model.status import Step
from settlement.policy import outcome
from tests.store.saga import ALICE, BOB, ENTRIES, FINISHED, LATER, POSTED_AT, Saga

STEPS = {"hold", "verify", "release", "fee"}


def test_the_fee_empties_escrow_and_settles_in_one_transaction(saga: Saga) -> None:
    saga.before(Step.FEE)

    entry = saga.commit(Step.FEE)

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

    entry = free.commit(Step.FEE)

    assert (entry["amount"], entry["credit"]) == (0, "fees:EUR")
    assert free.row()["status"] == "SETTLED"
    assert free.row()["escrow"] == 0
    assert free.ledger.rows()[1] == BOB | {"available": 5320}


def test_the_outcome_of_the_fee_step_is_that_of_the_row_without_reading_it(saga: Saga) -> None:
    saga.before(Step.FEE)

    entry = saga.commit(Step.FEE, LATER)

    reported = outcome.of_settled(
        saga.settlement, saga.config, claimed_at=POSTED_AT, finished_at=entry["posted_at"]
    )
    assert reported == outcome.of_state(saga.state(), saga.config, replayed=False)
