"""Function environments that share a circuit, each with its own circuit object and thread."""

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import KycUnavailable
from settlement.core.model.settlement import Settlement
from settlement.http.circuit import State, Thresholds
from settlement.http.shared_circuit import SharedCircuit
from settlement.kyc import circuit as kyc_circuit
from tests.kyc.raw import WAIT_SECONDS_MAX
from tests.world.ledger import Ledger
from tests.world.provider import Provider

DOWN = KycUnavailable("kyc: the provider is down")
THRESHOLDS = Thresholds(failures=3, within_seconds=60, recovery_seconds=30)
PAYMENT = Settlement(key="order-2026-000101", payer="alice", payee="bob", amount=4820, currency="EUR", fee=48)


NUMBERS = itertools.count(1)


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_800_000_000

    def now(self) -> int:
        return self.seconds


class Watched:
    """DynamoDB client that records calls, fails those in `failing`, and runs each action in `after`."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.called: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.after: dict[str, Callable[[], Any]] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not name.endswith("_item"):
            return found

        def call(**parameters: Any) -> Any:
            self.called.append(name)
            if name in self.failing:
                raise self.failing[name].with_traceback(None)  # or it grows with each raise
            answer = found(**parameters)
            self.after.pop(name, lambda: None)()
            return answer

        return call


class Environment:
    """One function environment; records the states its circuit `announced` and `measured`."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Callable[[], int],
        provider: Any = None,
        thresholds: Thresholds = THRESHOLDS,
    ) -> None:
        self.client, self.provider = Watched(ledger.client), provider or Provider()
        self.announced: list[State] = []
        self.measured: list[State] = []
        self.circuit = SharedCircuit(
            kyc_circuit.CIRCUIT, self.client, ledger.table_name, thresholds, self._announce, clock
        )
        self._guarded = kyc_circuit.guarded(self.provider.ask, self.circuit, self.measured.append)
        self._thread = ThreadPoolExecutor(1)

    def _announce(self, state: State) -> None:
        self.announced.append(state)
        self.client.after.pop("announce", lambda: None)()

    def start(self, barrier: threading.Barrier | None = None, key: str | None = None) -> Future[Any]:
        """Ask about this key's payment, or about a new payment."""

        def ask() -> Any:
            if barrier:
                barrier.wait()
            return self._guarded(replace(PAYMENT, key=key or f"order-{next(NUMBERS)}"))

        return self._thread.submit(ask)

    def ask(self, answer: Any = None, key: str | None = None) -> Any:
        """Set the provider's answer if given, ask about a payment, and return the answer or error."""
        if answer is not None:
            self.provider.answer = answer
        if isinstance(self.provider.answer, Exception):
            self.provider.answer.with_traceback(None)  # or it grows with each raise, and each log of it
        return outcome(self.start(key=key))

    def cut_off(self, outage: Exception, *calls: str) -> None:
        """Fail DynamoDB calls, by default all that touch the circuit's row."""
        self.client.failing = dict.fromkeys(calls or ("get_item", "put_item"), outage)

    @property
    def refused(self) -> list[State]:
        return [state for state in self.measured if state is not State.CLOSED]

    @property
    def calls(self) -> int:
        return len(self.provider.asked)


@dataclass
class Shared:
    ledger: Ledger
    clock: Clock = field(default_factory=Clock)

    def environment(self, ahead: int = 0) -> Environment:
        """Return a new environment, its clock `ahead` seconds fast (or slow)."""
        return Environment(self.ledger, lambda: self.clock.now() + ahead)

    def opened(self) -> Environment:
        opener = self.environment()
        for _ in range(THRESHOLDS.failures):
            opener.ask(DOWN)
        assert self.state == "OPEN"
        return opener

    def wait(self, seconds: int) -> None:
        self.clock.seconds += seconds

    @property
    def row(self) -> Row | None:
        return self.ledger.row(keys.circuit(kyc_circuit.CIRCUIT.name))

    @property
    def state(self) -> str:
        return str((self.row or {})["state"])

    def has(self, **attributes: Any) -> bool:
        return (self.row or {}).items() >= attributes.items()


def outcome(future: Future[Any]) -> Any:
    error = future.exception(timeout=WAIT_SECONDS_MAX)
    return error if error else future.result()
