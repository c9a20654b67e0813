from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

from settle.reports.path import Mark, Walk

DRAWINGS = Path(__file__).parent / "graphs"
"""The machines' drawings, from their definitions by `tools/state_graphs.py`."""

_SVG = "http://www.w3.org/2000/svg"
_STRONGEST = (Mark.HERE, Mark.COMMITTED, Mark.REFUSED, Mark.PASSED)
"""Marks, strongest first. A state with several visits shows its strongest."""


def marked(machine: str, walks: Sequence[Walk]) -> str:
    """Return a machine's drawing as SVG, with classes for the path taken."""
    states, ways = defaultdict[str, set[Mark]](set), set[str]()
    for walk in walks:
        for visit in walk.visits:
            states[f"{machine}.{visit.state}"].add(visit.mark)
        for before, after in pairwise(walk.visits):
            ways.add(f"{machine}.{before.state}.{after.state}")
    root = ElementTree.fromstring(_drawing(machine))  # noqa: S314 - a file of this package
    root.set("role", "img")
    root.set("aria-labelledby", f"{machine}-graph")
    for one in root.iter():
        name = one.get("id", "")
        if marks := states.get(name):
            strongest = next(mark for mark in _STRONGEST if mark in marks)
            one.set("class", f"{one.get('class')} {strongest}")
        elif name in ways:
            one.set("class", f"{one.get('class')} taken")
    ElementTree.register_namespace("", _SVG)
    return ElementTree.tostring(root, encoding="unicode")


@cache
def _drawing(machine: str) -> str:
    return (DRAWINGS / f"{machine}.svg").read_text("utf-8")
