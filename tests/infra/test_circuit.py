"""The circuit around the KYC provider is a row of the table: VerifyKyc's role must suffice for it."""

import re
from typing import Any

import pytest

from infra.grants import GRANTS
from infra.table import IMMUTABLE_ATTRIBUTES
from settlement.adapters.kyc_circuit import CIRCUIT, SharedCircuit, Thresholds, guarded
from settlement.ledger import keys
from settlement.model.errors import KycUnavailable
from settlement.model.settlement import Settlement
from settlement.model.verdict import Verdict
from tests.world.ledger import Ledger
from tests.world.provider import APPROVED

THRESHOLDS = Thresholds(failures=2, within_seconds=60, recovery_seconds=30)
ACTIONS = {"get_item": "GetItem", "put_item": "PutItem", "update_item": "UpdateItem"}


class Recorded:
    """A client that records its calls: the method and the parameters."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, method: str) -> Any:
        def call(**parameters: Any) -> Any:
            self.calls.append((method, parameters))
            return getattr(self._client, method)(**parameters)

        return call


@pytest.fixture
def calls(ledger: Ledger, settlement: Settlement) -> list[tuple[str, dict[str, Any]]]:
    """Take the circuit through each of its changes, and a failure followed by a success; return its calls."""
    client = Recorded(ledger.client)
    circuit = SharedCircuit(client, ledger.table_name, THRESHOLDS, lambda state: None)
    answers: list[Verdict | None] = [None, APPROVED, None, None]

    def answer(settlement: Settlement, api_key: str) -> Verdict:
        found = answers.pop(0)
        if found is None:
            raise KycUnavailable("kyc: as the test says")
        return found

    ask = guarded(answer, circuit, THRESHOLDS, lambda state: None)
    for failing in (True, False, True, True):
        if failing:
            with pytest.raises(KycUnavailable):
                ask(settlement, "api-key")
        else:
            ask(settlement, "api-key")
    row = ledger.row(keys.circuit(CIRCUIT))
    assert row
    opened_at = int(row["opened_at"])
    assert circuit.try_acquire_half_open(CIRCUIT, "one", opened_at)
    circuit.save_reopen(CIRCUIT, opened_at + 1)
    assert circuit.try_acquire_half_open(CIRCUIT, "two", opened_at + 1)
    circuit.save_closed(CIRCUIT)
    return client.calls


def test_verify_kyc_may_take_each_action_of_its_circuit(calls: list[tuple[str, dict[str, Any]]]) -> None:
    row = keys.circuit(CIRCUIT)
    done = {ACTIONS[method] for method, _ in calls}
    touched = {(given.get("Key") or given["Item"])["pk"]["S"] for _, given in calls}

    assert touched == {row["pk"]}
    assert done == {action for action, rows in GRANTS["VerifyKyc"].items() if row["pk"] in rows}


def test_the_circuit_updates_no_attribute_that_every_role_is_denied(
    calls: list[tuple[str, dict[str, Any]]],
) -> None:
    """The denial is for entries, but IAM cannot tell rows apart: a shared name would break the circuit."""
    touched = {
        parameters.get("ExpressionAttributeNames", {}).get(word, word)
        for method, parameters in calls
        if method == "update_item"
        for expression in ("UpdateExpression", "ConditionExpression")
        for word in re.findall(r"(?<![:\w])#?[a-z]\w*", parameters.get(expression, ""))
    }

    assert {"state", "failure_count", "failed_at", "opened_at"} <= touched
    assert not touched & set(IMMUTABLE_ATTRIBUTES)
