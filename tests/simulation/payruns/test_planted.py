import pytest

from tests.simulation.payouts.planted import planted
from tests.simulation.payruns.lives import SCRIPTS, Life
from tests.simulation.payruns.planted import BUGS, Bug, first_fault


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_lives_find_each_planted_bug(bug: Bug) -> None:
    assert {*bug.scripts} <= {script.name for script in SCRIPTS}
    assert first_fault(bug) is not None


def test_each_rule_of_the_lives_has_a_planted_bug() -> None:
    assert {bug.name[0] for bug in BUGS} == {*"123456"}


def test_a_planted_bug_is_removed_after_use() -> None:
    with planted(BUGS[3]):
        pass

    assert Life(SCRIPTS[-1]).live().broken == []
