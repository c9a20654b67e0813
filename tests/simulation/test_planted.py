from functools import cache
from typing import Any

import pytest

from tests.simulation.seeded import planted
from tests.simulation.seeded.run import run, tell
from tests.world.rooms import OPTIONAL, is_there

FOUND = planted.recorded()
SEEDS_MAX = 500
"""Maximum seeds of a search, which takes a few minutes."""


def test_the_code_has_the_text_that_each_planted_bug_replaces() -> None:
    lost = {
        bug["name"]
        for bug in planted.bugs()
        for file, old, _ in [(bug["file"], bug["old"], bug["new"]), *bug.get("also", ())]
        if old not in (planted.ROOT / file).read_text()
    }

    assert lost == set()


def test_each_planted_bug_has_a_recorded_seed() -> None:
    names = {bug["name"] for bug in planted.bugs()}

    assert names <= FOUND.keys()
    assert names == FOUND.keys() or not all(map(is_there, OPTIONAL))


@pytest.mark.long
@pytest.mark.parametrize("bug", planted.bugs(), ids=lambda bug: bug["name"])
def test_the_recorded_seed_finds_the_planted_bug(bug: dict[str, Any]) -> None:
    seed = planted.seed_that_finds(bug, FOUND.get(bug["name"], 0), 1)
    if seed is None:  # the code has changed since, and so has the seed's history
        seed = planted.seed_that_finds(bug, 0, SEEDS_MAX)

    assert seed is not None, "make planted searches longer for a seed that finds it"
    core = bug.get("core", False)
    assert is_lawful(seed, core=core), tell(seed, core=core)


@cache
def is_lawful(seed: int, *, core: bool) -> bool:
    """Many bugs share a seed."""
    return run([seed], core=core).failed == {}
