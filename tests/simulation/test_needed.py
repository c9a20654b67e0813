"""Each condition of each write is needed: a call is kept that goes wrong without it, and well with it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from settlement import items
from tests.simulation.seeded import weakened
from tests.simulation.seeded.facts import Violated
from tests.simulation.seeded.needed import Story, idle, needed
from tests.simulation.seeded.run import told
from tests.simulation.seeded.stage import Current, set_up
from tests.simulation.seeded.weakened import Atom

NEEDED, IDLE = needed(), idle()


@pytest.fixture(scope="module")
def current() -> Iterator[Current]:
    with set_up() as current:
        yield current


def history(current: Current, story: Story, without: set[Atom]) -> str | None:
    """How a call breaks a rule without some conditions; None where it breaks none."""
    try:
        story.happens(current, weakened.without(without) if without else None, is_told=True)
    except Violated as broken:
        return told(current.world, broken)
    return None


@pytest.mark.parametrize("atom", NEEDED, ids=" ".join)
def test_a_condition_that_is_gone_is_missed(current: Current, atom: Atom) -> None:
    need, name = NEEDED[atom], " ".join(atom)
    with weakened.demanded() as demanded:
        broken = history(current, need.story, set())
    is_made = atom[0] in {place for place, _ in demanded}
    if atom not in demanded and (is_made or not broken):
        others = " and ".join(map(" ".join, need.beside))
        what = f"{name} is gone" + f", and once {others} is gone as well:" * bool(others)
        without = broken or history(current, need.story, {*need.beside})
        pytest.fail(f"{what}\n{without or 'or its write is made elsewhere now: make needed'}", pytrace=False)
    if broken:
        pytest.fail(f"the code breaks a rule:\n{broken}", pytrace=False)
    if not history(current, need.story, {atom, *need.beside}):
        pytest.fail(f"{name} is not what stands against its call any more: make needed", pytrace=False)


def test_every_condition_of_every_write_is_needed_or_said_to_be_idle(current: Current) -> None:
    with weakened.demanded() as demanded:
        for story in {need.story for need in NEEDED.values()}:
            history(current, story, set())

    known = NEEDED.keys() | IDLE.keys()
    assert sorted(map(" ".join, demanded - known)) == [], "new: make needed"
    assert sorted(map(" ".join, known - demanded)) == [], "gone"
    assert not NEEDED.keys() & IDLE.keys()
    assert all(len(why) > 20 for why in IDLE.values())


def test_every_function_that_makes_a_write_is_known_here() -> None:
    made = set()
    for file in Path(items.__file__).parent.glob("*.py"):
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef) and file.stem != "writes":
                called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
                if {name.id for name in called if isinstance(name, ast.Name)} & {"put", "update"}:
                    made.add(f"{file.stem}.{function.name}")

    assert made == {place.partition(" ")[0] for place, _ in NEEDED.keys() | IDLE.keys()}
