from collections.abc import Mapping

import pytest

from benchmarks.worst_day.findings import Played
from benchmarks.worst_day.provider import DAY
from tests.simulation.worst_day import LIMITS, played

RATE = 20
FEW = {"VerifyKyc": 16}
"""Too little concurrency: a fifth of the need while the provider hangs."""


def good(day: Played, hours: str) -> set[str]:
    return {one.status for one in day.payments if one.hours == hours and one.is_good}


@pytest.mark.parametrize(
    ("seconds", "limits"),
    [
        pytest.param(100, FEW, id="few", marks=pytest.mark.long),
        pytest.param(100, LIMITS, id="prod", marks=pytest.mark.long),
    ],
)
def test_the_worst_day_breaks_no_promise(seconds: int, limits: Mapping[str, int]) -> None:
    day = played(RATE, seconds, limits)

    assert day.faults() == [], day.table()
    assert len(day.payments) == RATE * seconds
    assert list(day.began_at) == [hours.name for hours in DAY]
    assert good(day, "well") == {"SETTLED"}
    assert "COMPENSATED" in good(day, "dead")
    assert {one.status for one in day.payments if not one.is_good} == {"COMPENSATED"}
    assert "OPEN" in {state for _, state in day.circuit}
    assert day.circuit[-1][1] == "CLOSED"
    assert day.asked_while_dead > 0
    assert (day.throttled["VerifyKyc"] > 0) == (limits is FEW)
