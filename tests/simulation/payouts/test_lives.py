from collections.abc import Iterator

import pytest

from settlement.payouts.payout import Status
from tests.simulation.payouts.bank import Script
from tests.simulation.payouts.lives import ALONE, SCRIPTS, Life, pairs, singles

SAMPLE, LONG = 41, 3
"""One deviation in SAMPLE is tried, or one in LONG in the long tests."""

IN_PAIRS = (
    *("pays", "pays, no keys, no statement", "refuses", "returns at once", "dark, no keys"),
    *("closed, then dark", "keys of an hour"),
)
"""Scripts for pairs of deviations: banks with and without keys or a statement, silent or refusing."""


def faults(lives: Iterator[Life]) -> tuple[list[str], set[Status], int]:
    found: list[str] = []
    states: set[Status] = set()
    number = 0
    for life in lives:
        number += 1
        found += [f"{life.script.name} {life.deviations}: {fault}" for fault in life.broken]
        states |= life.states
    return found, states, number


def test_undisturbed_lives_keep_each_rule_and_reach_each_state() -> None:
    found, states, _ = faults(Life(script).live() for script in (*SCRIPTS, ALONE))

    assert found == []
    assert states == {*Status}


def test_a_sample_of_disturbed_lives_keeps_each_rule() -> None:
    lives = (life for script in SCRIPTS for life in singles(script, every=SAMPLE))

    assert faults(lives)[0] == []


@pytest.mark.long
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_lives_with_one_deviation_keep_each_rule(script: Script) -> None:
    found, _, number = faults(singles(script, LONG))

    assert found == []
    assert 2 * LONG * number > len(Life(script).live().kinds)  # alike calls are disturbed only a few times


@pytest.mark.long
@pytest.mark.parametrize("name", IN_PAIRS)
def test_each_life_with_two_deviations_keeps_each_rule(name: str) -> None:
    (script,) = (one for one in SCRIPTS if one.name == name)

    assert faults(pairs(script))[0] == []


def test_a_repeated_life_has_the_same_history() -> None:
    one, other = (Life(SCRIPTS[0]).live() for _ in range(2))

    assert one.trace == other.trace
