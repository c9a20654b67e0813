"""`settle kyc status`: the state of the circuit around the provider, after any history."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import base
from aws_lambda_powertools.utilities.circuit_breaker.persistence import base as persistence
from aws_lambda_powertools.utilities.circuit_breaker.persistence import dynamodb

from settle.queries.circuit import status
from settlement.adapters import kyc_circuit
from settlement.ledger import keys
from settlement.model.errors import KycCircuitOpen, KycUnavailable
from settlement.model.settlement import Settlement
from settlement.model.verdict import Verdict
from tests.conftest import NOW
from tests.settle.conftest import Ended
from tests.settle.desk import Desk
from tests.support.kyc import APPROVED

# What a circuit writes is tested on both engines; here it is how that is told.
pytestmark = pytest.mark.parametrize("ledger", ["moto"], indirect=True)

THRESHOLDS = kyc_circuit.Thresholds(failures=3, within_seconds=60, recovery_seconds=30)
Command = Callable[..., Ended]


@dataclass
class Circuit:
    """One function environment with the real circuit, and a clock that goes when it is told to."""

    desk: Desk
    settlement: Settlement
    seconds: int = 0
    fails: bool = False
    meanwhile: Callable[[], object] = lambda: None
    announced: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        shared = kyc_circuit.SharedCircuit(
            self.desk.ledger.client, self.desk.ledger.table_name, THRESHOLDS, self.announced.append
        )
        self._guarded = kyc_circuit.guarded(self._ask, shared, THRESHOLDS, lambda state: None)

    def now(self) -> datetime:
        return datetime.fromtimestamp(int(NOW.timestamp()) + self.seconds, UTC)

    def call(self, *, fails: bool, after: int = 1) -> None:
        """Ask the provider, `after` seconds later than the time before."""
        self.seconds, self.fails = self.seconds + after, fails
        try:
            self._guarded(self.settlement, "an-api-key")
        except (KycUnavailable, KycCircuitOpen):
            assert fails

    def open(self) -> None:
        for _ in range(THRESHOLDS.failures):
            self.call(fails=True)

    def _ask(self, settlement: Settlement, api_key: str) -> Verdict:
        self.meanwhile()
        if self.fails:
            raise KycUnavailable("kyc: as the test wants it")
        return APPROVED


@pytest.fixture
def circuit(desk: Desk, settlement: Settlement, monkeypatch: pytest.MonkeyPatch) -> Circuit:
    circuit = Circuit(desk, settlement)
    clock = SimpleNamespace(datetime=SimpleNamespace(now=circuit.now))
    for module in (base, persistence, dynamodb):
        monkeypatch.setattr(module, "dt", clock)
    return circuit


def at(seconds: int) -> str:
    return f"2026-11-20T12:00:{seconds:02}Z" if seconds < 60 else f"2026-11-20T12:01:{seconds - 60:02}Z"


def told(state: str, **fields: Any) -> dict[str, Any]:
    nothing = {"since": None, "failures": 0, "last_failure": None, "last_probe": None}
    return {"circuit": "kyc", "state": state, **nothing, **fields}


def never_failed(circuit: Circuit) -> None:
    circuit.call(fails=False)


def failed_twice(circuit: Circuit) -> None:
    circuit.call(fails=True)
    circuit.call(fails=True)


def failed_and_succeeded(circuit: Circuit) -> None:
    failed_twice(circuit)
    circuit.call(fails=False)


def opened(circuit: Circuit) -> None:
    circuit.open()


def opened_and_refused(circuit: Circuit) -> None:
    circuit.open()
    circuit.call(fails=True)


def probed_in_vain(circuit: Circuit) -> None:
    circuit.open()
    circuit.call(fails=True, after=37)


def closed_again(circuit: Circuit) -> None:
    circuit.open()
    circuit.call(fails=False, after=37)


def closed_again_and_failed(circuit: Circuit) -> None:
    closed_again(circuit)
    circuit.call(fails=True, after=6)


def opened_again(circuit: Circuit) -> None:
    closed_again(circuit)
    for after in (6, 1, 1):
        circuit.call(fails=True, after=after)


HISTORIES: list[tuple[Callable[[Circuit], None], dict[str, Any]]] = [
    (never_failed, told("CLOSED")),
    (failed_twice, told("CLOSED", failures=2, last_failure=at(2))),
    (failed_and_succeeded, told("CLOSED", failures=0, last_failure=at(2))),
    (opened, told("OPEN", since=at(3), failures=3, last_failure=at(3))),
    (opened_and_refused, told("OPEN", since=at(3), failures=3, last_failure=at(3))),
    (probed_in_vain, told("OPEN", since=at(40), last_failure=at(40), last_probe=at(40))),
    (closed_again, told("CLOSED", since=at(40), last_probe=at(40))),
    (
        closed_again_and_failed,
        told("CLOSED", since=at(40), failures=1, last_failure=at(46), last_probe=at(40)),
    ),
    (opened_again, told("OPEN", since=at(48), failures=3, last_failure=at(48), last_probe=at(40))),
]
histories = pytest.mark.parametrize(("drive", "expected"), HISTORIES)


@histories
def test_the_status_is_what_the_calls_have_made_of_the_circuit(
    circuit: Circuit, drive: Callable[[Circuit], None], expected: dict[str, Any]
) -> None:
    drive(circuit)

    assert status(circuit.desk.stack) == expected


def test_during_a_probe_the_circuit_is_half_open_since_then(circuit: Circuit) -> None:
    seen: list[dict[str, Any]] = []
    circuit.open()
    circuit.meanwhile = lambda: seen.append(status(circuit.desk.stack))

    circuit.call(fails=False, after=37)

    assert seen == [told("HALF_OPEN", since=at(40), last_failure=at(3), last_probe=at(40))]
    assert circuit.announced == ["OPEN", "HALF_OPEN", "CLOSED"]


@histories
def test_the_command_prints_the_status_as_one_json_value(
    circuit: Circuit, command: Command, drive: Callable[[Circuit], None], expected: dict[str, Any]
) -> None:
    drive(circuit)

    code, out, err = command("kyc", "status", "--json")

    assert (code, err, len(out.splitlines())) == (0, "", 1)
    assert json.loads(out) == expected


@histories
def test_the_command_tells_a_person_the_same_a_field_a_line(
    circuit: Circuit, command: Command, drive: Callable[[Circuit], None], expected: dict[str, Any]
) -> None:
    drive(circuit)

    code, out, err = command("kyc", "status")

    shown = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert shown == [[name, *([] if value is None else [str(value)])] for name, value in expected.items()]


def test_asking_how_the_circuit_stands_leaves_it_as_it_stands(circuit: Circuit, command: Command) -> None:
    circuit.open()
    before = circuit.desk.ledger.row(keys.circuit("kyc"))

    command("kyc", "status")

    assert circuit.desk.ledger.row(keys.circuit("kyc")) == before
