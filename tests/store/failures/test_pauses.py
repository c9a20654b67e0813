import pytest

from settlement.core.store import dynamodb
from settlement.core.store.dynamodb import Store
from tests.store.failures.scripted import COMMITTED, CONFLICT, NONE, Call, Scripted, cancelled


@pytest.mark.parametrize(("failed_tries", "bound"), [(1, 0.05), (2, 0.1), (3, 0.2), (4, 0.4), (5, 0.4)])
def test_a_pause_is_system_random_up_to_a_doubling_bound(
    monkeypatch: pytest.MonkeyPatch, failed_tries: int, bound: float
) -> None:
    asked: list[tuple[float, float]] = []
    slept: list[float] = []

    class Recording:
        def uniform(self, low: float, high: float) -> float:
            asked.append((low, high))
            return high / 2

    monkeypatch.setattr(dynamodb, "SystemRandom", Recording)
    monkeypatch.setattr("time.sleep", slept.append)

    dynamodb.pause(failed_tries)

    ((low, high),) = asked
    assert (low, high, *slept) == pytest.approx((0, bound, bound / 2))


def test_a_store_pauses_with_jitter_by_default(monkeypatch: pytest.MonkeyPatch, hold: Call) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)

    for _ in range(20):
        hold(Store(Scripted(cancelled(CONFLICT, NONE, NONE), COMMITTED), "t"))

    assert all(0 <= seconds <= 0.05 for seconds in slept)
    assert len(set(slept)) > 10
