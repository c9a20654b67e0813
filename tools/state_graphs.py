"""Draws the machines for `settle report`: Graphviz's layout, with an id for each state and transition.

Run `python -m tools.state_graphs` after a change of a definition. Only this needs Graphviz's `dot`, because
the drawings are in the repository.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

PROJECT = Path(__file__).parents[1]
DRAWINGS = PROJECT / "settle" / "output" / "page" / "graphs"
MACHINES = ("settlement", "compensation")
SVG = "{http://www.w3.org/2000/svg}"
_KEPT = {
    "id",
    "class",
    "points",
    "d",
    "cx",
    "cy",
    "rx",
    "ry",
    "x",
    "y",
    "viewBox",
    "text-anchor",
    "transform",
}
_FRACTION = re.compile(r"(-?\d+\.\d)\d+")


def states(machine: str) -> dict[str, Any]:
    """Return the states of a machine by their names."""
    definition = json.loads((PROJECT / "statemachines" / f"{machine}.asl.json").read_text())
    found: dict[str, Any] = definition["States"]
    return found


def ways(state: Any) -> list[str]:
    """Return the states that may follow a state, each once, in the order of the definition."""
    rules = [*state.get("Choices", ()), *state.get("Catch", ())]
    named = [state.get("Next"), *(rule["Next"] for rule in rules), state.get("Default")]
    return list(dict.fromkeys(name for name in named if name))


def source(machine: str) -> str:
    """Return a machine in Graphviz's language. `Next` weighs most: other transitions pull no state up."""
    found = states(machine)
    lines = [f'digraph "{machine}" {{', "rankdir=TB; nodesep=0.25; ranksep=0.35;"]
    lines.append('node [shape=box, style=rounded, fontname="Helvetica", fontsize=12, margin="0.12,0.06"];')
    for name, state in found.items():
        kind = {"Fail": "fail", "Choice": "choice"}.get(state["Type"], "work")
        lines.append(f'{name} [id="{machine}.{name}", class="{kind}"];')
        for target in ways(state):
            weight = 8 if target == state.get("Next") else 1
            lines.append(f'{name} -> {target} [id="{machine}.{name}.{target}", weight={weight}];')
    return "\n".join([*lines, "}"])


def drawing(machine: str) -> str:
    """Return a machine's drawing without colours, fonts and sizes, which the page's style sets."""
    drawn = subprocess.run(
        ["dot", "-Tsvg"],  # noqa: S607
        input=source(machine),
        capture_output=True,
        text=True,
        check=True,
    )
    root = ElementTree.fromstring(drawn.stdout)  # noqa: S314
    for parent in list(root.iter()):
        for child in list(parent):
            is_ground = child.tag == f"{SVG}polygon" and parent.get("class") == "graph"
            if child.tag == f"{SVG}title" or is_ground:
                parent.remove(child)
    for one in root.iter():
        one.text, one.tail = (one.text or "").strip(), "\n"
        for name, value in list(one.attrib.items()):
            one.attrib.pop(name)
            if name in _KEPT and value != "graph0":  # an id is unique on a page with two drawings
                one.set(name, _FRACTION.sub(r"\1", value))
    ElementTree.register_namespace("", SVG[1:-1])
    return ElementTree.tostring(root, encoding="unicode")


def main() -> None:
    """Draw each machine, and put the drawing where `settle report` reads it."""
    DRAWINGS.mkdir(exist_ok=True)
    for machine in MACHINES:
        (DRAWINGS / f"{machine}.svg").write_text(drawing(machine))


if __name__ == "__main__":
    main()
