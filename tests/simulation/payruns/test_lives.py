import pytest

from settlement.payruns.run import Status
from tests.simulation.payruns.lives import FORGED, SCRIPTS, Life, Script, singles

SAMPLE, LONG = 31, 3
"""One deviation in SAMPLE is tried, or one in LONG in the long tests."""


def faults(script: Script, every: int) -> list[str]:
    return [
        f"{script.name} {life.deviations}: {fault}"
        for life in singles(script, every)
        for fault in life.broken
    ]


def test_undisturbed_lives_keep_each_rule_and_reach_each_status() -> None:
    lives = [Life(script).live() for script in SCRIPTS]

    assert [life.broken for life in lives] == [[]] * len(SCRIPTS)
    assert {status for life in lives for status in life.statuses} == {*Status}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_sample_of_disturbed_lives_keeps_each_rule(script: Script) -> None:
    assert faults(script, SAMPLE) == []


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_lives_with_one_deviation_keep_each_rule(script: Script) -> None:
    assert faults(script, LONG) == []


def test_a_forged_approval_pays_nothing() -> None:
    life = Life(FORGED).live()

    assert [fault for fault in life.broken if "pays" in fault] == []


def test_a_repeated_life_has_the_same_history() -> None:
    one, other = (Life(SCRIPTS[1]).live() for _ in range(2))

    assert (one.places, one.state) == (other.places, other.state)
