"""Function environments that share a circuit: each has a circuit object and a thread of its own."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools.utilities.circuit_breaker import CircuitState

from settlement.adapters import kyc_circuit
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model.errors import KycUnavailable
from settlement.model.settlement import Settlement
from tests.kyc.raw import WAIT_SECONDS_MAX
from tests.world.ledger import Ledger
from tests.world.provider import Provider

DOWN = KycUnavailable("kyc: the provider is down")
THRESHOLDS = kyc_circuit.Thresholds(failures=3, within_seconds=60, recovery_seconds=30)
PAYMENT = Settlement(key="order-2026-000101", payer="alice", payee="bob", amount=4820, currency="EUR", fee=48)


class Clock:
    """A stand-in for the module `datetime` in Powertools, which reads the clock itself."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000
        self.datetime = self

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)


class Watched:
    """A DynamoDB client that records its calls, and fails those in `failing`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.called: list[str] = []
        self.failing: dict[str, Exception] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not name.endswith("_item"):
            return found

        def call(**parameters: Any) -> Any:
            self.called.append(name)
            if name in self.failing:
                raise self.failing[name].with_traceback(None)  # or it grows with each raise
            return found(**parameters)

        return call


class Environment:
    """One function environment, with the states that its circuit `announced` and `measured`."""

    def __init__(
        self, ledger: Ledger, provider: Any = None, thresholds: kyc_circuit.Thresholds = THRESHOLDS
    ) -> None:
        self.client, self.provider = Watched(ledger.client), provider or Provider()
        self.announced: list[CircuitState] = []
        self.measured: list[CircuitState] = []
        circuit = kyc_circuit.SharedCircuit(self.client, ledger.table_name, thresholds, self.announced.append)
        self._guarded = kyc_circuit.guarded(
            lambda settlement, _: self.provider.ask(settlement), circuit, thresholds, self.measured.append
        )
        self._thread = ThreadPoolExecutor(1)

    def start(self, barrier: threading.Barrier | None = None) -> Future[Any]:
        def ask() -> Any:
            if barrier:
                barrier.wait()
            return self._guarded(PAYMENT, "secret")

        return self._thread.submit(ask)

    def ask(self, answer: Any = None) -> Any:
        """Ask, after setting the provider's answer if one is given; return the answer or the error."""
        if answer is not None:
            self.provider.answer = answer
        if isinstance(self.provider.answer, Exception):
            self.provider.answer.with_traceback(None)  # or it grows with each raise, and each log of it
        return outcome(self.start())

    def cut_off(self, outage: Exception, *calls: str) -> None:
        """Let the calls to DynamoDB fail; by default all that touch the circuit's row."""
        self.client.failing = dict.fromkeys(calls or ("get_item", "put_item", "update_item"), outage)

    @property
    def refused(self) -> list[CircuitState]:
        """The circuit's state at each call that it kept from the provider."""
        return [state for state in self.measured if state is not CircuitState.CLOSED]

    @property
    def calls(self) -> int:
        """The number of its calls that reached the provider."""
        return len(self.provider.asked)


@dataclass
class Shared:
    """A circuit's table, and its clock."""

    ledger: Ledger
    clock: Clock = field(default_factory=Clock)

    def environment(self) -> Environment:
        return Environment(self.ledger)

    def opened(self) -> Environment:
        """Return an environment that has just opened the circuit."""
        opener = self.environment()
        for _ in range(THRESHOLDS.failures):
            opener.ask(DOWN)
        assert self.state == "OPEN"
        return opener

    def wait(self, seconds: int) -> None:
        self.clock.seconds += seconds

    @property
    def row(self) -> Row | None:
        return self.ledger.row(keys.circuit(kyc_circuit.CIRCUIT))

    @property
    def state(self) -> str:
        return str((self.row or {})["state"])

    def has(self, **attributes: Any) -> bool:
        """Whether the circuit's row has these attributes, among others."""
        return (self.row or {}).items() >= attributes.items()


def outcome(future: Future[Any]) -> Any:
    """Return the answer of a call, or its error."""
    error = future.exception(timeout=WAIT_SECONDS_MAX)
    return error if error else future.result()
