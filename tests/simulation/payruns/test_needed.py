import pytest

from tests.simulation.payruns.lives import SCRIPTS, Life
from tests.simulation.payruns.needed import IDLE, MODULES, NEEDED, Call
from tests.simulation.seeded import weakened
from tests.simulation.seeded.weakened import Atom

CALLS = [
    pytest.param(atom, call, id=f"{' '.join(atom)} {at}")
    for atom, calls in NEEDED.items()
    for at, call in enumerate(calls)
]


@pytest.mark.parametrize(("atom", "call"), CALLS)
def test_a_call_commits_once_its_needed_condition_is_removed(atom: Atom, call: Call) -> None:
    assert not call.changes()
    with weakened.without({atom}, MODULES):
        assert call.changes()


def test_every_condition_of_a_pay_run_is_needed_or_idle() -> None:
    with weakened.demanded(MODULES) as demanded:
        for script in SCRIPTS:
            Life(script).live()
        for calls in NEEDED.values():
            for call in calls:
                call.changes()

    assert demanded == NEEDED.keys() | IDLE.keys()
