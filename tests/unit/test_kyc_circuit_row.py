"""The circuit breaker writes its own row only, so the proof that LIMBO is absorbing need not cover it."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest

from settlement.adapters.kyc_circuit import CIRCUIT, SharedCircuit, Thresholds
from settlement.adapters.wire import from_wire
from settlement.ledger import keys

NOW = 1_763_640_000
ROW = {
    **{name: {"S": value} for name, value in keys.circuit(CIRCUIT).items()},
    "state": {"S": "CLOSED"},
    "failure_count": {"N": "1"},
}


class Recording:
    """A DynamoDB client that accepts every write, and records its row."""

    def __init__(self) -> None:
        self.exceptions = boto3.client("dynamodb").exceptions
        self.keys: list[keys.Row] = []

    def update_item(self, **parameters: Any) -> Any:
        self.keys.append(from_wire(parameters["Key"]))
        return {"Attributes": ROW}

    def put_item(self, **parameters: Any) -> Any:
        item = from_wire(parameters["Item"])
        self.keys.append({"pk": item["pk"], "sk": item["sk"]})
        return {}

    delete_item = update_item


def written_by(calls: Callable[[SharedCircuit], Any]) -> list[keys.Row]:
    """Return the keys of the rows that the circuit writes."""
    recording, thresholds = Recording(), Thresholds(failures=1, within_seconds=60, recovery_seconds=30)
    calls(SharedCircuit(recording, "table", thresholds, lambda state: None))
    return recording.keys


def fail_and_succeed(circuit: SharedCircuit) -> None:
    circuit.save_open(CIRCUIT, 1, NOW)
    circuit.succeeded()


@pytest.mark.parametrize(
    ("calls", "writes"),
    [
        pytest.param(lambda circuit: circuit.succeeded(), 0, id="no failure to forget"),
        pytest.param(lambda circuit: circuit.save_open(CIRCUIT, 1, NOW), 2, id="count and open"),
        pytest.param(fail_and_succeed, 3, id="forget"),
        pytest.param(lambda circuit: circuit.try_acquire_half_open(CIRCUIT, "me", NOW), 1, id="probe"),
        pytest.param(lambda circuit: circuit.save_reopen(CIRCUIT, NOW), 1, id="reopen"),
        pytest.param(lambda circuit: circuit.save_closed(CIRCUIT), 1, id="close"),
    ],
)
def test_every_change_of_the_circuit_is_written_to_its_row(
    calls: Callable[[SharedCircuit], Any], writes: int
) -> None:
    assert written_by(calls) == [keys.circuit(CIRCUIT)] * writes


def test_no_settlement_shares_the_circuits_row() -> None:
    partition = keys.circuit(CIRCUIT)["pk"]

    assert partition != keys.settlement(CIRCUIT)["pk"]
    assert not partition.startswith(keys.settlement("")["pk"])
