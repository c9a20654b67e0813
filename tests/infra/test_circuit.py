"""The circuit around the KYC provider lives in the settlement table: VerifyKyc's role must suffice for it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from infra.settlement_stack import GRANTS
from infra.table import IMMUTABLE_ATTRIBUTES
from settlement import rows
from settlement.breaker import CIRCUIT, SharedCircuit, Thresholds, guarded
from settlement.errors import KycUnavailable
from settlement.request import Settlement
from settlement.verdict import Verdict
from tests.conftest import Ledger
from tests.support.kyc import APPROVED

THRESHOLDS = Thresholds(failures=2, within_seconds=60, recovery_seconds=30)


@dataclass
class Watched:
    """A circuit on a table, with every call that it has made there."""

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
    def row(self) -> rows.Row:
        found = self.ledger.row(rows.circuit_key(CIRCUIT))
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
    """Every change that a circuit goes through, and a failure that is followed by a success."""
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


def test_verify_kyc_may_do_to_the_table_what_its_circuit_does(watched: Watched) -> None:
    go_round(watched)

    done = {action for action, _ in watched.calls}
    assert {"dynamodb:PutItem", "dynamodb:UpdateItem"} <= done
    assert done <= set(GRANTS["VerifyKyc"])


def test_the_circuit_updates_nothing_that_every_role_is_denied(watched: Watched) -> None:
    """The denial is for entries, but IAM cannot tell one row from another: a shared name would break it."""
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


def test_an_open_circuit_does_not_expire_while_its_alarm_waits_to_hear_that_it_is_closed(
    watched: Watched,
) -> None:
    """Dropped by the table's TTL in a quiet hour, it is closed and nobody says so: the alarm stays."""
    watched.fails()
    watched.fails()

    assert watched.row["state"] == "OPEN"
    assert "expires_at" not in watched.row


def test_a_circuit_that_is_tried_again_does_not_expire_either(watched: Watched) -> None:
    """Whoever probes may die of it; then the row is all that says that the circuit is not closed."""
    watched.fails()
    watched.fails()

    assert watched.circuit.try_acquire_half_open(CIRCUIT, "one", int(watched.row["opened_at"]))

    assert watched.row["state"] == "HALF_OPEN"
    assert "expires_at" not in watched.row
