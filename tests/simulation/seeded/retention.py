"""Lets entries expire days after a world's end, and draws later calls from its own random stream."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random

from settlement.core.store.wire import from_wire
from settlement.proof import Look, reconcile
from settlement.proof.proof import Stage
from tests.simulation.seeded.afterwards import content_of
from tests.simulation.seeded.chance import Chance
from tests.simulation.seeded.deployments import RETENTION_DAYS
from tests.simulation.seeded.facts import POISON, demand, key_of, number, text
from tests.simulation.seeded.lawful import prove, retention_at
from tests.simulation.seeded.moments import HOUR_MS, Late, Life, Moment, Recorded
from tests.simulation.seeded.rules import MOVES
from tests.world.environment import NOW
from tests.world.expressions import Item
from tests.world.memory_dynamodb import Key

PLACES, CALLS = 3, 10
"""Settlements that get calls after their entries expire, and calls per settlement."""

_OFTEN = (
    "BeginCompensation reverse SETTLED",
    "HoldFunds",
    "ReleaseFunds",
    "CollectFee",
    "VerifyKyc approved",
)
_WITH_FAULTS = 0.2


@dataclass(frozen=True)
class Expired:
    moment: Moment
    gone: tuple[Item, ...]


def expire(world: Recorded, seed: int) -> Expired:
    random, last = Random(f"retention {seed}"), world.moments[-1]
    _misses_what_is_gone_too_early(last, random)
    now = last.now + (RETENTION_DAYS * 24 + random.choice((1, 30, 200))) * HOUR_MS
    due = [key for key, item in last.items.items() if _is_due(item, now)]
    share = random.choice((1, 1, 0.5))
    gone = {key: last.items[key] for key in due if random.random() < share}
    for (pk, sk), item in gone.items():
        demand(pk.startswith("ENTRIES#"), "nothing but an entry expires", pk, sk)
        demand(text(item, "step") in MOVES, "what a person has ordered stays", pk, sk)
    left = {key: item for key, item in last.items.items() if key not in gone}
    prove(left, retention_at(world.config, now))
    oracle = last.oracle.copy()
    oracle.gone = (*oracle.gone, *gone.values())
    return Expired(replace(last, now=now, items=left, oracle=oracle), tuple(gone.values()))


def later_calls(world: Recorded, expired: Expired, seed: int) -> Iterator[tuple[Life, Late, Chance | None]]:
    """Yield calls on settlements whose entries expired, from callers with recent or old reads."""
    random, moments = Random(f"after the end {seed}"), [*world.moments, expired.moment]
    keys = sorted({key_of(entry) for entry in expired.gone} & world.oracle.settlements.keys())
    acts = len(moments) - 1
    for _ in range(PLACES if keys else 0):
        life = Life(moments, content_of(world.oracle.settlements[random.choice(keys)]))
        seen = acts if random.random() < 0.5 else random.randrange(acts + 1)
        asked = life.asked(seen, acts)
        often = [call for call in _OFTEN if call in asked]
        for call in (*often, *random.sample(list(asked), CALLS)):
            faults = (
                Chance(random.getrandbits(48), moments[acts].now) if random.random() < _WITH_FAULTS else None
            )
            yield life, Late(call, seen, acts, random.choice((0, 1, 1, 2))), faults


def _is_due(item: Item, now: int) -> bool:
    at = NOW + timedelta(milliseconds=now)
    return "expires_at" in item and number(item, "expires_at") <= at.timestamp()


def _misses_what_is_gone_too_early(last: Moment, random: Random) -> None:
    """Check that the proof finds an entry that is missing before its expiry."""
    now = last.now + 24 * HOUR_MS
    young = [key for key, item in last.items.items() if _is_young(item, now)]
    if not young:
        return
    missing = random.choice(young)
    rows = [from_wire(item) for key, item in last.items.items() if _is_read(key) and key != missing]
    stage = Stage(retention=retention_at(last.config, now))
    findings = reconcile(rows, lambda difference: Look.DISAGREES, stage=stage)
    demand(findings.faults, "an entry that is missing before its time is found", missing)


def _is_young(item: Item, now: int) -> bool:
    return "expires_at" in item and not _is_due(item, now + 25 * HOUR_MS)


def _is_read(key: Key) -> bool:
    return not key[0].endswith(POISON)
