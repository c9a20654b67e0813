import pytest

from tests.simulation.payouts.lives import SCRIPTS, Life
from tests.simulation.payouts.needed import IDLE, MODULES, NEEDED
from tests.simulation.seeded import weakened
from tests.simulation.seeded.weakened import Atom


@pytest.mark.parametrize("atom", NEEDED, ids=" ".join)
def test_a_call_commits_once_its_needed_condition_is_removed(atom: Atom) -> None:
    assert not NEEDED[atom].changes()
    with weakened.without({atom}, MODULES):
        assert NEEDED[atom].changes()


def test_every_condition_of_a_payout_is_needed_or_idle() -> None:
    with weakened.demanded(MODULES) as demanded:
        for script in SCRIPTS:
            Life(script).live()
        for call in NEEDED.values():
            call.changes()

    assert demanded == NEEDED.keys() | IDLE.keys()
