import os
import subprocess
import sys
from collections import Counter

import pytest

from settlement.payouts.payout import Status
from tests.simulation.payouts.bank import Script
from tests.simulation.payouts.drawn import ALL_KINDS, DEVIATIONS_MAX, draw, outcome, told
from tests.simulation.payouts.lives import KINDS
from tests.simulation.payouts.planted import BUGS, planted

SEEDS, SEARCHED = range(1, 101), range(1, 601)
FOUND = (
    "1: the bank's key has the number of the attempt",
    "2: a request with other bytes is sent again under the same key",
    "2: a lost answer means refused",
    "2: a payout that was never seen is given back",
    "3: every refusal counts",
)
"""Planted bugs that 600 lives find."""


def test_a_sample_of_drawn_lives_keeps_each_rule() -> None:
    found = [outcome(seed) for seed in SEEDS]

    assert [(one.seed, one.broken) for one in found if one.broken] == []
    assert {status for one in found for status in one.statuses} == {*Status}
    assert sum(one.met for one in found) > len(SEEDS)


@pytest.mark.parametrize("name", FOUND)
def test_drawn_lives_find_planted_bugs(name: str) -> None:
    (bug,) = (one for one in BUGS if one.name == name)

    with planted(bug):
        assert any(outcome(seed).broken for seed in SEARCHED)


def test_a_seed_draws_the_same_life_each_time() -> None:
    assert draw(7) == draw(7)
    assert told(7) == told(7)
    assert draw(7) != draw(8)


def test_drawn_lives_have_up_to_six_deviations_of_each_kind() -> None:
    drawn = [draw(seed) for seed in range(1_000)]
    numbers = Counter(len(one.deviations) for one in drawn)
    kinds = Counter(each.kind for one in drawn for each in one.deviations)

    assert {*numbers} == {*range(DEVIATIONS_MAX + 1)}
    assert {*kinds} == {*ALL_KINDS} == {kind for some in KINDS.values() for kind in some}
    assert all(sum(each.kind == "frozen" for each in one.deviations) <= 1 for one in drawn)


def test_300_seeds_draw_more_than_200_different_banks() -> None:
    scripts: set[Script] = {draw(seed).script for seed in range(300)}

    assert len(scripts) > 200


def run(*given: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation.payouts", *given]
    return subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)


def test_the_command_counts_its_lives_in_two_processes() -> None:
    ended = run("--lives", "30", "--from", "1", "--jobs", "2")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("30 lives from seed 1, ")
    assert ended.stdout.endswith(": 0 broke a rule\n")


def test_the_command_prints_a_seeds_whole_life() -> None:
    ended = run("--from", "7", "--tell")

    assert ended.stdout == f"{told(7)}\n"
