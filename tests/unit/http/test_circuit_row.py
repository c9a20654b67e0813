"""Tests that a circuit writes only its own row, so the LIMBO proof need not cover it."""

from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.http.circuit import BANK, NAMES, Circuit, State, Thresholds, payment
from settlement.http.shared_circuit import Named, SharedCircuit, from_row, to_row
from tests.world.memory_dynamodb import MemoryDynamoDb

THRESHOLDS = Thresholds(failures=2, within_seconds=60, recovery_seconds=30)


@pytest.mark.parametrize("name", NAMES)
def test_every_change_of_the_circuit_is_written_to_its_row(name: str) -> None:
    table, seconds = MemoryDynamoDb(), [1_800_000_000]
    announced: list[State] = []
    circuit = SharedCircuit(
        Named(name=name, metric="ClockAhead"),
        table,
        "in-memory",
        THRESHOLDS,
        announced.append,
        lambda: seconds[0],
    )

    for number, answered in enumerate((False, True, False, False, False)):
        lease = circuit.admit(payment(f"order-{number}"))
        (circuit.answered if answered else circuit.failed)(lease)
        seconds[0] += 40 if announced else 10
    circuit.answered(circuit.admit(payment("order-9")))

    assert announced == [State.OPEN, State.HALF_OPEN, State.OPEN, State.HALF_OPEN, State.CLOSED]
    row = keys.circuit(name)
    assert table.items.keys() == {(row["pk"], row["sk"])}


@pytest.mark.parametrize(
    "circuit",
    [
        Circuit(),
        Circuit(version=7, state=State.OPEN, count=3, failed=("a", "b"), failed_at=5, opened_at=6),
        Circuit(version=8, state=State.HALF_OPEN, opened_at=6, probed_at=7, probe="me"),
    ],
)
def test_a_circuit_reads_back_from_its_row_unchanged(circuit: Circuit) -> None:
    assert from_row(to_row(BANK, circuit)) == circuit


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, Circuit()),
        (
            {"state": "OPEN", "failure_count": 5, "opened_at": 9},
            Circuit(state=State.OPEN, count=5, opened_at=9),
        ),
        ({"state": "AJAR", "version": 3}, Circuit(version=3)),
    ],
    ids=["none", "of an earlier release", "of a state that there is not"],
)
def test_a_circuits_row_of_another_release_is_read_with_defaults(
    row: dict[str, Any], expected: Circuit
) -> None:
    assert from_row(row) == expected


def test_no_settlement_shares_the_circuits_row() -> None:
    partition = keys.circuit(BANK)["pk"]

    assert partition != keys.settlement(BANK)["pk"]
    assert not partition.startswith(keys.settlement("")["pk"])
