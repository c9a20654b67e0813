"""Checks that each condition of each write is needed, because some call breaks a rule without it.

`python -m tests.simulation.seeded.needed` removes a refused late call's conditions and repeats the call until
a rule breaks. `needed.json` stores the calls; `idle.toml` explains conditions that no call can fail.
"""

import argparse
import json
import sys
import time
import tomllib
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from tests.simulation.seeded import weakened
from tests.simulation.seeded.moments import Afterlife, Late, Life, Refused, everything, happen, record
from tests.simulation.seeded.scenarios import SCENARIOS
from tests.simulation.seeded.stage import Current, set_up
from tests.simulation.seeded.weakened import Atom
from tests.world.rooms import is_gone

NEEDED, IDLE = (Path(__file__).with_name(name) for name in ("needed.json", "idle.toml"))
WITNESSES_OF_A_KIND, WITNESSES_MAX = 2, 500
"""Maximum refused calls to retry: per kind and state, and per set of failed conditions."""


@dataclass(frozen=True)
class Story:
    """A scenario, the calls that changed its life, and the examined call."""

    scenario: str
    before: tuple[Late, ...] = ()
    call: Late | None = None

    @property
    def can_happen(self) -> bool:
        calls = [late.call.partition(" ")[0] for late in (*self.before, self.call) if late]
        return not any(map(is_gone, calls)) and (self.scenario in SCENARIOS or not weakened.GONE)

    def life(self, current: Current, *, is_told: bool = False) -> Life:
        life = record(current, self.scenario, {}, is_told=is_told)
        for late in self.before:
            life = life.after(late, happen(current, life, late, is_told=is_told))
        return life

    def happens(
        self, current: Current, changed: AbstractContextManager[Any] | None = None, *, is_told: bool = False
    ) -> Afterlife:
        assert self.call
        life = self.life(current, is_told=is_told)
        with changed or nullcontext():
            return happen(current, life, self.call, is_told=is_told)


@dataclass
class Found:
    calls: int = 0
    refused: dict[Refused, list[Story]] = field(default_factory=dict)
    lives: dict[tuple[Any, ...], Story] = field(default_factory=dict)
    broken: dict[Story, str] = field(default_factory=dict)

    def add(self, other: "Found") -> None:
        self.calls += other.calls
        for refused, stories in other.refused.items():
            kept = self.refused.setdefault(refused, [])
            kept += stories[: WITNESSES_MAX - len(kept)]
        self.lives = other.lives | self.lives
        self.broken |= other.broken


@dataclass(frozen=True)
class Need:
    """A call that breaks a rule if a condition and those in `beside` are removed."""

    story: Story
    beside: tuple[Atom, ...]
    rule: str


def explore(story: Story) -> Found:
    found = Found()
    with set_up() as current, weakened.placed():
        life, kinds = story.life(current), Counter[Any]()
        found.lives[life.course] = story
        for late in everything(life, lambda late: happen(current, life, late).table):
            found.calls += 1
            told = Story(story.scenario, story.before, late)
            try:
                world = happen(current, life, late)
            except AssertionError as broken:
                found.broken[told] = str(broken)
                continue
            for refused in world.table.refused:
                kind = (refused, late.call, life.moments[late.acts].state(life.settlement["key"]))
                if kinds[kind] < WITNESSES_OF_A_KIND:
                    kinds[kind] += 1
                    found.refused.setdefault(refused, []).append(told)
            if world.moments:
                course = life.after(late, world).course
                found.lives.setdefault(course, Story(story.scenario, (*story.before, late)))
    return found


def need_of(atom: Atom, refused: dict[Refused, list[Story]]) -> Need | None:
    """Return a call that breaks a rule without the condition, and that failed the fewest conditions."""
    with set_up() as current:
        for failing in sorted((each for each in refused if atom in each), key=len):
            for story in refused[failing]:
                try:
                    story.happens(current, weakened.without(failing))
                except AssertionError as broken:
                    return Need(story, tuple(sorted(failing - {atom})), str(broken))
    return None


def needed() -> dict[Atom, Need]:
    found = {
        _atom(name): Need(
            Story(kept["scenario"], tuple(Late(*late) for late in kept["before"]), Late(*kept["call"])),
            tuple(map(_atom, kept["beside"])),
            kept["rule"],
        )
        for name, kept in json.loads(NEEDED.read_text()).items()
        if _is_there(name)
    }
    return {atom: need for atom, need in found.items() if need.story.can_happen}


def idle() -> dict[Atom, str]:
    return {_atom(name): why for name, why in tomllib.loads(IDLE.read_text()).items() if _is_there(name)}


def _is_there(name: str) -> bool:
    return name.partition(".")[0] not in weakened.GONE


def main() -> int:
    """Exit with 0 if each condition is needed or idle, and no rule broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--depth", type=int, default=1, help="calls out of turn that lead to a life")
    given = parser.parse_args()
    began, total = time.monotonic(), Found()
    stories, done = [Story(scenario) for scenario in SCENARIOS], set[Story]()
    with ProcessPoolExecutor(given.jobs) as pool:
        for depth in range(given.depth + 1):
            for found in pool.map(explore, stories):
                total.add(found)
            print(
                f"{len(stories)} lives with {depth} calls out of turn, {total.calls} late calls,"
                f" {len(total.broken)} broke a rule, {time.monotonic() - began:.0f} s",
                flush=True,
            )
            done.update(stories)
            stories = [story for story in total.lives.values() if story not in done]
        atoms = sorted({atom for refused in total.refused for atom in refused})
        witnesses = [{each: total.refused[each] for each in total.refused if atom in each} for atom in atoms]
        needs = dict(zip(atoms, pool.map(need_of, atoms, witnesses), strict=True))
    for story, rule in list(total.broken.items())[:20]:
        print(f"BROKEN  {rule}: {story}")
    explained = idle()
    missed = [atom for atom, need in needs.items() if need is None and atom not in explained]
    for atom in missed:
        print(f"MISSED  {' '.join(atom)}")
    NEEDED.write_text(_json({atom: need for atom, need in needs.items() if need}))
    alone = sum(not need.beside for need in needs.values() if need)
    print(f"{len(atoms)} conditions failed: {alone} are needed alone, {len(missed)} were missed")
    return 1 if missed or total.broken else 0


def _atom(name: str) -> Atom:
    place, _, condition = name.rpartition(" ")
    return place, condition


def _json(needs: dict[Atom, Need]) -> str:
    content = {
        " ".join(atom): {
            "scenario": need.story.scenario,
            "before": [astuple(late) for late in need.story.before],
            "call": astuple(need.story.call) if need.story.call else None,
            "beside": [" ".join(other) for other in need.beside],
            "rule": need.rule,
        }
        for atom, need in needs.items()
    }
    return json.dumps(content, indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(main())
