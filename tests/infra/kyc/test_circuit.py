"""VerifyKyc's role suffices for the KYC circuit's row."""

from typing import Any

import pytest

from infra.grants import STATES
from infra.table import IMMUTABLE_ATTRIBUTES
from settlement.core.ledger import keys
from settlement.kyc.circuit import Circuit, Thresholds
from settlement.kyc.shared_circuit import CIRCUIT, Lease, SharedCircuit, to_row
from tests.world.ledger import Ledger

THRESHOLDS = Thresholds(failures=3, within_seconds=60, recovery_seconds=30)
ACTIONS = {"get_item": "GetItem", "put_item": "PutItem", "update_item": "UpdateItem"}


class Recorded:
    def __init__(self, client: Any) -> None:
        self._client = client
        self.exceptions = client.exceptions
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, method: str) -> Any:
        def call(**parameters: Any) -> Any:
            self.calls.append((method, parameters))
            return getattr(self._client, method)(**parameters)

        return call


@pytest.fixture
def calls(ledger: Ledger) -> list[tuple[str, dict[str, Any]]]:
    client, now = Recorded(ledger.client), [1_800_000_000]
    circuit = SharedCircuit(client, ledger.table_name, THRESHOLDS, lambda state: None, lambda: now[0])
    circuit.failed(Lease("one"))
    circuit.answered(circuit.admit("two"))
    for name in ("three", "four", "five"):
        circuit.failed(Lease(name))
    for name, end in (("six", circuit.failed), ("seven", circuit.answered)):
        now[0] += THRESHOLDS.recovery_seconds
        lease = circuit.admit(name)
        assert lease.probe
        end(lease)
    return client.calls


def test_verify_kyc_may_take_each_action_of_its_circuit(calls: list[tuple[str, dict[str, Any]]]) -> None:
    row = keys.circuit(CIRCUIT)
    done = {ACTIONS[method] for method, _ in calls}
    touched = {(given.get("Key") or given["Item"])["pk"]["S"] for _, given in calls}

    assert touched == {row["pk"]}
    assert done == {action for action, rows in STATES["VerifyKyc"].rows.items() if row["pk"] in rows}


def test_every_write_of_the_circuit_requires_the_version_it_read(
    calls: list[tuple[str, dict[str, Any]]],
) -> None:
    writes = [given for method, given in calls if method == "put_item"]

    assert len(writes) >= 8
    for given in writes:
        version = int(given["Item"]["version"]["N"])
        if version == 1:
            assert given["ConditionExpression"] == "attribute_not_exists(version)"
        else:
            assert given["ConditionExpression"] == "version = :version"
            assert given["ExpressionAttributeValues"] == {":version": {"N": str(version - 1)}}


def test_the_circuit_has_no_attribute_that_every_role_is_denied() -> None:
    """The denial is for entries, but IAM cannot tell rows apart: a shared name would break the circuit."""
    whole = Circuit(failed=("one",), failed_at=1, opened_at=1, probed_at=1, probe="two")

    assert not (to_row(whole).keys() - keys.circuit(CIRCUIT).keys()) & set(IMMUTABLE_ATTRIBUTES)
