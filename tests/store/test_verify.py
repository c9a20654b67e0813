"""The verdict: evidence beside the settlement, which moves nothing."""

from settlement.model.status import Step
from tests.store.saga import ALICE, BOB, CLAIMED, ENTRIES, Saga


def test_a_verdict_is_recorded_and_moves_no_money(saga: Saga) -> None:
    saga.before(Step.VERIFY)

    entry = saga.commit(Step.VERIFY)

    assert entry == ENTRIES[Step.VERIFY]
    assert saga.ledger.rows() == [
        ALICE | {"available": 5180},
        BOB,
        CLAIMED | {"escrow": 4820, "steps": {"hold", "verify"}, "verdict": "APPROVED"},
        ENTRIES[Step.HOLD],
        ENTRIES[Step.VERIFY],
    ]


def test_a_verdict_does_not_ask_for_either_account(saga: Saga) -> None:
    saga.before(Step.VERIFY)
    for account in ("alice", "bob"):
        saga.ledger.client.delete_item(
            TableName=saga.ledger.table_name,
            Key={"pk": {"S": f"ACCOUNT#{account}"}, "sk": {"S": "BALANCE"}},
        )

    saga.commit(Step.VERIFY)

    assert saga.row()["steps"] == {"hold", "verify"}
