"""The rules are good enough to notice each planted bug, and each condition that is taken out of a write."""

import re
from typing import Any

import pytest

from tests.simulation.seeded import planted, weakened
from tests.simulation.seeded.run import run, tell

FOUND, REDUNDANT, UNFOUND = planted.recorded(), planted.redundant(), planted.unfound()
CONDITIONS = [name.rsplit(" ", 1) for name in FOUND if re.match(r"\w+\.\w+ ", name)]
MEETING_ALL = 400
"""In so many seeds the conditions are met that any change of the code is likely to touch."""


@pytest.mark.parametrize("bug", planted.bugs(), ids=lambda bug: bug["name"])
def test_a_planted_bug_is_found(bug: dict[str, Any]) -> None:
    seed = planted.seed_that_finds(bug, FOUND.get(bug["name"], 0), 1)
    if seed is None:  # the code, and so what happens in a seed, is another one since it was recorded
        seed = planted.seed_that_finds(bug, 0, planted.SEEDS_MAX)

    assert seed is not None
    assert run([seed]).failed == {}, tell(seed)


@pytest.mark.parametrize(("place", "condition"), CONDITIONS)
def test_a_condition_that_is_gone_is_missed(place: str, condition: str) -> None:
    recorded = FOUND[f"{place} {condition}"]
    seed = planted.seed_that_misses(place, condition, recorded, 1)
    if seed is None:
        seed = planted.seed_that_misses(place, condition, 0, planted.SEEDS_MAX)

    assert seed is not None
    assert run([seed]).failed == {}, tell(
        seed
    )  # with it, all is well; where it is gone, the history says why not


def test_every_condition_of_every_write_is_missed_or_said_to_be_redundant_or_not_yet_found() -> None:
    with weakened.seen() as met:
        run(range(MEETING_ALL))

    assert len(met) > 60
    assert {" ".join(each) for each in met} <= {*FOUND, *REDUNDANT, *UNFOUND}


def test_what_is_said_to_be_redundant_was_never_missed() -> None:
    assert not (REDUNDANT.keys() | UNFOUND) & FOUND.keys()
    assert all(len(why) > 20 for why in REDUNDANT.values())
