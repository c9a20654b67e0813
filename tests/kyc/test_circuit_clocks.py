import pytest

from settlement.core.model.errors import KycCircuitOpen
from settlement.http import shared_circuit
from settlement.http.shared_circuit import CACHE_SECONDS
from tests.kyc.environments import DOWN, THRESHOLDS, Shared
from tests.world.provider import APPROVED

RECOVERY = THRESHOLDS.recovery_seconds


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    counted: list[str] = []
    monkeypatch.setattr(shared_circuit, "count", counted.append)
    return counted


@pytest.mark.parametrize("ahead", [3, 3600, 10**8])
def test_other_environments_recover_a_circuit_opened_by_a_fast_clock(
    shared: Shared, counted: list[str], ahead: int
) -> None:
    wrong, right = shared.environment(ahead=ahead), shared.environment()
    for _ in range(THRESHOLDS.failures):
        wrong.ask(DOWN)
    assert shared.has(state="OPEN", opened_at=shared.clock.seconds + ahead)

    assert isinstance(right.ask(APPROVED), KycCircuitOpen)
    assert counted == ["KycCircuitClockAhead"]
    shared.wait(RECOVERY)

    assert right.ask(APPROVED) == APPROVED
    assert shared.state == "CLOSED"


def test_a_probe_claimed_by_a_fast_clock_is_replaced(shared: Shared, counted: list[str]) -> None:
    shared.opened()
    wrong, right = shared.environment(ahead=3600), shared.environment()
    wrong.ask(ZeroDivisionError())
    assert shared.state == "HALF_OPEN"

    right.ask(APPROVED)
    assert counted == ["KycCircuitClockAhead"]
    shared.wait(RECOVERY)

    assert right.ask(APPROVED) == APPROVED
    assert shared.state == "CLOSED"


@pytest.mark.parametrize("ahead", [1, 2])
def test_small_clock_differences_are_not_reported(shared: Shared, counted: list[str], ahead: int) -> None:
    opener, other = shared.environment(ahead=ahead), shared.environment()
    for _ in range(THRESHOLDS.failures):
        opener.ask(DOWN)

    other.ask(APPROVED)

    assert counted == []


@pytest.mark.parametrize("ahead", [-3600, -61])
def test_an_environment_with_a_slow_clock_can_open_the_circuit(
    shared: Shared, counted: list[str], ahead: int
) -> None:
    behind, right = shared.environment(ahead), shared.environment()
    right.ask(DOWN)
    for _ in range(THRESHOLDS.failures - 1):
        behind.ask(DOWN)

    assert shared.has(state="OPEN", opened_at=shared.clock.seconds)
    assert isinstance(shared.environment().ask(APPROVED), KycCircuitOpen)
    assert counted == []


@pytest.mark.parametrize("frozen_after", ["put_item", "announce"])
def test_an_environment_frozen_while_opening_finds_the_circuit_closed_meanwhile(
    shared: Shared, frozen_after: str
) -> None:
    frozen, other = shared.environment(), shared.environment()
    for _ in range(THRESHOLDS.failures - 1):
        frozen.ask(DOWN)

    def freeze() -> None:
        assert shared.state == "OPEN"
        shared.wait(RECOVERY)
        assert other.ask(APPROVED) == APPROVED

    frozen.client.after[frozen_after] = freeze
    frozen.ask(DOWN, key="the-last")  # so it is no payment that may be the probe
    assert shared.state == "CLOSED"

    assert frozen.ask(APPROVED, key="the-last") == APPROVED


def test_an_environment_frozen_while_reading_finds_the_circuit_opened_meanwhile(
    shared: Shared,
) -> None:
    frozen = shared.environment()

    def freeze() -> None:
        shared.opened()
        shared.wait(CACHE_SECONDS)

    frozen.client.after["get_item"] = freeze
    assert frozen.ask(APPROVED) == APPROVED  # it was closed when it was read

    assert isinstance(frozen.ask(APPROVED), KycCircuitOpen)
