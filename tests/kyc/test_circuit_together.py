import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from settlement.core.model.settlement import Settlement
from settlement.http.circuit import State, Thresholds
from settlement.http.shared_circuit import CACHE_SECONDS
from tests.kyc.environments import DOWN, Environment, Shared, outcome
from tests.kyc.raw import WAIT_SECONDS_MAX
from tests.world.provider import APPROVED

COUNT = 16
THRESHOLDS = Thresholds(failures=5, within_seconds=60, recovery_seconds=30)


@dataclass
class Together:
    """The environments, and one provider that counts calls and answers once `allowed` is set."""

    shared: Shared
    answer: Any = DOWN
    asked: list[str] = field(default_factory=list)
    allowed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        ledger, clock = self.shared.ledger, self.shared.clock.now
        self.environments = [Environment(ledger, clock, self, THRESHOLDS) for _ in range(COUNT)]
        self.allowed.set()

    def ask(self, settlement: Settlement) -> Any:
        self.asked.append(settlement.key)
        assert self.allowed.wait(WAIT_SECONDS_MAX)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def all_at_once(self, skipped: int = 0) -> list[Any]:
        asking = self.environments[skipped:]
        barrier = threading.Barrier(len(asking), timeout=WAIT_SECONDS_MAX)
        return [outcome(future) for future in [environment.start(barrier) for environment in asking]]

    @contextmanager
    def held_until(self, condition: Callable[[], bool]) -> Iterator[None]:
        """Hold all answers until the condition holds; release them after a timeout to fail the test."""

        def hold() -> None:
            fails_at = time.monotonic() + WAIT_SECONDS_MAX / 2
            while not condition() and time.monotonic() < fails_at:
                threading.Event().wait(0.01)
            self.allowed.set()

        self.allowed.clear()
        waiting = threading.Thread(target=hold)
        waiting.start()
        yield
        waiting.join()

    @property
    def announced(self) -> list[State]:
        return [state for environment in self.environments for state in environment.announced]

    @property
    def refused(self) -> int:
        return sum(len(environment.refused) for environment in self.environments)


@pytest.fixture
def together(shared: Shared) -> Together:
    return Together(shared)


def test_only_one_of_many_failing_environments_announces_the_opening(together: Together) -> None:
    with together.held_until(lambda: len(together.asked) == COUNT):
        assert together.all_at_once() == [DOWN] * COUNT

    assert len(together.asked) == COUNT
    assert together.announced == [State.OPEN]
    assert together.shared.state == "OPEN"


def test_each_environment_makes_at_most_one_call_beyond_the_threshold(together: Together) -> None:
    for _ in range(5):
        together.all_at_once()

    assert THRESHOLDS.failures <= len(together.asked) <= THRESHOLDS.failures + COUNT - 1


def test_failures_that_come_together_are_all_counted(together: Together) -> None:
    together.all_at_once(skipped=COUNT - THRESHOLDS.failures + 1)

    assert together.shared.has(state="CLOSED", failure_count=THRESHOLDS.failures - 1)


@pytest.mark.parametrize("answer", [APPROVED, DOWN], ids=["healthy", "down"])
@pytest.mark.parametrize("died", [0, 1], ids=["the first", "its successor"])
def test_only_one_environment_probes_and_each_change_is_announced_once(
    together: Together, died: int, answer: Any
) -> None:
    together.all_at_once()
    together.shared.wait(THRESHOLDS.recovery_seconds)
    if died:
        together.answer = ZeroDivisionError()  # which the circuit does not learn of
        assert outcome(together.environments[0].start()) is together.answer
        together.shared.wait(THRESHOLDS.recovery_seconds)
    for environment in together.environments:
        environment.announced.clear()
        environment.measured.clear()
    together.asked.clear()
    together.answer = answer
    others = COUNT - died - 1

    with together.held_until(lambda: together.refused == others):
        outcomes = together.all_at_once(skipped=died)

    assert (len(together.asked), together.refused) == (1, others)
    assert outcomes.count(answer) == 1
    after = State.CLOSED if answer is APPROVED else State.OPEN
    assert together.announced == [State.HALF_OPEN, after]


def test_all_calls_pass_after_the_probe_closed_the_circuit(together: Together) -> None:
    together.all_at_once()
    together.answer = APPROVED
    together.shared.wait(THRESHOLDS.recovery_seconds)
    assert outcome(together.environments[0].start()) == APPROVED

    together.shared.wait(CACHE_SECONDS)

    assert together.all_at_once() == [APPROVED] * COUNT
