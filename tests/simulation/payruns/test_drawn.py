from collections import Counter

import pytest

from settlement.payruns.run import Status
from tests.simulation.payouts.planted import planted
from tests.simulation.payruns.drawn import ALL_KINDS, DEVIATIONS_MAX, draw, outcome, told
from tests.simulation.payruns.planted import BUGS

SEEDS, MORE = range(1, 41), range(1_000, 1_200)
FOUND = (
    "3: a worker forgets the cut",
    "4: a late worker counts lines again",
    "6: an unknown start is a refusal",
)
"""Planted bugs that 40 lives find."""


def test_a_sample_of_drawn_lives_keeps_each_rule() -> None:
    found = [outcome(seed) for seed in SEEDS]

    assert [(one.seed, one.broken) for one in found if one.broken] == []
    assert {status for one in found for status in one.statuses} == {*Status}
    assert sum(one.met for one in found) > len(SEEDS)


@pytest.mark.long
def test_drawn_lives_keep_each_rule() -> None:
    assert [(seed, one.broken) for seed in MORE if (one := outcome(seed)).broken] == []


def test_a_seed_draws_the_same_life_each_time() -> None:
    assert draw(7) == draw(7) != draw(8)
    assert told(7) == told(7)


def test_drawn_lives_have_up_to_four_deviations_of_each_kind() -> None:
    drawn = [draw(seed) for seed in range(1_000)]

    assert {len(one.deviations) for one in drawn} == {*range(DEVIATIONS_MAX + 1)}
    assert {*Counter(each.kind for one in drawn for each in one.deviations)} == {*ALL_KINDS}


@pytest.mark.parametrize("name", FOUND)
def test_drawn_lives_find_planted_bugs(name: str) -> None:
    (bug,) = (one for one in BUGS if one.name == name)

    with planted(bug):
        assert any(outcome(seed).broken for seed in SEEDS)
