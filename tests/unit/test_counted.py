"""An outcome is counted by the transaction that brings it about, once, and by none that finds it there."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from settlement import telemetry
from settlement.errors import StepFenced
from settlement.store import Store
from settlement.writes import Posting
from tests.unit import vectors
from tests.unit.test_telemetry_of_handlers import ROW, Accepting, wire

POSTINGS = {
    vector.name: posting
    for module in vectors.POSTERS.values()
    for vector in module
    if isinstance(posting := vector.build(), Posting)
}
OUTCOMES = {
    "steps.fee": "Settled",
    "steps.fee.none": "Settled",
    "compensation.undo.hold.reversed": "Compensated",
    "compensation.undo.hold.skipped": "Compensated",
    "compensation.resolve.complete.release": "Settled",
    "compensation.enter_limbo.fee": "LimboEntered",
    "compensation.enter_limbo.release": "LimboEntered",
    "compensation.enter_limbo.hold": "LimboEntered",
    "compensation.enter_limbo.hold.unbarred": "LimboEntered",
}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(telemetry, "count", names.append)
    return names


class Cancelling(Accepting):
    """A DynamoDB where the write at `position` meets this row."""

    def __init__(self, position: int, row: dict[str, Any]) -> None:
        self._reasons = [{"Code": "None"}] * position
        self._reasons += [{"Code": "ConditionalCheckFailed", "Item": wire(row)}]

    def transact_write_items(self, **_: Any) -> Any:
        error = {"Code": "TransactionCanceledException", "Message": ""}
        raise ClientError({"Error": error, "CancellationReasons": self._reasons}, "TransactWriteItems")


def store(client: Accepting) -> Store:
    return Store(client, "table", pause=lambda failed_tries: None)


def test_exactly_the_transactions_that_end_a_settlement_or_get_it_stuck_are_counted() -> None:
    assert {name: posting.counted for name, posting in POSTINGS.items() if posting.counted} == OUTCOMES


@pytest.mark.parametrize("name", POSTINGS)
def test_what_commits_is_counted_by_its_outcome_if_it_has_one(name: str, counted: list[str]) -> None:
    store(Accepting()).post(POSTINGS[name])

    assert counted == ([OUTCOMES[name]] if name in OUTCOMES else [])


@pytest.mark.parametrize("name", OUTCOMES)
def test_what_had_committed_before_is_a_replay_and_no_second_outcome(name: str, counted: list[str]) -> None:
    posting = POSTINGS[name]

    store(Cancelling(0, dict(posting.entry.parameters["Item"]))).post(posting)

    assert counted == ["StepReplayed"]


def test_what_is_refused_has_no_outcome(counted: list[str]) -> None:
    posting = POSTINGS["steps.fee"]
    fenced = ROW | {"request_hash": vectors.SETTLEMENT.request_hash, "status": "COMPENSATING"}

    with pytest.raises(StepFenced):
        store(Cancelling(1, fenced)).post(posting)

    assert counted == []
