"""An outcome is counted once, by the transaction that brings it about, and not by a replay."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from settlement.adapters import telemetry
from settlement.adapters.dynamodb import Store
from settlement.ledger.transaction import StepTransaction
from settlement.model.errors import StepFenced
from tests.unit import states, vectors
from tests.unit.test_telemetry_of_handlers import Accepting, wire

TRANSACTIONS = {
    vector.name: transaction
    for module in vectors.POSTERS.values()
    for vector in module
    if isinstance(transaction := vector.build(), StepTransaction)
}
OUTCOMES = {
    "steps.fee": "Settled",
    "steps.fee.none": "Settled",
    "compensation.reverse_step.hold.reversed": "Compensated",
    "compensation.reverse_step.hold.skipped": "Compensated",
    "compensation.resolve.complete.release": "Settled",
    "compensation.enter_limbo.fee": "LimboEntered",
    "compensation.enter_limbo.release": "LimboEntered",
    "compensation.enter_limbo.hold": "LimboEntered",
    "compensation.enter_limbo.hold.unblocked": "LimboEntered",
}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(telemetry, "count", names.append)
    return names


class Cancelling(Accepting):
    """A DynamoDB in which the write at `position` meets this row."""

    def __init__(self, position: int, row: dict[str, Any]) -> None:
        self._reasons = [{"Code": "None"}] * position
        self._reasons += [{"Code": "ConditionalCheckFailed", "Item": wire(row)}]

    def transact_write_items(self, **_: Any) -> Any:
        error = {"Code": "TransactionCanceledException", "Message": ""}
        raise ClientError({"Error": error, "CancellationReasons": self._reasons}, "TransactWriteItems")


def store(client: Accepting) -> Store:
    return Store(client, "table", pause=lambda failed_tries: None)


def test_exactly_the_transactions_that_finish_a_settlement_or_enter_limbo_are_counted() -> None:
    assert {
        name: transaction.metric for name, transaction in TRANSACTIONS.items() if transaction.metric
    } == OUTCOMES


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_a_transaction_that_commits_is_counted_by_its_outcome_if_it_has_one(
    name: str, counted: list[str]
) -> None:
    store(Accepting()).commit(TRANSACTIONS[name])

    assert counted == ([OUTCOMES[name]] if name in OUTCOMES else [])


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_replayed_transaction_is_counted_as_a_replay_only(name: str, counted: list[str]) -> None:
    transaction = TRANSACTIONS[name]

    store(Cancelling(0, dict(transaction.entry.parameters["Item"]))).commit(transaction)

    assert counted == ["StepReplayed"]


def test_a_refused_transaction_is_not_counted(counted: list[str]) -> None:
    transaction = TRANSACTIONS["steps.fee"]
    fenced = states.row(status="COMPENSATING", steps={"hold", "verify", "release"})

    with pytest.raises(StepFenced):
        store(Cancelling(1, fenced)).commit(transaction)

    assert counted == []
