"""Draws a pay run's life from a seed: a script with more orders, and up to four deviations."""

import random
from dataclasses import dataclass, replace

from settlement.payruns.file import Kind
from tests.simulation.drawn_lives import Outcome, lived
from tests.simulation.payruns.lives import KINDS, SCRIPTS, Deviation, Kind_, Life, Order, Script

DEVIATIONS_MAX, ORDERS_MAX = 4, 3
CALLS = 500
"""Deviations are drawn among this many first calls, but most lives have fewer."""

ALL_KINDS: tuple[Kind_, ...] = tuple(sorted({kind for kinds in KINDS.values() for kind in kinds}))
ROUTES, PERSONS = ("propose", "approve", "run", "pause", "cancel"), ("ada", "bea", "carl")
MINUTES = 20
LAST: tuple[Order, ...] = ((40, "run", "carl"), (70, "cancel", "ada"))
"""Final orders: continue a paused run; cancel one that waits for its settings."""


@dataclass(frozen=True)
class Drawn:
    seed: int
    script: Script
    deviations: tuple[Deviation, ...]


def draw(seed: int) -> Drawn:
    chance = random.Random(seed)
    script = _script(chance)
    return Drawn(seed, script, _deviations(chance, script))


def _script(chance: random.Random) -> Script:
    base = chance.choice(SCRIPTS)
    more = [
        (chance.randrange(MINUTES), chance.choice(ROUTES), chance.choice(PERSONS))
        for _ in range(chance.randint(0, ORDERS_MAX))
    ]
    return replace(base, orders=(*base.orders, *more, *LAST), batches=chance.randint(1, 9))


def _deviations(chance: random.Random, script: Script) -> tuple[Deviation, ...]:
    """Draw deviations. At most one freezes a caller, for two hours, because a life ends after three."""
    kinds = [one for one in ALL_KINDS if one != "money" or script.kind is Kind.PAYOUTS]
    found = list[Deviation]()
    for at in sorted(chance.sample(range(1, CALLS + 1), chance.randint(0, DEVIATIONS_MAX))):
        kind = chance.choice(kinds)
        if kind == "frozen":
            kinds.remove(kind)
        found.append(Deviation(at, kind))
    return tuple(found)


def outcome(seed: int) -> Outcome:
    drawn = draw(seed)
    life = lived(Life(drawn.script, drawn.deviations))
    calls = len(life.places)
    met = sum(one.at <= calls for one in drawn.deviations)
    return Outcome(seed, calls, met, frozenset(map(str, life.statuses)), tuple(life.broken))


def told(seed: int) -> str:
    drawn = draw(seed)
    life = lived(Life(drawn.script, drawn.deviations))
    calls = (f"{at} {kind} {what}" for at, (kind, what) in enumerate(life.places, 1))
    broken = (f"BROKEN: {one}" for one in life.broken)
    return "\n".join((f"{drawn.script}", f"{drawn.deviations}", *calls, *broken))
