"""After an outage recovery resumes all stalled settlements, and reverses none."""

from collections.abc import Callable

import pytest

from settlement.core.model.status import Status
from tests.simulation.storm import NEW_PER_SECOND, Bucket, Quotas, Storm, quotas_of_large_regions
from tests.world.definitions import EXPRESS, STANDARD


@pytest.mark.parametrize(
    ("many", "quotas"),
    [
        (2_000, Quotas),
        (5_000, quotas_of_large_regions),
        pytest.param(100_000, Quotas, marks=pytest.mark.long),
        pytest.param(100_000, quotas_of_large_regions, marks=pytest.mark.long),
    ],
)
def test_recovery_resumes_a_storm_of_stalled_settlements_within_minutes(
    many: int, quotas: Callable[[], Quotas]
) -> None:
    """100,000 settlements stall in an outage of 200 s. Five minutes are a third of the deadline."""
    storm = Storm(many, quotas())

    storm.run(minutes=15)

    assert storm.settled == storm.due
    assert storm.seconds <= 1.5 * many / NEW_PER_SECOND <= 300
    assert (storm.compensated, storm.new_refused) == (set(), 0)
    assert storm.counted["NotRecovered"] == storm.counted["RecoveryThrottled"] == 0
    assert storm.counted["RecoveredBySettlement"] == many, "each is started once"
    assert storm.started.keys() == {STANDARD, EXPRESS}
    assert storm.counted["RecoveredByExpress"] == storm.started[EXPRESS] == many - storm.started[STANDARD]


def test_a_small_number_of_stalled_settlements_uses_only_standard() -> None:
    """500 are an outage of a second."""
    storm = Storm(500)

    storm.run(minutes=15)

    assert storm.settled == storm.due
    assert storm.started == {STANDARD: 500}
    assert storm.counted["RecoveredByExpress"] == 0


def test_a_recovery_that_is_far_too_slow_reverses_nothing() -> None:
    """At two resumptions a second, the last settlement comes after its 15-minute deadline, but settles."""
    storm = Storm(2_400, per_second=2)

    storm.run(minutes=30)

    assert storm.settled == storm.due
    assert (storm.compensated, storm.seconds > 900) == (set(), True)
    assert max(storm.behind) > 900


def test_a_quota_below_the_pace_slows_recovery_and_defers_nothing() -> None:
    """Recovery and new settlements share the quota, and each stalled one is started at last."""
    storm = Storm(2_000, Quotas(express=Bucket(100, 600)))

    storm.run(minutes=15)

    assert storm.settled == storm.due
    assert storm.compensated == set()
    assert storm.counted["RecoveryThrottled"] > 0
    assert storm.counted["NotRecovered"] == 0


def test_resumed_reversals_keep_pace_with_the_quota_of_describe_execution() -> None:
    """Recovery looks for a running execution, since two would alert twice. No run waits for the quota."""
    storm = Storm(1_500, status=Status.COMPENSATING)

    storm.run(minutes=15)

    assert storm.compensated == storm.due
    assert storm.seconds <= 60 * 1_500 / 250
    assert storm.counted["NotRecovered"] == 0


def test_a_throttled_table_loses_no_settlement() -> None:
    storm = Storm(2_000, Quotas(table=Bucket(11_000, 11_000)))

    storm.run(minutes=15)

    assert storm.settled == storm.due
    assert storm.compensated == set()
