"""Draws a payout's life from a seed: a bank of mixed properties, and up to six deviations."""

import random
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, get_args

from tests.simulation.drawn_lives import Outcome, lived
from tests.simulation.payouts.bank import DAY, HOUR, NEVER, Script
from tests.simulation.payouts.lives import SCRIPTS, Deviation, Kind, Life

DEVIATIONS_MAX = 6
CALLS_APART = 7
"""Mean number of calls between deviations: few, since most of a payout's moves are in its first 30 calls."""

FIELDS_MIXED_MAX = 3
ALL_KINDS: tuple[Kind, ...] = tuple(
    sorted({kind for one in get_args(Kind) for kind in (get_args(one) or (one,))})
)

_FAULTS = ("wrong", "lies", "in_progress", "alters_after", "return_line_after", "word_of_return")
"""Fields of a script that are never mixed into another one."""

_MIXED = {
    one.name: sorted({getattr(script, one.name) for script in SCRIPTS}, key=str)
    for one in fields(Script)
    if one.name not in ("name", "account", "opens_after", *_FAULTS)
}
_TIMES = ("window", "pays_after", "refuses_after", "returns_after", "closed_for", "dark_for", "freezes_after")
_BESIDE_FAULTS = ("closed_for", "events", "freezes_after", "window")
"""The only fields that are mixed into a faulty bank, because the fault's rules depend on its other times."""

_ASKED_FOR = 9 * DAY
_CLOSED_OF = 100
"""A closed account stays closed in only one life in this many, because persons retry in 9,000 calls."""


@dataclass(frozen=True)
class Drawn:
    seed: int
    script: Script
    deviations: tuple[Deviation, ...]


def draw(seed: int) -> Drawn:
    chance = random.Random(seed)
    return Drawn(seed, _script(chance), _deviations(chance))


def outcome(seed: int) -> Outcome:
    drawn = draw(seed)
    life = lived(Life(drawn.script, drawn.deviations))
    met = sum(one.at <= life.calls for one in drawn.deviations)
    return Outcome(seed, life.calls, met, frozenset(map(str, life.states)), tuple(life.broken))


def _script(chance: random.Random) -> Script:
    base = chance.choice(SCRIPTS)
    if base.account != "open" and chance.randrange(_CLOSED_OF):
        base = replace(base, account="frozen", opens_after=12 * DAY)
    known = _BESIDE_FAULTS if base.wrong or base.lies or base.alters_after < NEVER else sorted(_MIXED)
    while True:
        names = chance.sample(known, chance.randint(0, FIELDS_MIXED_MAX))
        mixed = replace(base, name=f"{base.name}, mixed", **{name: _value(chance, name) for name in names})
        if not names or _can_be_known(mixed):
            return mixed


def _can_be_known(script: Script) -> bool:
    """Return whether the bank, its statement or persons can ever report the payment's end.

    Without a statement, the bank is asked for only ten days. A silent bank reports neither a return
    nor the send that a restored row has forgotten.
    """
    ends = script.refuses or min(script.pays_after, script.refuses_after) < NEVER
    is_silent = script.dark_for >= NEVER
    asked_for = timedelta() if is_silent else _ASKED_FOR
    is_told = script.statement or script.returns_after >= NEVER or script.returns_after < asked_for
    is_told = is_told and not (is_silent and script.restored_after < NEVER)
    return ends and is_told and (script.persons != "none" or script.account == "open")


def _value(chance: random.Random, name: str) -> Any:
    if name in _TIMES and chance.random() < 0.5:
        longest = chance.choice((HOUR, 4 * HOUR, DAY, 4 * DAY, 12 * DAY))
        return timedelta(seconds=round(chance.random() * longest.total_seconds()))
    return chance.choice(_MIXED[name])


def _deviations(chance: random.Random) -> tuple[Deviation, ...]:
    """Draw deviations. At most one freezes a caller, because two freezes would exceed WINDOW_MARGIN."""
    at, found = 0, list[Deviation]()
    kinds = list(ALL_KINDS)
    for _ in range(chance.randint(0, DEVIATIONS_MAX)):
        at += 1 + int(chance.expovariate(1 / CALLS_APART))
        kind = chance.choice(kinds)
        if kind == "frozen":
            kinds.remove(kind)
        found.append(Deviation(at, kind))
    return tuple(found)


def told(seed: int) -> str:
    drawn = draw(seed)
    life = lived(Life(drawn.script, drawn.deviations))
    is_set = {
        one.name: str(getattr(drawn.script, one.name))
        for one in fields(Script)
        if getattr(drawn.script, one.name) not in (one.default, NEVER)
    }
    return "\n".join(
        [f"{is_set}", f"{drawn.deviations}", *life.trace, *(f"BROKEN: {one}" for one in life.broken)]
    )
