"""Adds late calls to a seed's history, since many short histories cost no more than a long one."""

from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

from tests.simulation.seeded.acceptor import posts
from tests.simulation.seeded.bank import administers
from tests.simulation.seeded.canceller import cancels
from tests.simulation.seeded.chance import Chance
from tests.simulation.seeded.facts import DECIMALS, number, text
from tests.simulation.seeded.moments import HOUR_MS, Late, Life, Recorded, overdue
from tests.world.expressions import Item

PLACES, STUCK_PLACES = 5, 20
"""Moments per seed at which late calls are made, and further ones around LIMBO."""

CALLS = 16

_WITH_FAULTS = 0.15
_WITH_FAULTS_IF_RARE = {"KycDecided": 0.6, "StartSettlements": 0.6}
"""The share of a rare function's late calls that have faults."""


def late_calls(world: Recorded, seed: int) -> Iterator[tuple[Life, Late, Chance | None]]:
    random, moments = Random(f"afterwards {seed}"), world.moments
    for row, acts in _places(world, random):
        seen = acts if random.random() < 0.5 else random.randrange(acts + 1)
        life = Life(
            moments,
            content_of(row),
            with_orders=administers(seed),
            with_cancels=cancels(seed),
            with_posts=posts(seed),
        )
        now = moments[acts].now
        aheads = (0, 0, 0, moments[seen].now - now, HOUR_MS, -HOUR_MS, overdue(life.row(seen), now))
        asked = life.asked(seen, acts)
        for call in random.sample(list(asked), CALLS):
            early = random.choice((0, 1, 1, 2))
            often = _WITH_FAULTS_IF_RARE.get(asked[call].function, _WITH_FAULTS)
            chance = Chance(random.getrandbits(48), now) if random.random() < often else None
            yield life, Late(call, seen, acts, early, random.choice(aheads)), chance


def _places(world: Recorded, random: Random) -> Iterator[tuple[Item, int]]:
    """Yield moments, random or around LIMBO, each with a settlement's last row."""
    rows = [world.oracle.settlements[key] for key in sorted(world.oracle.settlements)]
    for _ in range(PLACES if rows else 0):
        yield random.choice(rows), random.randrange(len(world.moments))
    stuck = []
    for row in rows:
        if "resolutions" in row and (number(row, "resolutions") or text(row, "status") == "LIMBO"):
            key = row["pk"]["S"].partition("#")[2]
            statuses = [text(moment.row(key), "status") for moment in world.moments]
            stuck += [(row, at) for at, status in enumerate(statuses) if status in ("COMPENSATING", "LIMBO")]
    for _ in range(STUCK_PLACES if stuck else 0):
        yield random.choice(stuck)


def content_of(row: Item) -> dict[str, Any]:
    """Return a claim's content as functions receive it."""
    content: dict[str, Any] = {name: text(row, name) for name in ("payer", "payee", "currency")}
    content["key"] = row["pk"]["S"].partition("#")[2]
    for name in ("amount", "fee"):
        content[name] = str(Decimal(number(row, name)).scaleb(-DECIMALS[content["currency"]]))
    if "deadline_seconds" in row:
        content["deadline_seconds"] = number(row, "deadline_seconds")
    return content
