from xml.etree import ElementTree

import pytest

from settle.reports.page.graph import DRAWINGS
from tests.statemachines.definitions import DEFINITIONS, states, targets

SVG = "{http://www.w3.org/2000/svg}"
REDRAW = "python -m tools.state_graphs draws it anew"

each_machine = pytest.mark.parametrize("machine", DEFINITIONS)


def drawn(machine: str, kind: str) -> list[ElementTree.Element]:
    root = ElementTree.parse(DRAWINGS / f"{machine}.svg").getroot()
    return [one for one in root.iter(f"{SVG}g") if kind in one.get("class", "").split()]


def test_each_definition_has_a_drawing() -> None:
    assert {path.stem for path in DRAWINGS.iterdir()} == DEFINITIONS.keys()


@each_machine
def test_a_drawing_shows_each_state_once_with_its_kind(machine: str) -> None:
    nodes = drawn(machine, "node")
    kinds = {"Fail": "fail", "Choice": "choice"}

    assert sorted(node.get("id", "") for node in nodes) == sorted(
        f"{machine}.{name}" for name in states(machine)
    ), REDRAW
    for node in nodes:
        name = node.get("id", "").partition(".")[2]
        assert "".join(node.itertext()).strip() == name
        assert kinds.get(states(machine)[name]["Type"], "work") in node.get("class", "").split()


@each_machine
def test_a_drawing_shows_each_transition_once(machine: str) -> None:
    ways = {
        f"{machine}.{name}.{target}" for name, state in states(machine).items() for target in targets(state)
    }

    assert sorted(edge.get("id", "") for edge in drawn(machine, "edge")) == sorted(ways), REDRAW


@each_machine
def test_a_drawing_has_no_style_of_its_own(machine: str) -> None:
    """Own colours or fonts fail on a dark background, and the page refuses `style`."""
    attributes = {
        name for one in ElementTree.parse(DRAWINGS / f"{machine}.svg").iter() for name in one.attrib
    }

    assert attributes <= {
        *("id", "class", "viewBox", "transform", "d", "points", "x", "y", "text-anchor"),
    }
