"""Each condition of each write is needed: a call is kept that goes wrong without it, and well with it."""

from collections.abc import Iterator

import pytest

from tests.simulation.seeded import weakened
from tests.simulation.seeded.facts import Violated
from tests.simulation.seeded.needed import idle, needed
from tests.simulation.seeded.run import told
from tests.simulation.seeded.stage import Current, set_up
from tests.simulation.seeded.weakened import Atom

NEEDED, IDLE = needed(), idle()


@pytest.fixture(scope="module")
def current() -> Iterator[Current]:
    with set_up() as current:
        yield current


@pytest.mark.parametrize("atom", NEEDED, ids=" ".join)
def test_a_condition_that_is_gone_is_missed(current: Current, atom: Atom) -> None:
    need = NEEDED[atom]
    with pytest.raises(Violated) as broken:
        need.story.happens(current, weakened.without({atom, *need.beside}), is_told=True)
    without = told(current.world, broken.value)

    with weakened.seen() as demanded:
        try:
            need.story.happens(current, is_told=True)
        except Violated as violated:
            pytest.fail(f"{' '.join(atom)} is gone:\n{told(current.world, violated)}", pytrace=False)
    if atom not in demanded:
        beside = " and ".join(map(" ".join, need.beside))
        pytest.fail(f"{' '.join(atom)} is gone. Once {beside} is gone too:\n{without}", pytrace=False)


def test_every_condition_of_every_write_is_needed_or_said_to_be_idle(current: Current) -> None:
    with weakened.seen() as demanded:
        for story in {need.story for need in NEEDED.values()}:
            story.happens(current)

    assert demanded == NEEDED.keys() | IDLE.keys()
    assert not NEEDED.keys() & IDLE.keys()
    assert all(len(why) > 20 for why in IDLE.values())
