"""The circuit around the KYC provider is a row of the table: VerifyKyc's role must suffice for it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from infra.grants import GRANTS
from infra.table import IMMUTABLE_ATTRIBUTES
from settlement.adapters.kyc_circuit import CIRCUIT, SharedCircuit, Thresholds, guarded
from settlement.ledger import keys
from settlement.model.errors import KycUnavailable
from settlement.model.settlement import Settlement
from settlement.model.verdict import Verdict
from tests.conftest import Ledger
from tests.support.kyc import APPROVED

THRESHOLDS = Thresholds(failures=2, within_seconds=60, recovery_seconds=30)


@dataclass
class Watched:
    """A circuit on a table, with a record of its calls."""

    ledger: Ledger
    settlement: Settlement
    calls: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.circuit = SharedCircuit(
            self.ledger.client, self.ledger.table_name, THRESHOLDS, lambda state: None
        )
        self.answer: Verdict | Exception = APPROVED
        self._ask = guarded(self._answer, self.circuit, THRESHOLDS, lambda state: None)

    def ask(self) -> None:
        self._ask(self.settlement, "api-key")

    def fails(self) -> None:
        self.answer = KycUnavailable("kyc: as the test says")
        with pytest.raises(KycUnavailable):
            self.ask()

    @property
    def row(self) -> keys.Row:
        found = self.ledger.row(keys.circuit(CIRCUIT))
        assert found
        return found

    def heard(self, params: Any, model: Any, **_: Any) -> None:
        self.calls.append((f"dynamodb:{model.name}", dict(params)))

    def _answer(self, settlement: Settlement, api_key: str) -> Verdict:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def watched(ledger: Ledger, settlement: Settlement) -> Iterator[Watched]:
    watched = Watched(ledger, settlement)
    events = ledger.client.meta.events
    events.register("before-parameter-build.dynamodb", watched.heard, unique_id="watched")
    yield watched
    events.unregister("before-parameter-build.dynamodb", unique_id="watched")


def go_round(watched: Watched) -> None:
    """Take the circuit through each of its changes, and through a failure followed by a success."""
    watched.fails()
    watched.answer = APPROVED
    watched.ask()
    watched.fails()
    watched.fails()
    opened_at = int(watched.row["opened_at"])
    assert watched.circuit.try_acquire_half_open(CIRCUIT, "one", opened_at)
    watched.circuit.save_reopen(CIRCUIT, opened_at + 1)
    assert watched.circuit.try_acquire_half_open(CIRCUIT, "two", opened_at + 1)
    watched.circuit.save_closed(CIRCUIT)


def test_verify_kyc_may_take_each_action_of_its_circuit(watched: Watched) -> None:
    go_round(watched)

    done = {action for action, _ in watched.calls}
    assert {"dynamodb:PutItem", "dynamodb:UpdateItem"} <= done
    assert done <= set(GRANTS["VerifyKyc"])


def test_the_circuit_updates_no_attribute_that_every_role_is_denied(watched: Watched) -> None:
    """The denial is for entries, but IAM cannot tell rows apart: a shared name would break the circuit."""
    go_round(watched)

    updates = [parameters for action, parameters in watched.calls if action == "dynamodb:UpdateItem"]
    touched = {
        parameters.get("ExpressionAttributeNames", {}).get(word, word)
        for parameters in updates
        for expression in ("UpdateExpression", "ConditionExpression")
        for word in re.findall(r"(?<![:\w])#?[a-z]\w*", parameters.get(expression, ""))
    }
    assert {"state", "failure_count", "failed_at", "opened_at"} <= touched
    assert not touched & set(IMMUTABLE_ATTRIBUTES)


def test_the_circuit_writes_to_its_own_row_only(watched: Watched) -> None:
    go_round(watched)

    assert [(row["pk"], row["sk"]) for row in watched.ledger.rows()] == [("CIRCUIT", "kyc")]


def test_an_open_circuit_does_not_expire(
    watched: Watched,
) -> None:
    """Were its row to expire in a quiet hour, the circuit would close silently, and the alarm stay."""
    watched.fails()
    watched.fails()

    assert watched.row["state"] == "OPEN"
    assert "expires_at" not in watched.row


def test_a_half_open_circuit_does_not_expire_either(watched: Watched) -> None:
    """The prober may die; then the row alone knows that the circuit is not closed."""
    watched.fails()
    watched.fails()

    assert watched.circuit.try_acquire_half_open(CIRCUIT, "one", int(watched.row["opened_at"]))

    assert watched.row["state"] == "HALF_OPEN"
    assert "expires_at" not in watched.row
