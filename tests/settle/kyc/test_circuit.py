import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from settle.door import Answer
from settle.kyc.circuit import status
from settlement.core.ledger import keys
from settlement.core.model.errors import KycCircuitOpen, KycUnavailable
from settlement.core.model.settlement import Settlement
from settlement.core.model.verdict import Verdict
from settlement.http.circuit import Thresholds
from settlement.http.shared_circuit import SharedCircuit
from settlement.kyc import circuit as kyc_circuit
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.world.environment import NOW
from tests.world.provider import APPROVED

THRESHOLDS = Thresholds(failures=3, within_seconds=60, recovery_seconds=30)


@dataclass
class Circuit:
    """One function environment with the real circuit and a manual clock."""

    desk: Desk
    settlement: Settlement
    seconds: int = 0
    fails: bool = False
    meanwhile: Callable[[], object] = lambda: None
    announced: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        shared = SharedCircuit(
            kyc_circuit.CIRCUIT,
            self.desk.ledger.client,
            self.desk.ledger.table_name,
            THRESHOLDS,
            self.announced.append,
            self.now,
        )
        self._guarded = kyc_circuit.guarded(self._ask, shared, lambda state: None)

    def now(self) -> int:
        return int(NOW.timestamp()) + self.seconds

    def call(self, *, fails: bool, after: int = 1) -> None:
        """Ask the provider, `after` seconds after the previous call."""
        self.seconds, self.fails = self.seconds + after, fails
        try:
            self._guarded(replace(self.settlement, key=f"order-{self.seconds}"), "an-api-key")
        except (KycUnavailable, KycCircuitOpen):
            assert fails

    def _ask(self, settlement: Settlement, api_key: str) -> Verdict:
        self.meanwhile()
        if self.fails:
            raise KycUnavailable("kyc: as the test wants it")
        return APPROVED


@pytest.fixture
def circuit(desk: Desk, settlement: Settlement) -> Circuit:
    return Circuit(desk, settlement)


def at(seconds: int) -> str:
    return f"2026-11-20T12:00:{seconds:02}Z" if seconds < 60 else f"2026-11-20T12:01:{seconds - 60:02}Z"


def told(state: str, **fields: Any) -> dict[str, Any]:
    nothing = {"since": None, "failures": 0, "last_failure": None, "last_probe": None}
    return {"circuit": "kyc", "state": state, **nothing, **fields}


FAIL, SUCCEED = {"fails": True}, {"fails": False}
OPEN: list[dict[str, Any]] = [FAIL] * THRESHOLDS.failures
CLOSED_AGAIN = [*OPEN, {"fails": False, "after": 37}]
HISTORIES: list[tuple[list[dict[str, Any]], dict[str, Any]]] = [
    ([SUCCEED], told("CLOSED")),
    ([FAIL] * 2, told("CLOSED", failures=2, last_failure=at(2))),
    (OPEN, told("OPEN", since=at(3), failures=3, last_failure=at(3))),
    (
        [*OPEN, {"fails": True, "after": 37}],
        told("OPEN", since=at(40), failures=3, last_failure=at(40), last_probe=at(40)),
    ),
    (CLOSED_AGAIN, told("CLOSED", since=at(40), last_failure=at(3), last_probe=at(40))),
    (
        [*CLOSED_AGAIN, {"fails": True, "after": 6}],
        told("CLOSED", since=at(40), failures=1, last_failure=at(46), last_probe=at(40)),
    ),
]


def test_the_circuit_is_shown_half_open_during_a_probe(circuit: Circuit) -> None:
    seen: list[dict[str, Any]] = []
    for _ in range(THRESHOLDS.failures):
        circuit.call(fails=True)
    circuit.meanwhile = lambda: seen.append(status(circuit.desk.stack))

    circuit.call(fails=False, after=37)

    assert seen == [told("HALF_OPEN", since=at(40), failures=3, last_failure=at(3), last_probe=at(40))]
    assert circuit.announced == ["OPEN", "HALF_OPEN", "CLOSED"]


@pytest.mark.parametrize(("calls", "expected"), HISTORIES)
def test_the_command_shows_the_circuit_and_leaves_it_unchanged(
    circuit: Circuit, command: Command, calls: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    for call in calls:
        circuit.call(**call)
    before = circuit.desk.ledger.row(keys.circuit("kyc"))

    code, out, err = command("kyc", "status", "--json")
    text = command("kyc", "status")

    assert (code, err, json.loads(out), len(out.splitlines())) == (0, "", expected, 1)
    shown = [line.split() for line in text[1].splitlines()]
    assert shown == [[name, *([] if value is None else [str(value)])] for name, value in expected.items()]
    assert (text[0], text[2]) == (0, "")
    assert circuit.desk.ledger.row(keys.circuit("kyc")) == before


@pytest.mark.parametrize(
    ("state", "probe", "told"),
    [
        ("CLOSED", "health", ""),
        ("OPEN", "health", "the provider is not healthy yet"),
        (
            "OPEN",
            "payment",
            "the provider reports no health: the next payment that has not failed lately is the probe",
        ),
        ("HALF_OPEN", "health", "a probe is under way: look again with `settle kyc status`"),
    ],
)
def test_kyc_probe_gives_an_order_and_shows_the_circuit(
    desk: Desk, command: Command, state: str, probe: str, told: str
) -> None:
    desk.door.answering = Answer(200, {"circuit": "kyc", "state": state, "probe": probe})

    code, out, err = command("kyc", "probe", "--json")

    assert (code, json.loads(out)["state"], err.strip()) == (0, "CLOSED", told)
    assert desk.door.given[-1] == ("probe", {})


def test_a_probe_without_an_answer_may_be_repeated(desk: Desk, command: Command) -> None:
    desk.door.answering = Answer(503, {"error": "StartUnavailable", "message": "probe: VerifyKyc: no answer"})

    code, _, err = command("kyc", "probe")

    assert code == 1
    assert "probe: not carried out, or not known to be: StartUnavailable" in err
    assert "repeat it" in err
