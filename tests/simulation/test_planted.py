"""The rules are good enough to notice each planted bug."""

from typing import Any

import pytest

from tests.simulation.seeded import planted
from tests.simulation.seeded.run import run, tell

FOUND = planted.recorded()


@pytest.mark.parametrize("bug", planted.bugs(), ids=lambda bug: bug["name"])
def test_a_planted_bug_is_found(bug: dict[str, Any]) -> None:
    seed = planted.seed_that_finds(bug, FOUND.get(bug["name"], 0), 1)
    if seed is None:  # the code, and so what happens in a seed, is another one since it was recorded
        seed = planted.seed_that_finds(bug, 0, planted.SEEDS_MAX)

    assert seed is not None
    assert run([seed]).failed == {}, tell(seed)
