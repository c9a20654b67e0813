"""The circuit breaker writes its own row and no other: what keeps LIMBO absorbing need not ask it."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest

from settlement import rows
from settlement.breaker import CIRCUIT, SharedCircuit, Thresholds
from settlement.store import from_wire

NOW = 1_763_640_000
ROW = {
    **{name: {"S": value} for name, value in rows.circuit_key(CIRCUIT).items()},
    "state": {"S": "CLOSED"},
    "failure_count": {"N": "1"},
}


class Recording:
    """A DynamoDB client that takes every write, and remembers which rows they were."""

    def __init__(self) -> None:
        self.exceptions = boto3.client("dynamodb").exceptions
        self.keys: list[rows.Row] = []

    def update_item(self, **parameters: Any) -> Any:
        self.keys.append(from_wire(parameters["Key"]))
        return {"Attributes": ROW}

    def put_item(self, **parameters: Any) -> Any:
        item = from_wire(parameters["Item"])
        self.keys.append({"pk": item["pk"], "sk": item["sk"]})
        return {}

    delete_item = update_item


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
def circuit(recording: Recording) -> SharedCircuit:
    thresholds = Thresholds(failures=1, within_seconds=60, recovery_seconds=30)
    return SharedCircuit(recording, "table", thresholds, lambda state: None)


def fail_and_succeed(circuit: SharedCircuit) -> None:
    circuit.save_open(CIRCUIT, 1, NOW)
    circuit.succeeded()


@pytest.mark.parametrize(
    ("write", "calls"),
    [
        pytest.param(lambda circuit: circuit.save_open(CIRCUIT, 1, NOW), 2, id="count and open"),
        pytest.param(fail_and_succeed, 3, id="forget"),
        pytest.param(lambda circuit: circuit.try_acquire_half_open(CIRCUIT, "me", NOW), 1, id="probe"),
        pytest.param(lambda circuit: circuit.save_reopen(CIRCUIT, NOW), 1, id="reopen"),
        pytest.param(lambda circuit: circuit.save_closed(CIRCUIT), 1, id="close"),
    ],
)
def test_whatever_happens_to_the_circuit_is_written_to_its_row(
    write: Callable[[SharedCircuit], Any], calls: int, circuit: SharedCircuit, recording: Recording
) -> None:
    write(circuit)

    assert recording.keys == [rows.circuit_key(CIRCUIT)] * calls


def test_a_circuit_that_has_not_failed_here_is_not_written(
    circuit: SharedCircuit, recording: Recording
) -> None:
    circuit.succeeded()

    assert recording.keys == []


def test_no_settlement_is_ever_where_the_circuit_is() -> None:
    partition = rows.circuit_key(CIRCUIT)["pk"]

    assert partition != rows.settlement_key(CIRCUIT)["pk"]
    assert not partition.startswith(rows.settlement_key("")["pk"])
