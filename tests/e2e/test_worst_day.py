"""A short day of the worst KYC provider, on a separate embedded AWS.

`make worst-day` takes ten minutes, at 20 payments a second.
"""

from collections.abc import Iterator
from math import inf

import pytest

from benchmarks.worst_day import play
from benchmarks.worst_day.findings import Played
from benchmarks.worst_day.provider import DAY

pytestmark = pytest.mark.long

RATE, SECONDS = 2, 60


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    with play.prepared(RATE, SECONDS, print) as (day, silent):
        day.play(silent, print)
        yield day.played()


def test_a_short_day_of_provider_troubles_breaks_no_promise(played: Played) -> None:
    assert played.faults(seconds_max=inf) == [], played.table()  # how fast it is, is the benchmark's to say


def test_the_short_day_has_all_planned_provider_troubles(played: Played) -> None:
    assert list(played.began_at) == [hours.name for hours in DAY]
    assert len(played.payments) >= RATE * SECONDS * 0.9
    good = {
        hours: [one for one in played.payments if one.hours == hours and one.is_good]
        for hours in played.began_at
    }
    assert all(good.values())
    statuses = {hours: {one.status for one in payments} for hours, payments in good.items()}
    assert "SETTLED" in statuses["well"] <= {"SETTLED", "COMPENSATED"}  # a busy machine may cut off VerifyKyc
    assert "COMPENSATED" in statuses["dead"]
    assert "SETTLED" in statuses["back"]
    assert {one.status for one in played.payments if not one.is_good} == {"COMPENSATED"}
    assert any(state != "CLOSED" for _, state in played.circuit)
    assert played.asked_while_dead > 0
    assert played.throttled["KycDecided"] > 0  # of the strangers: a throttle is seen
