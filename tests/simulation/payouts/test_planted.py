import pytest

from tests.simulation.payouts.lives import ALONE, SCRIPTS, Life
from tests.simulation.payouts.planted import BUGS, Bug, first_fault, planted


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_lives_find_each_planted_bug(bug: Bug) -> None:
    assert {*bug.scripts} <= {script.name for script in (*SCRIPTS, ALONE)}
    assert first_fault(bug) is not None


def test_each_rule_of_the_design_has_a_planted_bug() -> None:
    assert {bug.name[0] for bug in BUGS if bug.name[1] == ":"} == {*"12345678"}


def test_a_planted_bug_is_removed_after_use() -> None:
    with planted(BUGS[3]):
        pass

    assert all(Life(script).live().broken == [] for script in SCRIPTS[:3])
